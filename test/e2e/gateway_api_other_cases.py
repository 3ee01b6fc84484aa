"""Tests of the Gateway API's conformance suite (v1.6.1) for other kinds than HTTPRoute, as data like that of gateway_api_cases.py. A
case with `grpc` is a call, one with `server_name` is HTTP on TLS, all others are HTTP, also where the proxy sees only bytes; one with
`refused` must get no response. `backends` are further names of servers, for policies.

What the suite says of status fields alone is not in here, nor is UDPRoute."""

from gateway_api_cases import V1, V2, V3, WEB, at_gateway, backend_ref, exact, grant, headers, listener, route, rule, to

SERVICE = "gateway_api_conformance.echo_basic.grpcecho.GrpcEcho"
G1, G2, G3 = "grpc-1", "grpc-2", "grpc-3"  # Servers for gRPC.
TLS1, TLS2 = "tls-1", "tls-2"              # Servers with a certificate for *.example.com, *.com and a URI.
IDENTITY = "spiffe://abc.example.com/test-identity"
UNIMPLEMENTED = "12"


# ---- GRPCRoute

def grpc_route(*rules, **more):
    return route(*rules, kind="GRPCRoute", **more)


def method(name):
    return {"method": {"service": SERVICE, "method": name}}


def call(backend, name="Echo", host=None, **sends):
    """A call that must reach the backend. Without a backend it must fail with the status `unimplemented`."""
    return {"grpc": f"/{SERVICE}/{name}", "path": f"/{SERVICE}/{name}", "host": host, "sends": sends, "backend": backend,
            "grpc_status": "0" if backend else UNIMPLEMENTED}


# ---- TLSRoute and TCPRoute

def tls_route(backend, *hostnames, **more):
    return route(rule(backend), kind="TLSRoute", hostnames=hostnames, **more)


def tls_listener(name, hostname=None, port=0, terminates=False):
    tls = {"mode": "Terminate", "certificateRefs": [{"name": "certificate"}]} if terminates else {"mode": "Passthrough"}
    return listener(name, hostname, port, protocol="TLS", tls=tls)


def tcp_listener(name, port=0):
    return listener(name, port=port, protocol="TCP")


def tcp_route(*backends, **more):
    return route(rule(list(backends)), kind="TCPRoute", **more)


def over_tls(backend, host, **more):
    return {**to(backend, host=host), "server_name": host, **more}


def closed(host=None, port=0):
    """A connection that must end without a response."""
    return {"path": "/", "host": host, "port": port, "refused": True, **({"server_name": host} if host else {})}


# ---- BackendTLSPolicy

def policy(name, target, hostname="abc.example.com", authority="ca", names=(), **more):
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
            "metadata": {"name": name, "namespace": "infra", **more},
            "spec": {"targetRefs": [{"group": "gateway.envoyproxy.io", "kind": "Backend", "name": target}],
                     "validation": {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": authority}], "hostname": hostname,
                                    **({"subjectAltNames": list(names)} if names else {})}}}


def dns(name):
    return {"type": "Hostname", "hostname": name}


def uri(name):
    return {"type": "URI", "uri": name}


def to_each(*names):
    """A route with a path for each of these backends."""
    return route(*(rule(name, exact("/" + name)) for name in names), hostnames=["abc.example.com"])


def reaches(name, server_name="abc.example.com"):
    return to(TLS1, "/" + name, "abc.example.com", came_by=server_name)


def fails(name):
    return {"path": "/" + name, "host": "abc.example.com", "statuses": [500, 502, 503]}


def https_listener(name):
    return listener(name, protocol="HTTPS", tls={"certificateRefs": [{"name": "certificate"}]})


