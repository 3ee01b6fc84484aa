"""Envoy Gateway, which takes resources of the Gateway API from a file, with Sluice as its data plane: the HTTPRoute tests of the
Gateway API's conformance suite as far as they need no cluster (gateway_api_cases.py), those of other kinds of routes and policies
(gateway_api_other_cases.py), and changes under load.

Envoy Gateway takes ten minutes to build, so this runs only with SLUICE_E2E_LONG=1; if the environment variable ENVOY names that
program, also with Envoy in the place of Sluice. Each class prints its results as a table."""

import contextlib
import http.client
import os
import ssl
import tempfile
import time
import unittest

import gateway_api_support as support
import harness
from gateway_api_cases import TESTS, V1, V2, V3, WEB, prefix, route, rule
from gateway_api_other_cases import G1, G2, G3, IDENTITY, OTHERS, TLS1, TLS2
from gateway_api_support import (Echo, GrpcEcho, authority, backend, difference, gateway, grpc_difference, namespaces, request,
                                 secret)
from harness import LONG, SLOWNESS, print_note, wait_until
from http_peers_support import HttpTest
from origins import free_port
from tls_support import Certificates
from xds_support import Load

# Tests that Sluice does not pass, and why: each must fail, so that this list stays true.
MISSING = {
    "CORS": "`*` with credentials would let every page send requests in the name of users",
}
# The same of Envoy.
MISSING_IN_ENVOY = {
    "HTTPSListenerDetectMisdirectedRequests": "the status is 404, not 421",
}


