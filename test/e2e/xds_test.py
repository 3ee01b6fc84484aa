"""`sluice run --xds`: configuration from a control plane, as it changes, fails, lies, dies and returns. With SLUICE_E2E_LONG=1 and
the environment variable ENVOY, which names that program, each scenario is also run with Envoy in the place of Sluice: what is
expected of both is then known to be right."""

import json
import os
import random
import signal
import ssl
import subprocess
import time
import unittest
import urllib.request

import harness
import xds_control_plane as xds
from harness import LONG, MIB, SANITIZER, SLOWNESS, wait_until
from origins import Origin, connect, free_port
from xds_support import (ADS, EXTENSIONS, ROUTER, RSS_LIMIT, DataPlane, Envoy, XdsTest, cluster, endpoints, get, listener, listens,
                         route_config, secret)

CLUSTER, ENDPOINTS, LISTENER, ROUTES = xds.CLUSTER, xds.ENDPOINTS, xds.LISTENER, xds.ROUTES
SECRET, EXTENSION = xds.SECRET, xds.EXTENSION
RBAC = EXTENSIONS + "filters.http.rbac.v3.RBAC"


def denies(prefix):
    """A filter that refuses requests for a path."""
    return {"@type": RBAC, "rules": {"action": "DENY", "policies": {"paths": {
        "permissions": [{"url_path": {"path": {"prefix": prefix}}}], "principals": [{"any": True}]}}}}


