"""What the HTTPRoute tests of the Gateway API's conformance suite (v1.6.1) say about traffic, as data for gateway_api_peers_test.py:
routes, requests, and what must become of them. Names are those of the suite. Services are Backends of Envoy Gateway here, since there
is no cluster; so what the suite says of status fields, Services and pods is not in here.

A test has `feature` (the name among the suite's features), `routes`, and `cases`; perhaps `listeners` (of a gateway of its own, with
port numbers 0 to 2 for ports that are chosen by the run), and `more` (other resources)."""

V1, V2, V3, WEB = "v1", "v2", "v3", "web"


# ---- Resources

def backend_ref(name, **more):
    return {"group": "gateway.envoyproxy.io", "kind": "Backend", "name": name, **more}


def prefix(path, **more):
    return {"path": {"type": "PathPrefix", "value": path}, **more}


def exact(path):
    return {"path": {"type": "Exact", "value": path}}


def headers(**fields):
    return {"headers": [{"name": name, "value": value} for name, value in fields.items()]}


def queries(**fields):
    return {"queryParams": [{"name": name, "value": value} for name, value in fields.items()]}


def rule(backends, *matches, **more):
    """To the names of backends, or to references."""
    refs = [backend_ref(each) if isinstance(each, str) else each for each in ([backends] if isinstance(backends, str) else backends)]
    return {**({"matches": list(matches)} if matches else {}), "backendRefs": refs, **more}


def filtered(kind, **options):
    key = "urlRewrite" if kind == "URLRewrite" else kind[0].lower() + kind[1:]
    return {"type": kind, key: options}


def redirect(path, /, **options):
    return {"matches": [prefix(path)], "filters": [filtered("RequestRedirect", **options)]}


def route(*rules, name="route", namespace="infra", parents=({"name": "same"},), hostnames=(), kind="HTTPRoute", version="v1"):
    return {"apiVersion": f"gateway.networking.k8s.io/{version}", "kind": kind, "metadata": {"name": name, "namespace": namespace},
            "spec": {"parentRefs": list(parents), **({"hostnames": list(hostnames)} if hostnames else {}), "rules": list(rules)}}


def grant(name="grant", from_group="gateway.networking.k8s.io", from_kind="HTTPRoute", from_namespace="infra",
          to_group="gateway.envoyproxy.io", to_kind="Backend", to_name=WEB):
    return {"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": name, "namespace": "web"},
            "spec": {"from": [{"group": from_group, "kind": from_kind, "namespace": from_namespace}],
                     "to": [{"group": to_group, "kind": to_kind, "name": to_name}]}}


def values(**fields):
    return [{"name": name.replace("_", "-"), "value": value} for name, value in fields.items()]


CHANGES = {"set": values(X_Header_Set="set-overwrites-values"),
           "add": values(X_Header_Add="header-val-1", X_Header_Add_Append="header-val-2"), "remove": ["X-Header-Remove"]}
CHANGED = {"sends": {"X-Header-Remove": "remove-val", "X-Header-Add-Append": "append-val-1", "X-Header-Set": "set-val"},
           "sent": {"X-Header-Add": "header-val-1", "X-Header-Add-Append": "append-val-1,header-val-2",
                    "X-Header-Set": "set-overwrites-values"}, "absent": ["X-Header-Remove"]}
MODIFY = filtered("RequestHeaderModifier", **CHANGES)


# ---- Cases

def to(backend, path="/", host=None, **more):
    """A request that must come to a backend. `sends` are its fields, `sent` those that must come, `absent` those that must not."""
    return {"backend": backend, "path": path, "host": host, **more}


def refused(path="/", host=None, status=404, **more):
    return {"status": status, "path": path, "host": host, **more}


def leads(path, status=302, /, **where):
    """A redirect; `where` has what of its URL is asked for: scheme, host, port (None: the default one, or none), path."""
    return {"status": status, "path": path, "leads": where}


def header_tests(kind):
    def one(path, **options):
        return rule(V1, prefix(path), filters=[filtered(kind, **options)])
    several = {"set": values(X_Header_Set_1="header-set-1", X_Header_Set_2="header-set-2"),
               "add": values(X_Header_Add_1="header-add-1", X_Header_Add_2="header-add-2", X_Header_Add_3="header-add-3"),
               "remove": ["X-Header-Remove-1", "X-Header-Remove-2"]}
    return route(one("/set", set=values(X_Header_Set="set-overwrites-values")),
                 one("/add", add=values(X_Header_Add="add-appends-values")),
                 one("/remove", remove=["X-Header-Remove"]), one("/multiple", **several),
                 one("/case-insensitivity", set=values(X_Header_Set="header-set"), add=values(X_Header_Add="header-add"),
                     remove=["X-Header-Remove"]))