OTHERS = {
    "GRPCRouteExactMethodMatching": {
        "feature": "GRPCRoute", "routes": [grpc_route(rule(G1, method("Echo")), rule(G2, method("EchoTwo")))],
        "cases": [call(G1), call(G2, "EchoTwo"), call(None, "EchoThree")]},
    "GRPCRouteHeaderMatching": {
        "feature": "GRPCRoute",
        "routes": [grpc_route(rule(G1, headers(version="one")), rule(G2, headers(version="two")),
                              rule(G1, headers(version="two", color="orange")), rule(G1, headers(color="blue"), headers(color="green")),
                              rule(G2, headers(color="red"), headers(color="yellow")))],
        "cases": [call(G1, version="one"), call(G2, version="two"), call(G1, version="two", color="orange"),
                  call(G2, version="two", color="blue"), call(G1, color="blue"), call(G1, color="green"), call(G2, color="red"),
                  call(G2, color="yellow"), call(None, color="orange"), call(None, other="one"), call(None, color="purple")]},
    "GRPCRouteListenerHostnameMatching": {
        "feature": "GRPCRoute",
        "listeners": [listener("l1", "bar.com"), listener("l2", "foo.bar.com"), listener("l3", "*.bar.com"), listener("l4", "*.foo.com")],
        "routes": [grpc_route(rule(G1), name="r1", parents=at_gateway("l1")), grpc_route(rule(G2), name="r2", parents=at_gateway("l2")),
                   grpc_route(rule(G3), name="r3", parents=at_gateway("l3", "l4"))],
        "cases": [call(G1, host="bar.com"), call(G2, host="foo.bar.com"), call(G3, host="baz.bar.com"), call(G3, host="boo.bar.com"),
                  call(G3, host="multiple.prefixes.bar.com"), call(G3, host="multiple.prefixes.foo.com"), call(None, host="foo.com"),
                  call(None, host="no.matching.host")]},
    "GRPCRouteNamedRule": {
        "feature": "GRPCRouteNamedRouteRule",
        "routes": [grpc_route(rule(G1, method("Echo"), name="named-rule"), rule(G2, method("EchoTwo")))],
        "cases": [call(G1), call(G2, "EchoTwo")]},
    "GRPCRouteWeight": {
        "feature": "GRPCRoute",
        "routes": [grpc_route(rule([backend_ref(G1, weight=70), backend_ref(G2, weight=30), backend_ref(G3, weight=0)]))],
        "cases": [{**call(G1), "shares": {G1: 0.7, G2: 0.3}}]},
    "TLSRouteSimpleSameNamespace": {
        "feature": "TLSRoute", "listeners": [tls_listener("tls", "*.example.com")],
        "routes": [tls_route(TLS1, "abc.example.com", parents=at_gateway())],
        "cases": [over_tls(TLS1, "abc.example.com", came_by="abc.example.com")]},
    "TLSRouteHostnameIntersection": {
        "feature": "TLSRoute",
        "listeners": [tls_listener("l1", "abc.example.com", 0), tls_listener("l2", "*.example.com", 1), tls_listener("l3", "*.com", 2),
                      tls_listener("l4", None, 3)],
        "routes": [tls_route(backend, host, name=name, parents=at_gateway(section)) for name, section, host, backend in (
            ("r1", "l1", "*.example.com", TLS1), ("r2", "l2", "abc.example.com", TLS1), ("r3", "l2", "*.com", TLS2),
            ("r4", "l3", "abc.example.com", TLS1), ("r5", "l3", "*.example.com", TLS2), ("r6", "l4", "abc.example.com", TLS1),
            ("r7", "l4", "*.com", TLS2))],
        "cases": [over_tls(TLS1, "abc.example.com", port=port) for port in range(4)] + [
            over_tls(TLS2, "other.example.com", port=port) for port in (1, 2, 3)] + [
            closed("non.matching.com", port) for port in (0, 1, 2)] + [closed("non.matching.org", 3)]},
    "TLSRouteInvalidNoMatchingListenerHostname": {
        "feature": "TLSRoute", "listeners": [tls_listener("l1", "www.example.com"), tls_listener("l2", "*.example.com", 1)],
        "routes": [tls_route(TLS1, "www.nomatch.com", "*.nomatch.com", name="r1", parents=at_gateway("l1")),
                   tls_route(TLS1, "www.different.com", "*.different.com", name="r2", parents=at_gateway("l2"))],
        "cases": [closed("www.nomatch.com"), closed("www.different.com", 1)]},
    "TLSRouteInvalidBackendRefNonexistent": {
        "feature": "TLSRoute", "listeners": [tls_listener("tls")],
        "routes": [tls_route("nothing", "example.com", parents=at_gateway())], "cases": [closed("example.com")]},
    "TLSRouteInvalidBackendRefUnknownKind": {
        "feature": "TLSRoute", "listeners": [tls_listener("tls")],
        "routes": [tls_route({"group": "other.test", "kind": "Nothing", "name": TLS1, "port": 443}, "example.com",
                             parents=at_gateway())], "cases": [closed("example.com")]},
    "TLSRouteInvalidReferenceGrant": {
        "feature": "TLSRoute", "listeners": [tls_listener("tls", "*.example.com")],
        "routes": [tls_route([backend_ref(WEB, namespace="web")], "abc.example.com", parents=at_gateway())],
        "more": [grant("kind", from_kind="Gateway"), grant("namespace", from_kind="TLSRoute", from_namespace="other"),
                 grant("name", from_kind="TLSRoute", to_name="other")],
        "cases": [closed("abc.example.com")]},
    "TLSRouteTerminateSimpleSameNamespace": {
        "feature": "TLSRouteModeTerminate", "listeners": [tls_listener("tls", "example.org", terminates=True)],
        "routes": [tls_route(V1, "example.org", parents=at_gateway())], "cases": [over_tls(V1, "example.org", came_by=None)]},
    "TLSRouteMixedTerminationSameNamespace": {
        "feature": "TLSRouteModeMixed",
        "listeners": [tls_listener("terminate", "example.org", terminates=True), tls_listener("passthrough", "abc.example.com")],
        "routes": [tls_route(V1, "example.org", name="r1", parents=at_gateway("terminate")),
                   tls_route(TLS1, "abc.example.com", name="r2", parents=at_gateway("passthrough"))],
        "cases": [over_tls(V1, "example.org", came_by=None), over_tls(TLS1, "abc.example.com", came_by="abc.example.com")]},
    "TCPRouteWeightedRouting": {
        "feature": "TCPRoute", "listeners": [tcp_listener("tcp")],
        "routes": [tcp_route(backend_ref(V1, weight=70), backend_ref(V2, weight=30), backend_ref(V3, weight=0), parents=at_gateway("tcp"))],
        "cases": [{"path": "/", "shares": {V1: 0.7, V2: 0.3}}]},
    "TCPRouteParentRefAttachAll": {
        "feature": "TCPRoute", "listeners": [tcp_listener(f"l{port}", port) for port in range(4)],
        "routes": [tcp_route(V1, parents=at_gateway())], "cases": [to(V1, port=port) for port in range(4)]},
    "TCPRouteParentRefSectionName": {
        "feature": "TCPRoute", "listeners": [tcp_listener(f"l{port}", port) for port in range(3)],
        "routes": [tcp_route(name, name=f"r{number}", parents=at_gateway(f"l{number}")) for number, name in enumerate((V1, V2, V3))],
        "cases": [to(V1, port=0), to(V2, port=1), to(V3, port=2)]},
    "TCPRouteReferenceGrant": {
        "feature": "TCPRoute", "listeners": [tcp_listener("tcp")],
        "routes": [tcp_route(backend_ref(WEB, namespace="web"), parents=at_gateway())], "more": [grant(from_kind="TCPRoute")],
        "cases": [to(WEB)]},
    "TCPRouteInvalidCrossNamespaceBackendRef": {
        "feature": "TCPRoute", "listeners": [tcp_listener("tcp")],
        "routes": [tcp_route(backend_ref(WEB, namespace="web"), parents=at_gateway())], "cases": [closed()]},
    "TCPRouteInvalidBackendRefNonexistent": {
        "feature": "TCPRoute", "listeners": [tcp_listener("tcp")], "routes": [tcp_route("nothing", parents=at_gateway())],
        "cases": [closed()]},
    "BackendTLSPolicy": {
        "feature": "BackendTLSPolicy", "listeners": [https_listener("https")],
        "backends": {name: TLS1 for name in ("valid", "host-mismatch", "cert-mismatch")},
        "more": [policy("valid", "valid"), policy("host-mismatch", "host-mismatch", "mismatch.example.net"),
                 policy("cert-mismatch", "cert-mismatch", authority="other-ca")],
        "routes": [to_each("valid", "host-mismatch", "cert-mismatch"),
                   route(rule("valid"), name="again", hostnames=["example.org"], parents=at_gateway())],
        "cases": [{**reaches("valid"), "port": "same"}, {**fails("host-mismatch"), "port": "same"},
                  {**fails("cert-mismatch"), "port": "same"},
                  over_tls(TLS1, "example.org", came_by="abc.example.com")]},
    "BackendTLSPolicySANValidation": {
        "feature": "BackendTLSPolicySANValidation",
        "backends": {name: TLS1 for name in ("dns", "other-dns", "uri", "other-uri", "several", "other-several")},
        "more": [policy(target, target, names=names) for target, names in (
            ("dns", [dns("abc.example.com")]), ("other-dns", [dns("abc.example.net")]), ("uri", [uri(IDENTITY)]),
            ("other-uri", [uri(IDENTITY.replace("abc", "def"))]), ("several", [uri(IDENTITY), dns("abc.example.com")]),
            ("other-several", [uri(IDENTITY.replace("abc", "def")), dns("def.example.net")]))],
        "routes": [to_each("dns", "other-dns", "uri", "other-uri", "several", "other-several")],
        "cases": [reaches(name) for name in ("dns", "uri", "several")] + [
            fails(name) for name in ("other-dns", "other-uri", "other-several")]},
    "BackendTLSPolicyConflictResolution": {
        "feature": "BackendTLSPolicy", "backends": {"conflict": TLS1},
        "more": [policy("first", "conflict", "other.example.com", creationTimestamp="2026-01-01T00:00:00Z"),
                 policy("second", "conflict", creationTimestamp="2026-01-02T00:00:00Z")],
        "routes": [to_each("conflict")], "cases": [reaches("conflict", "other.example.com")]},
    "BackendTLSPolicyInvalidCACertificateRef": {
        "feature": "BackendTLSPolicy", "backends": {name: TLS1 for name in ("missing", "malformed")},
        "more": [policy("missing", "missing", authority="nothing"), policy("malformed", "malformed", authority="malformed-ca")],
        "routes": [to_each("missing", "malformed")], "cases": [fails("missing"), fails("malformed")]},
}