class Scenarios:
    """What each client of a control plane does."""

    DELTA = False

    def start_plane(self, *resources, **options):
        return self.control_plane(*resources, **options)

    def start(self, plane, **options):
        return self.data_plane(plane, delta=self.DELTA, **options)

    def static(self):
        return [listener("web", self.port, routes=route_config("all", "one")), cluster("one", self.a.address)]

    def dynamic(self, *addresses, chosen="one"):
        """Everything by name: routes by RDS, addresses of the cluster `one` by EDS; `two` is static."""
        return [listener("web", self.port, rds="all"), route_config("all", chosen), cluster("one"),
                endpoints("one", *(addresses or [self.a.address])), cluster("two", self.b.address)]

    # ---- Resources of all types

    def test_listener_with_routes_and_cluster(self):
        plane = self.start_plane(*self.static())
        self.start(plane)
        self.expect("a")
        plane.wait_for_ack(LISTENER, "1")
        plane.wait_for_ack(CLUSTER, "1")
        self.assertEqual(plane.nacks(), [])
        self.assertEqual((plane.nodes[0].id, plane.nodes[0].cluster), ("node-1", "edge"))

    def test_by_name(self):
        plane = self.start_plane(*self.dynamic())
        self.start(plane)
        self.expect("a")
        for kind in (LISTENER, CLUSTER, ROUTES, ENDPOINTS):
            plane.wait_for_ack(kind, "1")
        self.assertEqual(plane.nacks(), [])
        self.assertIn((ROUTES, ["all"]), plane.requests)
        self.assertIn((ENDPOINTS, ["one"]), plane.requests)

    def test_endpoints_move(self):
        plane = self.start_plane(*self.dynamic())
        self.start(plane)
        self.expect("a")
        load = self.load()
        wait_until(lambda: load.count > 20)
        plane.set(self.dynamic(self.b.address), "2")
        plane.wait_for_ack(ENDPOINTS, "2")
        self.expect("b")
        self.check_load(load)
        self.assertEqual({get(self.port) for _ in range(10)}, {(200, "b")})

    def test_routes_change_under_load(self):
        plane = self.start_plane(*self.dynamic())
        self.start(plane)
        self.expect("a")
        load = self.load()
        wait_until(lambda: load.count > 20)
        for version in range(2, 8):
            load.bodies.clear()
            before = time.monotonic()
            plane.set(self.dynamic(chosen="two" if version % 2 == 0 else "one"), str(version))
            body = "b" if version % 2 == 0 else "a"
            wait_until(lambda: load.first(body) and load.first(body) > before, 10, f"the route of version {version}")
            self.assertLess(load.first(body) - before, 1 * SLOWNESS)
            plane.wait_for_ack(ROUTES, str(version))
        self.check_load(load)

    def test_direct_response(self):
        plane = self.start_plane(listener("web", self.port, routes=route_config("all", text="here")))
        self.start(plane)
        self.expect("here")

    def test_removed(self):
        other = free_port()
        plane = self.start_plane(
            *self.static(), listener("other", other, routes=route_config("other", "two")), cluster("two", self.b.address))
        self.start(plane)
        self.expect("a")
        self.expect("b", other)
        load = self.load()
        plane.set(self.static(), "2")
        plane.wait_for_ack(LISTENER, "2")
        plane.wait_for_ack(CLUSTER, "2")
        self.expect_gone(other)
        # A listener that is not removed has nothing to do with it.
        self.expect("a")
        self.check_load(load, 1)

    def test_removed_cluster(self):
        routes = [{"match": {"prefix": "/two"}, "route": {"cluster": "two"}},
                  {"match": {"prefix": "/"}, "route": {"cluster": "one"}}]
        with_routes = [listener("web", self.port, rds="all"), route_config("all", routes=routes), cluster("one", self.a.address)]
        plane = self.start_plane(*with_routes, cluster("two", self.b.address))
        self.start(plane)
        self.expect("a")
        self.expect("b", path="/two")
        plane.set(with_routes, "2")
        wait_until(lambda: (get(self.port, "/two") or [0])[0] == 503, 10, "a 503 for a cluster that is gone")
        self.expect("a")
        plane.set([*with_routes, cluster("two", self.b.address)], "3")
        self.expect("b", path="/two")

    # ---- Warming

    def test_waits_for_routes(self):
        other = free_port()
        plane = self.start_plane(*self.static())
        self.start(plane)
        self.expect("a")
        late = [*self.static(), listener("other", other, rds="late")]
        plane.set(late, "2")
        plane.wait_for_request(ROUTES, "late")
        self.expect("a")
        self.assertIsNone(get(other))
        plane.set([*late, route_config("late", "one")], "3")
        self.expect("a", other)
        self.assertEqual(plane.nacks(), [])

    def test_waits_for_endpoints(self):
        routes = [{"match": {"prefix": "/late"}, "route": {"cluster": "late"}},
                  {"match": {"prefix": "/"}, "route": {"cluster": "one"}}]
        # The listener comes when the cluster that is there has arrived, so that a start waits for nothing else.
        resources = [listener("web", self.port, rds="all"), route_config("all", "one"), cluster("one", self.a.address)]
        plane = self.start_plane(*resources)
        self.start(plane)
        self.expect("a")
        late = [resources[0], route_config("all", routes=routes), resources[2], cluster("late")]
        plane.set(late, "2")
        plane.wait_for_request(ENDPOINTS, "late")
        if self.DATA_PLANE.KEEPS_ROUTES:
            plane.wait_for_ack(ROUTES, "2")
            self.expect("a", path="/late")
        else:
            wait_until(lambda: (get(self.port, "/late") or [0])[0] == 503, 10, "a 503 while the cluster has no addresses")
        self.expect("a")
        plane.set([*late, endpoints("late", self.b.address)], "3")
        self.expect("b", path="/late")
        self.expect("a")
        self.assertEqual(plane.nacks(), [])

    # ---- What is invalid

    def check_nack(self, broken, kind, *words):
        """A resource is refused, with words about it; traffic goes on with the last good state, and the next version is taken."""
        plane = self.start_plane(*self.dynamic())
        self.start(plane)
        self.expect("a")
        plane.wait_for_ack(kind, "1")
        load = self.load()
        plane.set([*self.dynamic(), broken], "2")
        answer = plane.wait_for_nack(kind, "2")
        for word in words:
            self.assertRegex(answer.error, f"(?i){word}")
        wait_until(lambda: load.count > 100)
        self.assertEqual([body for body, _ in load.bodies], ["a"])
        plane.set(self.dynamic(self.b.address), "3")
        plane.wait_for_ack(kind, "3")
        self.expect("b")
        self.check_load(load)

    def test_invalid_cluster(self):
        self.check_nack(cluster("broken", self.b.address, connect_timeout="0s"), CLUSTER, "broken", "connect_?timeout")

    def test_invalid_listener(self):
        self.check_nack({"@type": LISTENER, "name": "broken", "filter_chains": []}, LISTENER, "broken", "filter.?chains|address")

    def test_resource_of_garbage(self):
        broken = xds.ControlPlane.raw(CLUSTER, b"\xff\xff\xff\xff\xff")
        self.check_nack(broken, CLUSTER)

    def test_invalid_at_start(self):
        # Routes by name, because Envoy refuses a listener whose own routes name an unknown cluster.
        plane = self.start_plane(*self.dynamic(), cluster("broken", self.b.address, connect_timeout="0s"))
        self.start(plane)
        plane.wait_for_nack(CLUSTER, "1")
        # The cluster changes too: an incremental control plane takes what was in a refused response as delivered.
        plane.set([each for each in self.dynamic() if each.get("name") != "one"] + [cluster("one", connect_timeout="3s")], "2")
        plane.wait_for_ack(CLUSTER, "2")
        self.expect("a")

    def test_rest_of_a_rejected_response(self):
        """Defect: one cluster or listener that cannot be used kept all others of its response from being used, and at a
        start all traffic."""
        # Envoy rejects the whole response if a field breaks a rule of its .proto file, such as a connect_timeout of 0.
        broken = [cluster("broken", "no-ip:1"), {"@type": LISTENER, "name": "broken", "filter_chains": []}]
        if self.DATA_PLANE is not Envoy:
            broken.append(cluster("broken-too", self.b.address, connect_timeout="0s"))
        plane = self.start_plane(*self.dynamic(), *broken)
        self.start(plane)
        self.expect("a")
        for kind in (CLUSTER, LISTENER):
            self.assertIn("broken", plane.wait_for_nack(kind, "1").error)
        load = self.load()
        plane.set([*broken, cluster("fresh", self.b.address), *self.dynamic(chosen="fresh")], "2")
        self.expect("b")
        wait_until(lambda: load.count > 100)
        self.check_load(load)

    def test_secret_that_is_rejected(self):
        """Defect: one secret that cannot be used kept all others of its response from being used."""
        if self.DATA_PLANE is Envoy:
            self.skipTest("it does here")
        other, third = free_port(), free_port()
        no_pem = {"@type": xds.SECRET, "name": "bad", "tls_certificate": {
            "certificate_chain": {"inline_string": "no PEM text"}, "private_key": {"inline_string": "no PEM text"}}}
        resources = [*self.dynamic(), listener("good", other, routes=route_config("all", "two"), secret="good"),
                     listener("bad", third, routes=route_config("all", "two"), secret="bad"), secret("good", self.server)]
        plane = self.start_plane(*resources, no_pem)
        self.start(plane)
        wait_until(lambda: self.served_certificate(other) == self.der(self.server), 10, "the certificate")
        self.assertIn("bad", plane.wait_for_nack(SECRET, "1").error)
        self.assertIsNone(self.served_certificate(third))
        plane.set([*resources, secret("bad", self.wildcard)], "2")
        wait_until(lambda: self.served_certificate(third) == self.der(self.wildcard), 10, "the certificate that was bad")

    # ---- Extensions

    def with_filter(self, default=None):
        """A listener with a filter that comes by extension discovery (ECDS)."""
        made = listener("web", self.port, routes=route_config("all", "one"))
        discovery = {"config_source": ADS, "type_urls": [RBAC]}
        if default:
            discovery |= {"default_config": default, "apply_default_config_without_warming": True}
        manager = made["filter_chains"][0]["filters"][0]["typed_config"]
        manager["http_filters"].insert(0, {"name": "guard", "config_discovery": discovery})
        return [made, cluster("one", self.a.address)]

    def test_filter_by_discovery(self):
        def guard(prefix):
            return {"@type": EXTENSION, "name": "guard", "typed_config": denies(prefix)}
        plane = self.start_plane(*self.with_filter())
        program = self.start(plane)
        plane.wait_for_request(EXTENSION, "guard")
        self.assertFalse(listens(self.port))
        plane.set([*self.with_filter(), guard("/secret")], "2")
        self.expect("a")
        self.assertEqual(get(self.port, "/secret")[0], 403)
        plane.set([*self.with_filter(), guard("/other")], "3")
        wait_until(lambda: get(self.port, "/other")[0] == 403, 10, "the next version")
        self.assertEqual(get(self.port, "/secret"), (200, "a"))
        plane.wait_for_ack(EXTENSION, "3")  # The page has it then.
        with urllib.request.urlopen(f"http://127.0.0.1:{program.admin_port}/config_dump", timeout=10 * SLOWNESS) as response:
            section = next(each for each in json.load(response)["configs"] if each["@type"].endswith(".EcdsConfigDump"))
        self.assertEqual([each["ecds_filter"]["typed_config"] for each in section["ecds_filters"]], [denies("/other")])
        router = {"@type": EXTENSION, "name": "guard", "typed_config": {"@type": ROUTER}}
        plane.set([*self.with_filter(), router], "4")
        plane.wait_for_nack(EXTENSION, "4")
        self.assertEqual([get(self.port, path)[0] for path in ("/other", "/secret")], [403, 200])

    def test_default_of_a_filter_by_discovery(self):
        plane = self.start_plane(*self.with_filter(denies("/")))
        self.start(plane)
        wait_until(lambda: (get(self.port) or [0])[0] == 403, 10, "the default")
        plane.set([*self.with_filter(denies("/")), {"@type": EXTENSION, "name": "guard", "typed_config": denies("/secret")}], "2")
        self.expect("a")
        self.assertEqual(get(self.port, "/secret")[0], 403)

    # ---- Certificates

    def served_certificate(self, port=None):
        """The DER of what the listener has, or None."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            with context.wrap_socket(connect(("127.0.0.1", port or self.port), timeout=5), server_hostname="localhost") as sock:
                return sock.getpeercert(binary_form=True)
        except OSError:
            return None

    def der(self, certificate):
        with open(certificate["chain"], encoding="ascii") as file:
            return ssl.PEM_cert_to_DER_cert(file.read())

    def test_certificate_rotates(self):
        def with_secret(certificate):
            return [listener("web", self.port, routes=route_config("all", "one"), secret="cert"),
                    cluster("one", self.a.address), secret("cert", certificate)]
        plane = self.start_plane(*with_secret(self.server))
        self.start(plane)
        wait_until(lambda: self.served_certificate() == self.der(self.server), 10, "the first certificate")
        plane.wait_for_ack(SECRET, "1")
        with connect(("127.0.0.1", self.port)) as plain, self.context().wrap_socket(plain, server_hostname="localhost") as kept:
            plane.set(with_secret(self.wildcard), "2")
            plane.wait_for_ack(SECRET, "2")
            wait_until(lambda: self.served_certificate() == self.der(self.wildcard), 10, "the second certificate")
            # A connection from before goes on.
            kept.sendall(b"GET / HTTP/1.1\r\nhost: a.test\r\n\r\n")
            self.assertTrue(kept.recv(1000).startswith(b"HTTP/1.1 200"))

    def test_waits_for_certificate(self):
        resources = [listener("web", self.port, routes=route_config("all", "one"), secret="cert"), cluster("one", self.a.address)]
        plane = self.start_plane(*resources)
        self.start(plane)
        plane.wait_for_request(SECRET, "cert")
        self.assertIsNone(self.served_certificate())
        plane.set([*resources, secret("cert", self.server)], "2")
        wait_until(lambda: self.served_certificate() == self.der(self.server), 10, "the certificate")

    # ---- A control plane that is away, slow or wrong

    def test_away_and_back(self):
        plane = self.start_plane(*self.dynamic())
        self.start(plane)
        self.expect("a")
        load = self.load()
        plane.stop()
        time.sleep(1)
        plane.set(self.dynamic(self.b.address), "2")
        before = plane.streams
        plane.start()
        plane.wait_for_streams(before + 1, 15)
        plane.wait_for_ack(ENDPOINTS, "2")
        self.expect("b")
        self.check_load(load)

    def test_same_version_after_return(self):
        plane = self.start_plane(*self.dynamic())
        self.start(plane)
        self.expect("a")
        load = self.load()
        for _ in range(2):
            before = plane.streams
            plane.stop()
            plane.start()
            plane.wait_for_streams(before + 1, 15)
        time.sleep(0.5)
        self.check_load(load)
        self.assertEqual(plane.nacks(), [])

    def test_control_plane_comes_later(self):
        plane = self.start_plane()
        plane.stop()
        self.start(plane)
        time.sleep(1)
        self.assertFalse(listens(self.port))
        plane.set(self.static())
        plane.start()
        self.expect("a", seconds=20)

    def test_slow(self):
        plane = self.start_plane(*self.dynamic())
        plane.delay = 0.5
        self.start(plane)
        self.expect("a", seconds=20)
        load = self.load()
        plane.set(self.dynamic(self.b.address), "2")
        self.expect("b", seconds=20)
        self.check_load(load)

    def check_traffic(self, disturb, plane, seconds=3):
        """Traffic and memory while a control plane does something, and that it is followed again afterwards."""
        program = self.start(plane)
        self.expect("a")
        load = self.load()
        ended = disturb()
        time.sleep(seconds)
        self.check_load(load)
        if not SANITIZER:
            self.assertLess(program.peak_rss(), RSS_LIMIT)
        ended()
        plane.set(self.dynamic(self.b.address), "after")
        self.expect("b", seconds=30)

    def replaced_by(self, plane, serve):
        """A server in the place of the control plane. Returns how to begin."""
        def begin():
            plane.stop()
            other = Origin(serve, address=("127.0.0.1", int(plane.address.rsplit(":", 1)[1])))

            def stop():
                other.close()
                harness.print_note(f"{other.count} connections")
                self.assertGreater(other.count, 0)
                plane.start()
            return stop
        return begin

    def test_garbage_in_messages(self):
        plane = self.start_plane(*self.dynamic())

        def begin():
            plane.garbage = random.Random(1).randbytes(1000)
            plane.set(self.dynamic(self.b.address), "2")

            def stop():
                plane.garbage = None
            return stop
        self.check_traffic(begin, plane)

    def test_garbage_on_the_wire(self):
        def serve(sock):
            sock.recv(1000)
            sock.sendall(random.Random(1).randbytes(100_000))
        plane = self.start_plane(*self.dynamic())
        self.check_traffic(self.replaced_by(plane, serve), plane)

    def test_closes_at_once(self):
        plane = self.start_plane(*self.dynamic())
        self.check_traffic(self.replaced_by(plane, lambda sock: None), plane)

    def test_refuses(self):
        plane = self.start_plane(*self.dynamic())

        def begin():
            plane.refuses = True
            plane.stop()
            plane.start()
            before = plane.streams

            def stop():
                # Retries are spaced: a client that retries at once opens hundreds.
                self.assertLess(plane.streams - before, 40)
                plane.refuses = False
            return stop
        self.check_traffic(begin, plane)

    def test_flaps(self):
        plane = self.start_plane(*self.dynamic())
        self.start(plane)
        self.expect("a")
        load = self.load()
        for turn in range(20):
            plane.stop()
            plane.set(self.dynamic(*[self.b.address] if turn % 2 else []), f"flap-{turn}")
            plane.start()
            time.sleep(0.1)
        for body, address in (("b", self.b.address), ("a", self.a.address)):
            plane.set(self.dynamic(address), f"after-{body}")
            self.expect(body, seconds=30)
        self.check_load(load)

    def test_huge_garbage(self):
        plane = self.start_plane(*self.dynamic())

        def begin():
            plane.garbage = random.Random(1).randbytes(10 * MIB)
            plane.set(self.dynamic(), "2")
            return lambda: setattr(plane, "garbage", None)
        self.check_traffic(begin, plane)

    def test_huge_resource(self):
        """One resource of 10 MiB: it is taken or refused."""
        plane = self.start_plane(*self.dynamic())

        def begin():
            big = cluster("big", self.b.address, metadata={"filter_metadata": {"x": {"text": "a" * 10 * MIB}}})
            before = plane.streams
            plane.set([*self.dynamic(), big], "2")
            wait_until(lambda: plane.streams > before or any(
                each.type == CLUSTER and each.version == "2" for each in plane.answers), 10, "an answer")
            return lambda: None
        self.check_traffic(begin, plane)

    def test_changes_without_pause(self):
        plane = self.start_plane(*self.dynamic())
        self.start(plane)
        self.expect("a")
        load = self.load()
        for version in range(2, 202):
            plane.set(self.dynamic(*[self.a.address, self.b.address][:1 + version % 2]), str(version))
            time.sleep(0.01)
        plane.set(self.dynamic(self.b.address), "last")
        plane.wait_for_ack(ENDPOINTS, "last", 30)
        self.expect("b")
        self.check_load(load)
        self.assertEqual(plane.nacks(), [])

    # ---- TLS to the control plane

    def mutual(self, certificate):
        return {"tls_certificates": [{"certificate_chain": {"filename": certificate["chain"]},
                                      "private_key": {"filename": certificate["key"]}}],
                "validation_context": {"trusted_ca": {"filename": self.ca}, "match_typed_subject_alt_names": [
                    {"san_type": "DNS", "matcher": {"exact": "localhost"}}]}}

    def test_mutual_tls(self):
        plane = self.start_plane(*self.dynamic(), tls=self.server, client_ca=self.ca)
        self.start(plane, tls=self.mutual(self.client))
        self.expect("a")
        plane.wait_for_ack(ENDPOINTS, "1")

    def test_control_plane_with_another_name(self):
        plane = self.start_plane(*self.static(), tls=self.wildcard, client_ca=self.ca)
        self.start(plane, tls=self.mutual(self.client))
        time.sleep(2)
        self.assertEqual((plane.streams, listens(self.port)), (0, False))

    def test_no_client_certificate(self):
        plane = self.start_plane(*self.static(), tls=self.server, client_ca=self.ca)
        tls = self.mutual(self.client)
        del tls["tls_certificates"]
        self.start(plane, tls=tls)
        time.sleep(2)
        self.assertEqual((plane.streams, listens(self.port)), (0, False))

    # ---- The last good state, on disk

    def test_cache(self):
        if not self.DATA_PLANE.HAS_CACHE:
            self.skipTest("this program has no cache")
        cache = self.temporary_directory()
        plane = self.start_plane(*self.dynamic())
        first = self.start(plane, cache=cache)
        self.expect("a")
        plane.set([*self.dynamic(), cluster("broken", self.b.address, connect_timeout="0s")], "2")
        plane.wait_for_nack(CLUSTER, "2")  # Not kept.
        time.sleep(1)
        plane.stop()
        first.close()
        self.assertFalse(listens(self.port))
        self.start(plane, cache=cache)
        self.expect("a")
        plane.set(self.dynamic(self.b.address), "3")
        plane.start()
        self.expect("b", seconds=20)

    def test_damaged_cache(self):
        if not self.DATA_PLANE.HAS_CACHE:
            self.skipTest("this program has no cache")
        cache = self.temporary_directory()
        plane = self.start_plane(*self.dynamic())
        first = self.start(plane, cache=cache)
        self.expect("a")
        time.sleep(1)
        first.close()
        files = [os.path.join(folder, name) for folder, _, names in os.walk(cache) for name in names]
        self.assertTrue(files)
        for path in files:
            with open(path, "r+b") as file:
                file.truncate(os.path.getsize(path) // 2)
        self.start(plane, cache=cache)
        self.expect("a")


class Sluice(Scenarios, XdsTest):
    DATA_PLANE = DataPlane

    def check_upgrade(self, away):
        """A new process continues with the last good state and the connections, with the control plane or without it."""
        plane = self.start_plane(*self.dynamic())
        first = self.start(plane)
        self.expect("a")
        plane.wait_for_ack(ENDPOINTS, "1")
        load = self.load()
        wait_until(lambda: load.count > 20)
        if away:
            plane.stop()
        result = subprocess.run([harness.SLUICE, "upgrade", "--pid", str(first.process.pid)], capture_output=True, text=True,
                                timeout=30 * SLOWNESS, check=False)
        self.assertEqual(result.returncode, 0, result)
        successor, first.is_replaced = int(result.stdout.split()[1]), True
        try:
            if away:
                plane.start()
            plane.set(self.dynamic(self.b.address), "2")
            wait_until(lambda: load.first("b"), 40 * SLOWNESS, "the new process to follow the control plane")
            self.check_load(load)
        finally:
            os.kill(successor, signal.SIGTERM)
            wait_until(lambda: not os.path.exists(f"/proc/{successor}"), 20 * SLOWNESS, "the new process to end")

    def test_upgrade(self):
        self.check_upgrade(away=False)

    def test_upgrade_without_control_plane(self):
        self.check_upgrade(away=True)

    def test_one_warning_for_a_field(self):
        """A field that is ignored is a line of the log with a count, not a line for each cluster."""
        def resources(*names):
            return [listener("web", self.port, routes=route_config("all", "one")),
                    *(cluster(name, self.a.address, ignore_health_on_host_removal=True) for name in names)]

        plane = self.start_plane(*resources("one", "two", "three"))
        program = self.start(plane)
        self.expect("a")
        plane.set(resources("one", "two", "three", "four"), "2")
        plane.wait_for_ack(CLUSTER, "2")
        lines = [line for line in program.output().splitlines() if "ignore_health_on_host_removal" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("(and 2 more of this field)", lines[0])

    def test_retries_soon(self):
        """The first attempts after the loss of a control plane come within a second."""
        plane = self.start_plane(*self.static())
        self.start(plane)
        self.expect("a")
        before = plane.streams
        plane.stop()
        time.sleep(0.2)
        plane.start()
        since = time.monotonic()
        plane.wait_for_streams(before + 1, 5)
        self.assertLess(plane.stream_times[-1] - since, 1 * SLOWNESS)


if LONG and os.environ.get("ENVOY"):
    class WithEnvoy(Scenarios, XdsTest):
        DATA_PLANE = Envoy


if __name__ == "__main__":
    harness.main()
