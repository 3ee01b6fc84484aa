"""Filters that call services over gRPC, with a control plane: the cluster of a service may come after the listener that names it.
Until then calls of it have failed, as in Envoy."""

import harness
import xds_control_plane as xds
from envoy_messages import make
from envoy_services_test import OK, Service
from harness import LONG, wait_until
from xds_support import EXTENSIONS, HTTP_OPTIONS, DataPlane, Envoy, XdsTest, cluster, endpoints, get, listener, route_config

CLUSTER, LISTENER, ENDPOINTS = xds.CLUSTER, xds.LISTENER, xds.ENDPOINTS
HTTP2 = {"typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
    "@type": HTTP_OPTIONS, "explicit_http_config": {"http2_protocol_options": {}}}}}
TO_SERVICE = {"envoy_grpc": {"cluster_name": "service"}, "timeout": "5s"}


def authorizer(**more):
    return {"name": "envoy.filters.http.ext_authz", "typed_config": {
        "@type": EXTENSIONS + "filters.http.ext_authz.v3.ExtAuthz", "grpc_service": TO_SERVICE, "transport_api_version": "V3", **more}}


def limits(**more):
    return {"name": "envoy.filters.http.ratelimit", "typed_config": {
        "@type": EXTENSIONS + "filters.http.ratelimit.v3.RateLimit", "domain": "edge", "timeout": "5s",
        "rate_limit_service": {"grpc_service": TO_SERVICE, "transport_api_version": "V3"}, **more}}


class Scenarios:
    DELTA, FAILED = False, 503

    def resources(self, guard, *services):
        """Each request is counted by a rate limit service, if there is one; `guard` is a filter or None."""
        web = listener("web", self.port, rds="all")
        if guard:
            web["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"].insert(0, guard)
        routes = [{"match": {"prefix": "/"}, "route": {
            "cluster": "one", "rate_limits": [{"actions": [{"remote_address": {}}]}]}}]
        return [web, route_config("all", routes=routes), cluster("one", self.a.address), *services]

    def service(self, kind, response):
        service = self.keep(Service(kind, lambda _: response))
        self.addCleanup(lambda: self.assertEqual(service.problems, []))
        return service

    def authorization(self):
        return self.service("CheckRequest", make("CheckResponse", status=make("Status", code=0)))

    def counting(self):
        return self.service("RateLimitRequest", make("RateLimitResponse", overall_code=OK))

    def starts_with(self, guard):
        """The listener is there before the cluster of its service."""
        plane = self.control_plane(*self.resources(guard))
        self.data_plane(plane, delta=self.DELTA)
        plane.wait_for_ack(LISTENER, "1")
        return plane

    def expect_status(self, status):
        wait_until(lambda: (get(self.port) or [0])[0] == status, 10, f"a response with {status}")

    def check_comes_later(self, guard, service, meanwhile):
        plane = self.starts_with(guard)
        self.expect_status(meanwhile)
        self.assertEqual(service.requests, [])
        # The cluster without its endpoints is not enough.
        plane.set(self.resources(guard, cluster("service", **HTTP2)), "2")
        plane.wait_for_request(ENDPOINTS, "service")
        self.expect_status(meanwhile)
        plane.set(self.resources(guard, cluster("service", **HTTP2), endpoints("service", service.address)), "3")
        wait_until(lambda: get(self.port) == (200, "a") and service.requests, 10, "a call of the service")
        # It goes, and its calls fail again.
        plane.set(self.resources(guard), "4")
        self.expect_status(meanwhile)
        self.assertEqual(plane.nacks(), [])

    def test_authorizer_comes_later(self):
        self.check_comes_later(authorizer(), self.authorization(), self.FAILED)

    def test_authorizer_may_fail(self):
        self.check_comes_later(authorizer(failure_mode_allow=True), self.authorization(), 200)

    def test_rate_limit_service_comes_later(self):
        self.check_comes_later(limits(failure_mode_deny=True), self.counting(), self.FAILED_LIMIT)

    def test_rate_limit_service_may_fail(self):
        self.check_comes_later(limits(), self.counting(), 200)

    def test_listener_in_use_gets_an_authorizer(self):
        """The new version is used at once: nobody may pass unchecked while the cluster comes."""
        plane = self.control_plane(*self.resources(None))
        self.data_plane(plane, delta=self.DELTA)
        self.expect("a")
        plane.withheld = {CLUSTER}
        service = self.authorization()
        plane.set(self.resources(authorizer(), cluster("service", service.address, **HTTP2)), "2")
        plane.wait_for_ack(LISTENER, "2")
        self.expect_status(self.FAILED)
        plane.release()
        self.expect("a")
        self.assertTrue(service.requests)
        self.assertEqual(plane.nacks(), [])


class Sluice(Scenarios, XdsTest):
    DATA_PLANE, FAILED_LIMIT = DataPlane, 503


class SluiceIncremental(Sluice):
    DELTA = True


if LONG:
    class WithEnvoy(Scenarios, XdsTest):
        DATA_PLANE, FAILED, FAILED_LIMIT = Envoy, 403, 500


if __name__ == "__main__":
    harness.main()