# The fields that are given, and those that must come out of it.
HEADER_CASES = [
    ("/set", {"Some-Other-Header": "val"}, {"Some-Other-Header": "val", "X-Header-Set": "set-overwrites-values"}, []),
    ("/set", {"X-Header-Set": "some-other-value"}, {"X-Header-Set": "set-overwrites-values"}, []),
    ("/add", {"Some-Other-Header": "val"}, {"X-Header-Add": "add-appends-values"}, []),
    ("/add", {"X-Header-Add": "some-other-value"}, {"X-Header-Add": "some-other-value,add-appends-values"}, []),
    ("/remove", {"X-Header-Remove": "val"}, {}, ["X-Header-Remove"]),
    ("/multiple", {"X-Header-Set-2": "set-val-2", "X-Header-Add-2": "add-val-2", "X-Header-Remove-2": "remove-val-2",
                   "Another-Header": "another-header-val"},
     {"X-Header-Set-1": "header-set-1", "X-Header-Set-2": "header-set-2", "X-Header-Add-1": "header-add-1",
      "X-Header-Add-2": "add-val-2,header-add-2", "X-Header-Add-3": "header-add-3", "Another-Header": "another-header-val"},
     ["X-Header-Remove-1", "X-Header-Remove-2"]),
    ("/case-insensitivity", {"x-header-set": "original-val-set", "x-header-add": "original-val-add",
                             "x-header-remove": "original-val-remove"},
     {"X-Header-Set": "header-set", "X-Header-Add": "original-val-add,header-add"}, ["x-header-remove"])]

MATCHING = [to(V1), to(V1, "/example"), to(V1, sends={"Version": "one"}), to(V2, "/v2"), to(V2, "/v2/example"),
            to(V2, sends={"Version": "two"}), to(V2, "/v2/"), to(V1, "/v2example"), to(V1, "/foo/v2/example")]

PREFLIGHT = {"method": "OPTIONS", "path": "/cors-1"}


def preflight(path, origin, method="GET", ask=None, allowed=True, **fields):
    sends = {"Origin": origin, "Access-Control-Request-Method": method, **({"Access-Control-Request-Headers": ask} if ask else {})}
    return {"method": "OPTIONS", "path": path, "statuses": [200, 204] if allowed else [200, 204, 403], "sends": sends,
            "responds": {"access-control-allow-origin": [origin, "*"][:1 if "credentials" in fields else 2],
                         **{f"access-control-{name.replace('_', '-')}": list(each) for name, each in fields.items()
                            if name != "credentials"},
                         **({"access-control-allow-credentials": ["true"]} if "credentials" in fields else {})} if allowed else {},
            "responds_not": ([] if "credentials" in fields else ["access-control-allow-credentials"]) if allowed
            else ["access-control-allow-origin"]}


def cors(path, origins, **options):
    return rule(V1, prefix(path), filters=[{"type": "CORS", "cors": {"allowOrigins": origins, **options}}])


ASKED, BOTH = "x-header-1, x-header-2", ["x-header-1,x-header-2", "x-header-2,x-header-1"]

TLS_HOSTS = ["example.org", "second-example.org", "*.wildcard.org", "fourth-example.wildcard.org"]
TLS_LISTENERS = [{"name": name, "port": 0, "protocol": "HTTPS", **({"hostname": host} if host else {}),
                  "tls": {"certificateRefs": [{"name": "certificate"}]}}
                 for name, host in (("https", None), ("with-hostname", "second-example.org"), ("with-wildcard", "*.wildcard.org"),
                                    ("matching-wildcard", "fourth-example.wildcard.org"))]


def at_gateway(*sections, **more):
    return [{"name": "own", "sectionName": section, **more} for section in sections] or [{"name": "own", **more}]


def listener(name, hostname=None, port=0, **more):
    return {"name": name, "port": port, "protocol": "HTTP", **({"hostname": hostname} if hostname else {}), **more}


def misdirected(name, host, backend, status=200):
    return {"path": "/detect", "host": host, "server_name": name, **({"backend": backend} if status == 200 else {}),
            **({} if status == 200 else {"statuses": [404, 421] if status == 404 else [status]})}