@unittest.skipUnless(LONG, "only in the long form")
class Gateway(HttpTest):
    """One control plane and one data plane for all tests of a class."""

    PLANE, EXPECTED_FAILURES, LONGEST_EDIT = None, {}, None  # In seconds.

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if cls.PLANE is None:
            raise unittest.SkipTest("a base")
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.echoes = {name: cls.own(Echo(name)) for name in (V1, V2, V3, WEB, "web2", "ws")}
        identity = cls.files.make("identity", names=f"DNS:*.example.com,DNS:*.com,URI:{IDENTITY}")
        cls.echoes |= {name: cls.own(Echo(name, identity)) for name in (TLS1, TLS2)}
        cls.echoes |= {name: cls.own(GrpcEcho(name)) for name in (G1, G2, G3)}
        cls.ports = {key: free_port() for key in ("same", *range(4))}
        cls.names = cls.files.make("names", "example.org", "second-example.org", "*.wildcard.org")
        other = cls.own_folder()
        Certificates(other)
        texts = {"malformed-ca": "nothing"}
        for key, folder in (("ca", cls.folder), ("other-ca", other)):
            with open(folder + "/ca.pem", encoding="ascii") as file:
                texts[key] = file.read()
        cls.authorities = [authority(*each) for each in texts.items()]
        folder = cls.own_folder()
        cls.control = cls.own(support.EnvoyGateway(folder))
        cls.plane = cls.own(type(cls.PLANE.__name__, (cls.PLANE,), {"CERTIFICATES": cls.control.certificates})(support.XDS_ADDRESS))
        cls.version = 0

    @classmethod
    def own(cls, resource):
        cls.stack.callback(resource.close)
        return resource

    @classmethod
    def own_folder(cls):
        return cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-e2e-"))

    def base(self, h2c=None):
        """Namespaces, the gateway `same`, and backends."""
        made = [*namespaces("infra", "web"), *self.authorities]
        made.append(gateway("same", [{"name": "http", "protocol": "HTTP", "port": self.ports["same"]}]))
        for name, echo in self.echoes.items():
            made.append(backend(name, echo.address, namespace="web" if name.startswith("web") else "infra",
                                protocols=["ws"] if name == "ws" else ()))
        if h2c:
            made.append(backend("h2c", h2c.address, protocols=["h2c"]))
        return made

    def take_over(self, resources, seconds=8):
        """Sets resources and waits until they are in use: a route for a name of this version says so. Returns why not, or None."""
        cls = type(self)
        cls.version += 1
        host = f"ready-{cls.version}.test"
        rejected = len(self.plane.rejected())
        self.control.set([*resources, route(rule(V1), name="ready", hostnames=[host])])
        deadline = time.monotonic() + seconds * SLOWNESS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if request(self.ports["same"], {"path": "/", "host": host}).status == 200:
                    return None
            if self.plane.rejected()[rejected:]:  # Then other resources are in use as soon as else, or never.
                deadline = min(deadline, time.monotonic() + 2 * SLOWNESS)
            if self.plane.process.poll() is not None:
                return "the data plane has ended"
            time.sleep(0.02)
        why = dict.fromkeys(self.plane.rejected()[rejected:])
        return "rejected: " + "; ".join(why) if why else "not taken over in time"

    # ---- Cases

    def try_case(self, case):
        """What of a case is not as it says, as text; or None."""
        try:
            return self.try_requests(case)
        except (OSError, http.client.HTTPException) as problem:
            return None if case.get("refused") else repr(problem)

    def try_requests(self, case):
        port = self.ports[case.get("port", 0 if self.has_own else "same")]
        context = self.context() if "server_name" in case else None
        if case.get("refused"):
            if context:  # A certificate for another name is no refusal.
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return f"status {request(port, case, context=context).status}"
        if "shares" in case:
            return self.try_shares(case, port)
        if "grpc" in case:
            return grpc_difference(port, case)[0]
        before = {name: self.echoes[name].count for name in case.get("mirrors", {})}
        count = 200 if any(share < 1 for share in case.get("mirrors", {}).values()) else 1
        for number in range(count):
            what = difference(case, request(port, case, f"{self.version}-{time.monotonic()}-{number}", context), port)
            if what:
                return what
        for name, share in case.get("mirrors", {}).items():
            wanted = share * count

            def came(name=name):
                return self.echoes[name].count - before[name]
            if count == 1:
                with contextlib.suppress(AssertionError):
                    wait_until(came, 2)
            else:
                time.sleep(0.5)
            if abs(came() - wanted) > (0 if count == 1 else count * 0.12):
                return f"{came()} of {count} requests were mirrored to {name}, not {wanted}"
        return None

    def try_shares(self, case, port):
        count, found = 500, dict.fromkeys(case["shares"], 0)
        for _ in range(count):
            if "grpc" in case:
                what, name = grpc_difference(port, case)
                if what or name not in found:
                    return f"{what}, came to {name}"
                found[name] += 1
                continue
            reply = request(port, case)
            name = reply.seen.get("backend")
            if name not in found:
                return f"status {reply.status}, came to {name}"
            found[name] += 1
            field = case.get("sent_by_backend")
            if field and [field.lower(), name] not in reply.seen["headers"]:
                return f"{name} did not get its field {field}"
        for name, share in case["shares"].items():
            if abs(found[name] - share * count) > 0.1 * count:
                return f"shares {found}"
        return None

    def run_test(self, name):
        """What of a test of the suite fails, as text; or None."""
        test, h2c = TESTS.get(name) or OTHERS[name], None
        if any(ref.get("name") == "h2c" for each in test["routes"] for part in each["spec"]["rules"]
               for ref in part.get("backendRefs", ())):
            h2c = self.web_server(("http2", False))
        resources = self.base(h2c) + test.get("more", []) + test["routes"]
        resources += [backend(key, self.echoes[of].address) for key, of in test.get("backends", {}).items()]
        self.has_own = "listeners" in test
        if self.has_own:
            resources.append(gateway("own", [{**each, "port": self.ports[each["port"]]} for each in test["listeners"]]))
            resources.append(secret("certificate", self.names))
        # Envoy Gateway keeps a field that an edit removes (hostnames, say) from an object of the same name: so there is none first.
        why = self.take_over(self.base()) or self.take_over(resources)
        if why:
            return why
        for case in test["cases"]:
            if case.get("refused"):
                time.sleep(0.5)  # It would be so before there is a listener, too.
            deadline = time.monotonic() + 2 * SLOWNESS  # Other listeners and routes may be later than the route that says so.
            while True:
                what = self.try_case(case)
                if not what:
                    break
                if time.monotonic() > deadline:
                    return f"{case.get('method', 'GET')} {case.get('host') or ''}{case['path']}: {what}"
                time.sleep(0.1)
        return None

    def test_http_routes(self):
        self.run_tests(TESTS, "HTTPRoute")

    def test_other_kinds(self):
        self.run_tests(OTHERS)

    def run_tests(self, tests, kind=""):
        results = {name: self.run_test(name) for name in tests if os.environ.get("GATEWAY_API_TEST", name) == name}
        passed = [name for name, why in results.items() if not why]
        print_note("\n    ".join([f"{type(self).__name__}: {len(passed)} of {len(results)} tests pass"] + [
            f"{kind}{name} | {tests[name]['feature']} | {why or 'yes'}" for name, why in results.items()]))
        failed = {name: why for name, why in results.items() if why}
        self.assertEqual(sorted(failed), sorted(set(self.EXPECTED_FAILURES) & set(results)), failed)

    # ---- Changes

    def test_changes_under_load(self):
        """An edit of the file is in use in less than a second, and no request fails."""
        self.has_own, times = False, []
        resources = self.base()
        self.assertIsNone(self.take_over([*resources, route(rule(V1), hostnames=["a.test"])]))
        load = self.keep(Load(self.ports["same"]))
        wait_until(lambda: load.count > 20)
        for number in range(20):
            name = (V2, V1)[number % 2]
            # Another path too, so that it is not only the cluster that changes.
            when = self.control.set([*resources, route(rule(V3, prefix(f"/other-{number}")), rule(name), hostnames=["a.test"])])
            self.assertIsNone(self.wait_for(name, when, times))
        load.end()
        times.sort()
        print_note(f"{type(self).__name__}: {len(times)} edits, from the save to the first request: median "
                   f"{times[len(times) // 2] * 1000:.0f} ms, longest {times[-1] * 1000:.0f} ms; {load.count} requests, "
                   f"{len(load.failures)} failed")
        if self.LONGEST_EDIT:
            self.assertEqual(load.failures, [])
            self.assertLess(times[-1], self.LONGEST_EDIT * SLOWNESS)

    def wait_for(self, name, when, times):
        while time.monotonic() < when + 10 * SLOWNESS:
            if request(self.ports["same"], {"path": "/", "host": "a.test"}).seen.get("backend") == name:
                times.append(time.monotonic() - when)
                return None
            time.sleep(0.002)
        return f"{name} did not come: {self.plane.output()[-2000:]}"


class Sluice(Gateway):
    PLANE, EXPECTED_FAILURES, LONGEST_EDIT = support.SluicePlane, MISSING, 1


if LONG and os.environ.get("ENVOY"):
    class WithEnvoy(Gateway):
        PLANE, EXPECTED_FAILURES = support.EnvoyPlane, MISSING_IN_ENVOY


if __name__ == "__main__":
    harness.main()