TESTS = {
    "SimpleSameNamespace": {"feature": "HTTPRoute", "routes": [route(rule(V1))], "cases": [to(V1)]},
    "ExactPathMatching": {
        "feature": "HTTPRoute", "routes": [route(rule(V1, exact("/one")), rule(V2, exact("/two")))],
        "cases": [to(V1, "/one"), to(V2, "/two"), refused("/"), refused("/one/example"), refused("/two/"), refused("/Two")]},
    "HeaderMatching": {
        "feature": "HTTPRoute",
        "routes": [route(rule(V1, headers(version="one")), rule(V2, headers(version="two")),
                         rule(V1, headers(version="two", color="orange")), rule(V1, headers(color="blue"), headers(color="green")),
                         rule(V2, headers(color="red"), headers(color="yellow")))],
        "cases": [to(backend, sends=sends) for backend, sends in (
            (V1, {"Version": "one"}), (V2, {"Version": "two"}), (V1, {"Version": "two", "Color": "orange"}),
            (V2, {"Version": "two", "Color": "blue"}), (V1, {"Color": "blue"}), (V1, {"Color": "green"}), (V2, {"Color": "red"}),
            (V2, {"Color": "yellow"}))] + [refused(sends=sends) for sends in (
                {"Color": "orange"}, {"Some-Other-Header": "one"}, {"Color": "purple"})]},
    "Matching": {
        "feature": "HTTPRoute",
        "routes": [route(rule(V1, prefix("/"), headers(version="one")), rule(V2, prefix("/v2"), headers(version="two")))],
        "cases": MATCHING},
    "MatchingAcrossRoutes": {
        "feature": "HTTPRoute",
        "routes": [route(rule(V1, prefix("/"), headers(version="one")), hostnames=["example.com", "example.net"]),
                   route(rule(V2, prefix("/v2"), headers(version="two")), name="part2", hostnames=["example.com"])],
        "cases": [{**case, "host": "example.com"} for case in MATCHING] + [
            to(V1, "/v2", "example.net"), to(V1, "/v2/example", "example.net"), to(V1, "/", "example.net", sends={"Version": "two"})]},
    "PathMatchOrder": {
        "feature": "HTTPRoute",
        "routes": [route(rule(V1, exact("/match")), rule(V2, exact("/match/exact")), rule(V3, exact("/match/exact/one")),
                         rule(V3, prefix("/match/")), rule(V1, prefix("/match/prefix/")), rule(V2, prefix("/match/prefix/one")))],
        "cases": [to(V3, "/match/exact/one"), to(V2, "/match/exact"), to(V1, "/match"), to(V2, "/match/prefix/one/any"),
                  to(V1, "/match/prefix/any"), to(V3, "/match/any")]},
    "MethodMatching": {
        "feature": "HTTPRouteMethodMatching",
        "routes": [route(rule(V1, {"method": "POST"}), rule(V2, {"method": "GET"}), rule(V1, prefix("/path1", method="GET")),
                         rule(V2, {**headers(version="one"), "method": "PUT"}),
                         rule(V3, prefix("/path2", method="POST", **headers(version="two"))),
                         rule(V1, prefix("/path3", method="PATCH"), prefix("/path4", method="DELETE", **headers(version="three"))),
                         rule(V1, prefix("/path5")), rule(V2, {"method": "PATCH"}), rule(V3, headers(version="four")))],
        "cases": [to(V1, method="POST"), to(V2, method="GET"), refused(method="HEAD"), to(V1, "/path1", method="GET"),
                  to(V2, method="PUT", sends={"version": "one"}), to(V3, "/path2", method="POST", sends={"version": "two"}),
                  to(V1, "/path3", method="PATCH"), to(V1, "/path4", method="DELETE", sends={"version": "three"}),
                  refused(method="PUT"), refused("/path4", method="DELETE"), to(V1, "/path5", method="PATCH"),
                  to(V2, method="PATCH", sends={"version": "four"})]},
    "QueryParamMatching": {
        "feature": "HTTPRouteQueryParamMatching",
        "routes": [route(rule(V1, queries(animal="whale")), rule(V2, queries(animal="dolphin")),
                         rule(V3, queries(animal="dolphin", color="blue"), queries(ANIMAL="Whale")),
                         rule(V1, prefix("/path1", **queries(animal="whale"))),
                         rule(V2, {**headers(version="one"), **queries(animal="whale")}),
                         rule(V3, prefix("/path2", **headers(version="two"), **queries(animal="whale"))),
                         rule(V1, prefix("/path3", **queries(animal="shark")),
                              prefix("/path4", **headers(version="three"), **queries(animal="kraken"))),
                         rule(V1, prefix("/path5")), rule(V2, queries(animal="hydra")), rule(V3, headers(version="four")))],
        "cases": [to(V1, "/?animal=whale"), to(V2, "/?animal=dolphin"), to(V2, "/?animal=dolphin&color=red"),
                  to(V3, "/?animal=dolphin&color=blue"), to(V3, "/?ANIMAL=Whale"), refused("/?animal=horse"), refused("/?animal=whalesong"),
                  refused("/"), to(V1, "/path1?animal=whale"), to(V2, "/?animal=whale", sends={"version": "one"}),
                  to(V3, "/path2?animal=whale", sends={"version": "two"}), to(V1, "/path3?animal=shark"),
                  to(V1, "/path4?animal=kraken", sends={"version": "three"}), refused("/?animal=shark"), refused("/path4?animal=kraken"),
                  to(V1, "/path5?animal=hydra"), to(V3, "/?animal=hydra", sends={"version": "four"})]},
    "CrossNamespace": {
        "feature": "HTTPRoute", "routes": [route(rule(WEB), namespace="web", parents=[{"name": "same", "namespace": "infra"}])],
        "cases": [to(WEB)]},
    "ReferenceGrant": {
        "feature": "ReferenceGrant", "routes": [route(rule([backend_ref(WEB, namespace="web")]))], "more": [grant()],
        "cases": [to(WEB)]},
    "InvalidReferenceGrant": {
        "feature": "ReferenceGrant", "routes": [route(rule([backend_ref(WEB, namespace="web")]))],
        "more": [grant("from-group", from_group="other.test"), grant("from-kind", from_kind="Gateway"),
                 grant("from-namespace", from_namespace="other"), grant("to-group", to_group="other.test"),
                 grant("to-kind", to_kind="Secret"), grant("to-name", to_name="other")],
        "cases": [refused(status=500)]},
    "PartiallyInvalidViaInvalidReferenceGrant": {
        "feature": "ReferenceGrant",
        "routes": [route(rule([backend_ref("web2", namespace="web")], prefix("/v2")), rule([backend_ref(WEB, namespace="web")]))],
        "more": [grant()], "cases": [refused("/v2", status=500), to(WEB)]},
    "InvalidCrossNamespaceBackendRef": {
        "feature": "ReferenceGrant", "routes": [route(rule([backend_ref(WEB, namespace="web")]))], "cases": [refused(status=500)]},
    "InvalidBackendRefUnknownKind": {
        "feature": "HTTPRoute", "routes": [route(rule([{"group": "other.test", "kind": "Nothing", "name": V1, "port": 80}]))],
        "cases": [refused(status=500)]},
    "InvalidNonExistentBackendRef": {
        "feature": "HTTPRoute", "routes": [route(rule("nothing"))], "cases": [refused(status=500)]},
    "OmittedBackendRefs": {
        "feature": "HTTPRoute",
        "routes": [route({"matches": [exact("/omitted")]}, rule([], exact("/empty")), rule(V1, prefix("/")))],
        "cases": [to(V1, "/forward"), refused("/omitted", status=500), refused("/empty", status=500)]},
    "NamedRule": {
        "feature": "HTTPRouteNamedRouteRule",
        "routes": [route(rule(V1, prefix("/named"), name="named-rule"), rule(V2, prefix("/unnamed")))],
        "cases": [to(V1, "/named"), to(V2, "/unnamed")]},
    "Weight": {
        "feature": "HTTPRoute",
        "routes": [route(rule([backend_ref(V1, weight=70), backend_ref(V2, weight=30), backend_ref(V3, weight=0)]))],
        "cases": [{"path": "/", "shares": {V1: 0.7, V2: 0.3}}]},
    "HostnameIntersection": {
        "feature": "HTTPRoute",
        "listeners": [listener("l1", "very.specific.com"), listener("l2", "*.wildcard.io"), listener("l3", "*.anotherwildcard.io")],
        "routes": [
            route(rule(V1, prefix("/s1")), name="s1", parents=at_gateway(),
                  hostnames=["non.matching.com", "*.nonmatchingwildcard.io", "very.specific.com"]),
            route(rule(V2, prefix("/s2")), name="s2", parents=at_gateway(),
                  hostnames=["non.matching.com", "wildcard.io", "foo.wildcard.io", "bar.wildcard.io", "foo.bar.wildcard.io"]),
            route(rule(V3, prefix("/s3")), name="s3", parents=at_gateway(), hostnames=["non.matching.com", "*.specific.com"]),
            route(rule(V1, prefix("/s4")), name="s4", parents=at_gateway(), hostnames=["*.anotherwildcard.io"]),
            route(rule(V2, prefix("/s5")), name="s5", parents=at_gateway(), hostnames=["specific.but.wrong.com", "wildcard.io"])],
        "cases": [to(V1, "/s1", "very.specific.com"), to(V1, "/s1", "very.specific.com:1234"), to(V3, "/s3", "very.specific.com")] + [
            to(V2, "/s2", host) for host in ("foo.wildcard.io", "bar.wildcard.io", "foo.bar.wildcard.io")] + [
            to(V1, "/s4", host) for host in ("foo.anotherwildcard.io", "bar.anotherwildcard.io", "foo.bar.anotherwildcard.io")] + [
            refused(path, host) for path, host in (
                ("/s1", "non.matching.com"), ("/s1", "foo.nonmatchingwildcard.io"), ("/s1", "foo.wildcard.io"),
                ("/none", "very.specific.com"), ("/s2", "non.matching.com"), ("/s2", "wildcard.io"), ("/s2", "very.specific.com"),
                ("/none", "foo.wildcard.io"), ("/s3", "non.matching.com"), ("/s3", "foo.specific.com"), ("/s3", "foo.wildcard.io"),
                ("/s4", "anotherwildcard.io"), ("/s4", "foo.wildcard.io"), ("/s4", "very.specific.com"),
                ("/none", "foo.anotherwildcard.io"), ("/s5", "specific.but.wrong.com"), ("/s5", "wildcard.io"))]},
    "ListenerHostnameMatching": {
        "feature": "HTTPRoute",
        "listeners": [listener("l1", "bar.com"), listener("l2", "foo.bar.com"), listener("l3", "*.bar.com"), listener("l4", "*.foo.com")],
        "routes": [route(rule(V1), name="r1", parents=at_gateway("l1")), route(rule(V2), name="r2", parents=at_gateway("l2")),
                   route(rule(V3), name="r3", parents=at_gateway("l3", "l4"))],
        "cases": [to(V1, host="bar.com"), to(V2, host="foo.bar.com"), to(V3, host="baz.bar.com"), to(V3, host="boo.bar.com"),
                  to(V3, host="multiple.prefixes.bar.com"), to(V3, host="multiple.prefixes.foo.com"), refused(host="foo.com"),
                  refused(host="no.matching.host")]},
    "ListenerPortMatching": {
        "feature": "HTTPRouteDestinationPortMatching",
        "listeners": [listener("l1", "foo.com"), listener("l2", "foo.com", 1), listener("l3", "bar.com", 1),
                      listener("l4", "foo.com", 2), listener("l5", "bar.com", 2)],
        "routes": [route(rule(V1), name="r1", parents=at_gateway("l1")), route(rule(V2), name="r2", parents=at_gateway("l2", "l3")),
                   route(rule(V3), name="r3", parents=at_gateway("l4"))],
        "cases": [to(V1, host="foo.com"), to(V2, host="foo.com", port=1), to(V2, host="bar.com", port=1), to(V3, host="foo.com", port=2),
                  refused(host="bar.com", port=2)]},
    "MultipleGateways": {
        "feature": "HTTPRoute", "listeners": [listener("http")],
        "routes": [route(rule(V1, prefix("/shared")), parents=[{"name": "same"}, {"name": "own"}]),
                   route(rule(V2, prefix("/")), name="first"), route(rule(V3, prefix("/")), name="second", parents=at_gateway())],
        "cases": [to(V1, "/shared", port="same"), to(V2, port="same"), to(V1, "/shared"), to(V3)]},
    "HTTPSListener": {
        "feature": "HTTPRoute", "listeners": TLS_LISTENERS,
        "routes": [route(rule(V1), name="r1", parents=at_gateway(), hostnames=["example.org"]),
                   route(rule(V2), name="r2", parents=at_gateway("with-hostname"))],
        "cases": [{**to(V1, host="example.org"), "server_name": "example.org"},
                  {**refused(host="unknown-example.org"), "server_name": "example.org", "statuses": [404, 421], "status": None},
                  {**to(V2, host="second-example.org"), "server_name": "second-example.org"}]},
    "HTTPSListenerDetectMisdirectedRequests": {
        "feature": "GatewayHTTPSListenerDetectMisdirectedRequests", "listeners": TLS_LISTENERS,
        "routes": [route(rule(backend, prefix("/detect")), name=name, parents=at_gateway(section), hostnames=hosts)
                   for name, section, backend, hosts in (
                       ("r1", "https", V1, ["example.org"]), ("r2", "with-hostname", V2, ()), ("r3", "with-wildcard", V3, ()),
                       ("r4", "matching-wildcard", V1, ()))],
        "cases": [misdirected("example.org", "example.org", V1), misdirected("second-example.org", "second-example.org", V2),
                  misdirected("third-example.wildcard.org", "third-example.wildcard.org", V3),
                  misdirected("fourth-example.wildcard.org", "fourth-example.wildcard.org", V1),
                  misdirected("example.org", "second-example.org", None, 421), misdirected("second-example.org", "example.org", None, 421),
                  misdirected("third-example.wildcard.org", "fourth-example.wildcard.org", None, 421)]},
    "RequestHeaderModifier": {
        "feature": "HTTPRoute", "routes": [header_tests("RequestHeaderModifier")],
        "cases": [to(V1, path, sends=given, sent=made, absent=absent) for path, given, made, absent in HEADER_CASES]},
    "ResponseHeaderModifier": {
        "feature": "HTTPRouteResponseHeaderModification", "routes": [header_tests("ResponseHeaderModifier")],
        "cases": [to(V1, path, sends={"X-Echo-Set-Header": ",".join(f"{name}:{value}" for name, value in given.items())},
                     responds={name: [value] for name, value in made.items()}, responds_not=absent)
                  for path, given, made, absent in HEADER_CASES]},
    "RequestHeaderModifierBackendWeights": {
        "feature": "HTTPRouteBackendRequestHeaderModification",
        "routes": [route(rule([backend_ref(name, weight=10, filters=[filtered("RequestHeaderModifier", set=values(Backend=name))])
                               for name in (V1, V2)]))],
        "cases": [{"path": "/", "shares": {V1: 0.5, V2: 0.5}, "sent_by_backend": "Backend"}]},
    "RewriteHost": {
        "feature": "HTTPRouteHostRewrite",
        "routes": [route(rule(V1, prefix("/one"), filters=[filtered("URLRewrite", hostname="one.example.org")]),
                         rule(V2, filters=[filtered("URLRewrite", hostname="example.org")]),
                         rule(V2, prefix("/and-headers"), filters=[filtered("URLRewrite", hostname="test.example.org"), MODIFY]),
                         hostnames=["rewrite.example"])],
        "cases": [to(V1, "/one", "rewrite.example", came_for="one.example.org"), to(V2, "/two", "rewrite.example", came_for="example.org"),
                  to(V2, "/and-headers", "rewrite.example", came_for="test.example.org", **CHANGED)]},
    "RewritePath": {
        "feature": "HTTPRoutePathRewrite",
        "routes": [route(*(rule(V1, prefix(path), filters=[filtered("URLRewrite", path={"type": kind, key: made}), *more])
                           for path, kind, key, made, more in (
                               ("/prefix/one", "ReplacePrefixMatch", "replacePrefixMatch", "/one", ()),
                               ("/strip-prefix", "ReplacePrefixMatch", "replacePrefixMatch", "/", ()),
                               ("/full/one", "ReplaceFullPath", "replaceFullPath", "/one", ()),
                               ("/full/and-headers", "ReplaceFullPath", "replaceFullPath", "/test", (MODIFY,)),
                               ("/prefix/and-headers", "ReplacePrefixMatch", "replacePrefixMatch", "/prefix", (MODIFY,)))))],
        "cases": [to(V1, "/prefix/one/two", came_to="/one/two"), to(V1, "/strip-prefix/three", came_to="/three"),
                  to(V1, "/strip-prefix", came_to="/"), to(V1, "/full/one/two", came_to="/one"),
                  to(V1, "/full/and-headers/test", came_to="/test", **CHANGED),
                  to(V1, "/prefix/and-headers/one", came_to="/prefix/one", **CHANGED)]},
    "RedirectHostAndStatus": {
        "feature": "HTTPRoute",
        "routes": [route(redirect("/hostname", hostname="example.org"), redirect("/and-status", hostname="example.org", statusCode=301))],
        "cases": [leads("/hostname", host="example.org"), leads("/and-status", 301, host="example.org")]},
    "RedirectPath": {
        "feature": "HTTPRoutePathRedirect",
        "routes": [route(*(redirect(path, path={"type": kind, key: made}, **more) for path, kind, key, made, more in (
            ("/original-prefix", "ReplacePrefixMatch", "replacePrefixMatch", "/replacement-prefix", {}),
            ("/full", "ReplaceFullPath", "replaceFullPath", "/full-path-replacement", {}),
            ("/path-and-host", "ReplacePrefixMatch", "replacePrefixMatch", "/replacement-prefix", {"hostname": "example.org"}),
            ("/path-and-status", "ReplacePrefixMatch", "replacePrefixMatch", "/replacement-prefix", {"statusCode": 301}),
            ("/full-path-and-host", "ReplaceFullPath", "replaceFullPath", "/replacement-full", {"hostname": "example.org"}),
            ("/full-path-and-status", "ReplaceFullPath", "replaceFullPath", "/replacement-full", {"statusCode": 301}))))],
        "cases": [leads("/original-prefix/lemon", path="/replacement-prefix/lemon"),
                  leads("/full/path/original", path="/full-path-replacement"),
                  leads("/path-and-host", host="example.org", path="/replacement-prefix"),
                  leads("/path-and-status", 301, path="/replacement-prefix"),
                  leads("/full-path-and-host", host="example.org", path="/replacement-full"),
                  leads("/full-path-and-status", 301, path="/replacement-full")]},
    "RedirectPort": {
        "feature": "HTTPRoutePortRedirect",
        "routes": [route(redirect("/port", port=8083), redirect("/and-host", port=8083, hostname="example.org"),
                         redirect("/and-status", port=8083, statusCode=301),
                         redirect("/all", port=8083, statusCode=302, hostname="example.org"))],
        "cases": [leads("/port", port=8083), leads("/and-host", port=8083, host="example.org"), leads("/and-status", 301, port=8083),
                  leads("/all", port=8083, host="example.org")]},
    "RedirectScheme": {
        "feature": "HTTPRouteSchemeRedirect",
        "routes": [route(redirect("/scheme", scheme="https"), redirect("/and-host", scheme="https", hostname="example.org"),
                         redirect("/and-status", scheme="https", statusCode=301),
                         redirect("/all", scheme="https", statusCode=302, hostname="example.org"))],
        "cases": [leads("/scheme", scheme="https"), leads("/and-host", scheme="https", host="example.org"),
                  leads("/and-status", 301, scheme="https"), leads("/all", scheme="https", host="example.org")]},
    "RedirectPortAndScheme": {
        "feature": "HTTPRoutePortRedirect",
        "routes": [route(*(redirect(path, hostname="example.org", **options) for path, options in (
            ("/nil-nil", {}), ("/nil-80", {"port": 80}), ("/nil-8080", {"port": 8080}), ("/https-nil", {"scheme": "https"}),
            ("/https-443", {"scheme": "https", "port": 443}), ("/https-8443", {"scheme": "https", "port": 8443}))))],
        "cases": [leads("/nil-nil", scheme="http", host="example.org", port="own"), leads("/nil-80", scheme="http", port=None),
                  leads("/nil-8080", scheme="http", port=8080), leads("/https-nil", scheme="https", port=None),
                  leads("/https-443", scheme="https", port=None), leads("/https-8443", scheme="https", port=8443)]},
    **{f"{status}Redirect": {
        "feature": f"HTTPRoute{status}RedirectStatusCode",
        "routes": [route({"matches": [prefix("/other")], "filters": [filtered("RequestRedirect", statusCode=status, hostname="a.test")]})],
        "cases": [leads("/other", status, host="a.test")]} for status in (303, 307, 308)},
    "TimeoutRequest": {
        "feature": "HTTPRouteRequestTimeout",
        "routes": [route(rule(V1, prefix("/short"), timeouts={"request": "500ms"}), rule(V1, prefix("/none"), timeouts={"request": "0s"}))],
        "cases": [to(V1, "/short"), refused("/short?delay=1", status=504), to(V1, "/none?delay=1")]},
    "TimeoutBackendRequest": {
        "feature": "HTTPRouteBackendTimeout",
        "routes": [route(rule(V1, prefix("/short"), timeouts={"backendRequest": "500ms"}),
                         rule(V1, prefix("/none"), timeouts={"backendRequest": "0s"}))],
        "cases": [to(V1, "/short"), refused("/short?delay=1", status=504), to(V1, "/none?delay=1")]},
    "Retry": {
        "feature": "HTTPRouteRetry",
        "routes": [route(rule(V3, prefix("/500-3"), retry={"codes": [500], "attempts": 3}),
                         rule(V3, prefix("/all-2"), retry={"codes": [500, 502, 503, 504], "attempts": 2}))],
        "cases": [to(V3, "/500-3?fails=2&code=500"), refused("/500-3?fails=4&code=500", status=500),
                  refused("/500-3?fails=1&code=503", status=503)] + [
            to(V3, f"/all-2?fails=1&code={code}") for code in (500, 502, 503, 504)] + [
            refused(f"/all-2?fails=3&code={code}", status=code) for code in (500, 502, 503, 504)]},
    "RequestMirror": {
        "feature": "HTTPRouteRequestMirror",
        "routes": [route(rule(V1, prefix("/mirror"), filters=[filtered("RequestMirror", backendRef=backend_ref(V2))]),
                         rule(V1, prefix("/and-headers"), filters=[MODIFY, filtered("RequestMirror", backendRef=backend_ref(V2))]))],
        "cases": [to(V1, "/mirror", mirrors={V2: 1}), to(V1, "/and-headers", mirrors={V2: 1}, **CHANGED)]},
    "RequestMultipleMirrors": {
        "feature": "HTTPRouteRequestMultipleMirrors",
        "routes": [route(rule(V1, prefix("/mirror"), filters=[filtered("RequestMirror", backendRef=backend_ref(name))
                                                             for name in (V2, V3)]))],
        "cases": [to(V1, "/mirror", mirrors={V2: 1, V3: 1})]},
    "RequestPercentageMirror": {
        "feature": "HTTPRouteRequestPercentageMirror",
        "routes": [route(rule(V1, prefix("/percent"), filters=[filtered("RequestMirror", backendRef=backend_ref(V2), percent=20)]),
                         rule(V1, prefix("/fraction"), filters=[filtered("RequestMirror", backendRef=backend_ref(V2),
                                                                         fraction={"numerator": 25, "denominator": 50})]))],
        "cases": [to(V1, "/percent", mirrors={V2: 0.2}), to(V1, "/fraction", mirrors={V2: 0.5})]},
    "BackendProtocolH2C": {
        "feature": "HTTPRouteBackendProtocolH2C", "routes": [route(rule("h2c"))],
        "cases": [{"path": "/small", "status": 200, "body": "x" * 100}]},
    "BackendProtocolWebSocket": {
        "feature": "HTTPRouteBackendProtocolWebSocket", "routes": [route(rule("ws"))],
        "cases": [{"path": "/", "status": 101, "websocket": True}]},
    "CORS": {
        "feature": "HTTPRouteCORS",
        "routes": [route(
            cors("/cors-1", ["https://www.foo.com", "https://*.bar.com"], allowMethods=["GET", "OPTIONS"],
                 allowHeaders=["x-header-1", "x-header-2"], exposeHeaders=["x-header-3", "x-header-4"], allowCredentials=True,
                 maxAge=3600),
            cors("/cors-2", ["https://www.foo.com"], allowMethods=["*"]),
            cors("/cors-origin", ["*"], allowMethods=["PUT"], allowCredentials=False),
            cors("/cors-all", ["*"], allowMethods=["*"], allowHeaders=["*"], allowCredentials=True),
            cors("/cors-open", ["*"], allowMethods=["*"], allowHeaders=["*"], allowCredentials=False))],
        "cases": [preflight("/cors-1", origin, ask=ASKED, credentials=True, allow_methods=["GET,OPTIONS", "OPTIONS,GET"],
                            allow_headers=BOTH, max_age=["3600"])
                  for origin in ("https://www.foo.com", "https://www.bar.com", "https://xpto.www.bar.com")] + [
            preflight("/cors-1", "https://foobar.com", allowed=False),
            preflight("/cors-2", "https://www.foo.com", "POST", allow_methods=["POST", "*"]),
            preflight("/cors-origin", "https://foobar.com:12345", "PUT", allow_methods=["PUT"]),
            preflight("/cors-all", "https://other.foo.com", "PUT", ASKED, credentials=True, allow_methods=["PUT"], allow_headers=BOTH),
            preflight("/cors-open", "https://other.foo.com", "PUT", ASKED, allow_methods=["PUT", "*"], allow_headers=[*BOTH, "*"]),
            to(V1, "/cors-1", sends={"Origin": "https://www.foo.com"}, responds={"access-control-allow-origin": ["https://www.foo.com"]}),
            to(V1, "/cors-1", sends={"Origin": "https://foobar.com"}, responds_not=["access-control-allow-origin"]),
            to(V1, "/cors-all", sends={"Origin": "https://other.foo.com"},
               responds={"access-control-allow-origin": ["https://other.foo.com"], "access-control-allow-credentials": ["true"]})]},
}
