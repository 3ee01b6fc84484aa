"""Changes of the configuration in a running proxy: SIGHUP with another file. Connections and requests go on, what has not
changed keeps its state, and a file that is no good changes nothing."""

import base64
import copy
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import harness
import quiet_day_test as quiet_day
from harness import LONG, SANITIZER, SLOWNESS
from http_wire import Http2Client
from origins import Origin, connect, echo, free_port, last_outcome, outcome_of_connecting, ping, receive_until
from tls_support import TlsTest

RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s"


def server(name):
    """An HTTP/1.1 server that responds with its name, slowly if the path is /slow."""
    def serve(sock):
        received = b""
        while piece := sock.recv(65536):
            received += piece
            while b"\r\n\r\n" in received:
                head, received = received.split(b"\r\n\r\n", 1)
                if b"/slow" in head.split(b"\r\n")[0]:
                    time.sleep(1.5)
                sock.sendall(RESPONSE % (len(name), name.encode()))
    return serve


UPGRADE = (b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
           b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


def read_head(sock):
    received = b""
    while not received.endswith(b"\r\n\r\n") and (piece := sock.recv(1)):
        received += piece
    return received


def websocket(sock, head=None):
    """A server that accepts websockets, and echoes their bytes."""
    head = head or read_head(sock)
    key = re.search(rb"(?i)sec-websocket-key: (\S+)", head)[1]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
                 b"sec-websocket-accept: %s\r\n\r\n" % accept)
    echo(sock)


def respond(body):
    return {"routes": [{"respond": {"status": 200, "body": body}}]}


def listener(name, address="127.0.0.1:0", **rest):
    return {"name": name, "address": address, **rest}


def upstream(name, *origins, **rest):
    return {"name": name, "endpoints": [getattr(origin, "address", origin) for origin in origins], **rest}


class Http1:
    """A client that keeps its connection, and fails if it has to make another one."""

    def __init__(self, proxy, name="main"):
        host, port = proxy.address(name)
        self.connection = http.client.HTTPConnection(host, port, timeout=10 * SLOWNESS)
        self.connection.connect()
        self.connection.auto_open = 0

    def get(self, path="/"):
        self.connection.request("GET", path)
        response = self.connection.getresponse()
        return response.read().decode()

    def close(self):
        self.connection.close()


class Reload(TlsTest):

    def setUp(self):
        super().setUp()
        self.a, self.b = (self.keep(Origin(server(name))) for name in "ab")

    def config(self, *listeners, upstreams=(), **top):
        return {"workers": 2, "shutdown_timeout": "5s", "listeners": list(listeners), "upstreams": list(upstreams), **top}

    def start_with(self, *listeners, **rest):
        config = self.config(*listeners, **rest)
        return self.start(config), config

    def refuses(self, address):
        with self.assertRaises(ConnectionRefusedError):
            connect(address)

    # ---- What changes

    def test_route_on_open_connections(self):
        """The next request on a connection follows the new routes, in both versions."""
        proxy, config = self.start_with(listener("main", http=respond("old")))
        http1, http2 = self.keep(Http1(proxy)), Http2Client(proxy.address())
        self.assertEqual(http1.get(), "old")
        self.assertEqual(http2.response(http2.send_request()).body, b"old")
        config["listeners"][0]["http"] = respond("new")
        output = proxy.reload(config)
        self.assertIn("configuration applied: listeners: 1 changed; upstreams: ", output)
        self.assertEqual(http1.get(), "new")
        self.assertEqual(http2.response(http2.send_request()).body, b"new")
        http2.close()

    def test_upstream_is_replaced(self):
        """The request in progress ends where it began."""
        proxy, config = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", self.a)])
        slow, quick = self.keep(Http1(proxy)), self.keep(Http1(proxy))
        slow.connection.request("GET", "/slow")
        proxy.wait_for(lambda s: s.total("upstream_requests_total") == 1)
        config["upstreams"] = [upstream("x", self.b)]
        proxy.reload(config)
        self.assertEqual(quick.get(), "b")
        self.assertEqual(proxy.stats().total("configurations"), 2)
        self.assertEqual(slow.connection.getresponse().read(), b"a")
        self.assertEqual(slow.get(), "b")
        proxy.wait_for(lambda s: s.total("configurations") == 1)

    def test_upstreams_change_places(self):
        """Upstreams are identified by their names, not by their positions."""
        one, two = upstream("one", self.a), upstream("two", self.b)
        routes = {"routes": [{"match": {"path": {"exact": "/one"}}, "forward": "one"}, {"forward": "two"}]}
        proxy, config = self.start_with(listener("main", http=routes), upstreams=[one, two])
        client = self.keep(Http1(proxy))
        self.assertEqual((client.get("/one"), client.get("/two")), ("a", "b"))
        config["upstreams"] = [two, upstream("new", self.a), one]
        proxy.reload(config)
        self.assertEqual((client.get("/one"), client.get("/two")), ("a", "b"))
        stats = proxy.stats()
        self.assertEqual(stats.total("upstream_connections_opened_total"), 2)
        self.assertEqual(stats.total("endpoint_connections_total", upstream="one"), 1)

    def test_listener_is_added_moved_and_removed(self):
        proxy, config = self.start_with(listener("main", http=respond("main")), listener("other", http=respond("other")))
        idle = self.keep(Http1(proxy, "other"))
        self.assertEqual(idle.get(), "other")
        old = proxy.address("other")
        config["listeners"][1]["address"] = f"127.0.0.1:{free_port()}"
        config["listeners"].append(listener("third", http=respond("third")))
        proxy.reload(config)
        proxy.wait_for_output("listener third on ")
        self.assertEqual(self.keep(Http1(proxy, "third")).get(), "third")
        self.assertEqual(self.keep(Http1(proxy, "other")).get(), "other")
        self.assertEqual(idle.get(), "other")  # It has moved with its listener.
        self.refuses(old)
        moved = proxy.address("other")
        del config["listeners"][1]
        proxy.reload(config)
        self.refuses(moved)
        with self.assertRaises((http.client.RemoteDisconnected, ConnectionError)):
            idle.get()
        self.assertEqual(self.keep(Http1(proxy)).get(), "main")
        proxy.wait_for(lambda s: s.total("configurations") == 1)

    def test_l4_connections_go_on(self):
        """Even if their listener or their upstream is gone. New ones follow the new configuration."""
        there = self.keep(Origin(echo))
        proxy, config = self.start_with(listener("main", tcp={"forward": "x"}), listener("rest", http=respond("rest")),
                                        upstreams=[upstream("x", there)])
        first = connect(proxy.address())
        ping(first)
        config["upstreams"] = [upstream("y", self.a)]
        config["listeners"][0]["tcp"] = {"forward": "y"}
        proxy.reload(config)
        ping(first)
        second = connect(proxy.address())
        second.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        receive_until(second, b"\r\n\r\na")
        del config["listeners"][0]
        config["upstreams"] = []
        proxy.reload(config)
        self.assertEqual(proxy.stats().total("configurations"), 3)
        ping(first)
        second.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        receive_until(second, b"\r\n\r\na")
        first.close()
        second.close()
        proxy.wait_for(lambda s: s.total("configurations") == 1)

    def test_kind_of_listener(self):
        """The clients of a listener that becomes one for TCP are asked to leave."""
        proxy, config = self.start_with(listener("main", f"127.0.0.1:{free_port()}", http=respond("http")),
                                        upstreams=[upstream("x", self.keep(Origin(echo)))])
        client = self.keep(Http1(proxy))
        self.assertEqual(client.get(), "http")
        config["listeners"][0] = listener("main", config["listeners"][0]["address"], tcp={"forward": "x"})
        proxy.reload(config)
        with self.assertRaises((http.client.RemoteDisconnected, ConnectionError)):
            client.get()
        with connect(proxy.address()) as sock:
            ping(sock)

    def test_client_certificates(self):
        """A client without a certificate does not stay on a listener that now requires one."""
        address = f"127.0.0.1:{free_port()}"
        tls = {"certificates": [self.server]}
        proxy, config = self.start_with(listener("main", address, tls=tls, http=respond("in")))
        context = ssl.create_default_context(cafile=self.ca)

        def client():
            sock = context.wrap_socket(connect(proxy.address()), server_hostname="localhost")
            return sock

        def request(sock):
            sock.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            received = b""
            while not received.endswith(b"in") and (piece := sock.recv(1000)):
                received += piece
            return received
        with client() as sock:
            self.assertIn(b" 200 ", request(sock))
            config["listeners"][0]["tls"] = {**tls, "client_ca": self.ca, "client_certificate": "require"}
            proxy.reload(config)
            try:
                self.assertEqual(request(sock), b"")
            except (ConnectionError, ssl.SSLError):
                pass
        with self.assertRaises((ConnectionError, ssl.SSLError)):
            with client() as sock:
                self.assertEqual(request(sock), b"")
                raise ConnectionError

    def test_limits(self):
        """A lower limit does not end connections that are open."""
        proxy, config = self.start_with(listener("main", f"127.0.0.1:{free_port()}", http=respond("in")))
        clients = [self.keep(Http1(proxy)) for _ in range(3)]
        for client in clients:
            client.get()
        config["listeners"][0]["max_connections"] = 2
        proxy.reload(config)
        for client in clients:
            self.assertEqual(client.get(), "in")
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        for client in clients[:2]:
            client.close()
        proxy.wait_for(lambda s: s.total("sessions_active") == 1)
        self.assertEqual(self.keep(Http1(proxy)).get(), "in")

    def test_access_log(self):
        folder = self.temporary_directory()
        log = lambda name: {**respond("in"), "access_log": {"file": f"{folder}/{name}"}}
        proxy, config = self.start_with(listener("main", http=log("one")))
        client = self.keep(Http1(proxy))
        client.get("/first")
        config["listeners"][0]["http"] = log("two")
        proxy.reload(config)
        client.get("/second")

        def has(name, path):
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                text = file.read()
            return path in text
        harness.wait_until(lambda: has("one", "/first") and has("two", "/second"))
        self.assertFalse(has("one", "/second") or has("two", "/first"))

    def test_access_log_is_closed(self):
        """When no listener names it any more and the last request that is written to it has ended."""
        folder = self.temporary_directory()
        log = lambda name: {"forward": "x", "access_log": {"file": f"{folder}/{name}"}}

        def is_open(name):
            files = [os.readlink(f"/proc/{proxy.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{proxy.pid}/fd")
                     if os.path.lexists(f"/proc/{proxy.pid}/fd/{fd}")]
            return f"{folder}/{name}" in files
        proxy, config = self.start_with(listener("main", http=log("one")), upstreams=[upstream("x", self.a)])
        slow = self.keep(Http1(proxy))
        slow.connection.request("GET", "/slow")
        proxy.wait_for(lambda s: s.total("upstream_requests_total") == 1)
        config["listeners"][0]["http"] = log("two")
        proxy.reload(config)
        self.assertTrue(is_open("one") and is_open("two"))
        self.assertEqual(slow.connection.getresponse().read(), b"a")
        harness.wait_until(lambda: not is_open("one"), what="the log to be closed")
        with open(f"{folder}/one", encoding="utf-8") as file:
            self.assertIn("/slow", file.read())
        # Its place is taken by another one, and it may come back itself.
        config["listeners"].append(listener("more", http=log("three")))
        proxy.reload(config)
        config["listeners"][0]["http"] = log("one")
        proxy.reload(config)
        slow.get("/again")
        self.keep(Http1(proxy, "more")).get("/more")

        def has(name, path):
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                return path in file.read()
        harness.wait_until(lambda: has("one", "/again") and has("three", "/more"))
        self.assertEqual(proxy.stats().total("access_log_lines_total", listener="more"), 1)
        # One that a failed reload has opened is closed again.
        wrong = copy.deepcopy(config)
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        wrong["listeners"].append(listener("wrong", "127.0.0.1:%d" % taken.getsockname()[1], http=log("four")))
        proxy.reload(wrong, succeeds=False)
        harness.wait_until(lambda: not is_open("four") and not is_open("two"))

    # ---- How many configurations

    def test_oldest_configuration_is_drained(self):
        """Each of eight TCP sessions and eight websockets began with a configuration of its own. With the ninth, those of
        the oldest one leave: the websocket and the session are reset after shutdown_timeout. The others go on."""
        there = self.keep(Origin(echo))
        config = self.config(listener("main", tcp={"forward": "x"}), listener("web", http={"forward": "w"}),
                             upstreams=[upstream("x", there), upstream("w", self.keep(Origin(websocket)))],
                             shutdown_timeout="1500ms")
        proxy = self.start(config, cut_allowed=True)
        sessions, tunnels = [], []
        for i in range(8):
            sessions.append(connect(proxy.address()))
            self.assertTrue(ping(sessions[-1]))
            tunnels.append(connect(proxy.address("web")))
            tunnels[-1].sendall(UPGRADE)
            self.assertIn(b" 101 ", read_head(tunnels[-1]))
            self.assertTrue(ping(tunnels[-1]))
            if i < 7:
                config["upstreams"][0]["connect_timeout"] = f"{100 + i}s"
                proxy.reload(config)
        self.assertEqual(proxy.stats().total("configurations"), 8)
        self.assertEqual(proxy.stats().total("configurations_drained_total"), 0)
        config["upstreams"][0]["connect_timeout"] = "200s"
        begun = time.monotonic()
        output = proxy.reload(config)
        self.assertIn("more than 8 configurations are in use (reload.max_generations)", output)
        self.assert_within(begun, 1.4 * SLOWNESS, "a reload, which waits for nothing")
        for sock in sessions + tunnels:
            self.assertTrue(ping(sock))
        for sock in (sessions[0], tunnels[0]):
            self.assertEqual(last_outcome(sock), "reset")
        stats = proxy.wait_for(lambda s: s.total("configurations") == 8)
        self.assertGreaterEqual(time.monotonic() - begun, 1.4)
        self.assertEqual((stats.total("configurations_drained_total"), stats.total("sessions_reset_total", kind="tcp"),
                          stats.total("sessions_reset_total", kind="tunnel"), stats.total("sessions_reset_total")),
                         (1, 1, 1, 2))
        proxy.wait_for_output("sessions reset because their time to end was over: 1 tcp, 1 tunnel")
        for sock in sessions[1:] + tunnels[1:]:
            self.assertTrue(ping(sock))
            sock.close()
        proxy.wait_for(lambda s: s.total("configurations") == 1)

    def test_many_reloads_at_once(self):
        """Configurations that nobody uses any more do not count, however quickly they follow each other."""
        proxy, config = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", self.a)],
                                        reload={"max_generations": 3})
        client = self.keep(Http1(proxy))
        for i in range(40):
            config["upstreams"][0]["connect_timeout"] = f"{100 + i}s"
            proxy.reload(config)
            self.assertEqual(client.get(), "a")
        self.assertEqual(proxy.stats().total("configurations_drained_total"), 0)

    def test_connections_that_endpoints_keep_open(self):
        """Defect: a configuration that no client used counted towards `max_generations` while its idle connections to
        endpoints were closing."""
        def stays(sock):
            while b"\r\n\r\n" in sock.recv(65536):
                sock.sendall(RESPONSE % (1, b"a"))
            over.wait()
        over = threading.Event()
        self.addCleanup(over.set)
        origin = self.keep(Origin(stays))
        proxy, config = self.start_with(listener("main", http={"forward": "x"}), upstreams=[upstream("x", origin)],
                                        reload={"max_generations": 3})
        client = self.keep(Http1(proxy))
        most = 0
        for i in range(8):
            config["upstreams"][0]["connect_timeout"] = f"{100 + i}s"
            proxy.reload(config)
            self.assertEqual(client.get(), "a")
            most = max(most, proxy.stats().total("configurations"))
        self.assertGreater(most, 3, "no connection of an earlier configuration was still open")
        self.assertEqual(proxy.stats().total("configurations_drained_total"), 0)
        proxy.wait_for(lambda s: s.total("configurations") == 1)

    def test_requests_of_the_oldest_configuration(self):
        """Their connections get GOAWAY and `Connection: close`, and the requests end in time."""
        config = self.config(listener("main", http={"forward": "x"}), upstreams=[upstream("x", self.a)],
                             reload={"max_generations": 1}, shutdown_timeout="20s")
        proxy = self.start(config)
        slow, quick, idle = self.keep(Http1(proxy)), self.keep(Http1(proxy)), Http2Client(proxy.address())
        self.assertEqual(idle.response(idle.send_request()).body, b"a")
        slow.connection.request("GET", "/slow")
        of_h2 = idle.send_request(path="/slow")
        proxy.wait_for(lambda s: s.total("upstream_requests_total") == 3)
        quick.get()
        config["upstreams"][0]["connect_timeout"] = "9s"
        proxy.reload(config)
        response = slow.connection.getresponse()
        self.assertEqual(response.read(), b"a")
        self.assertEqual(response.getheader("connection"), "close")
        self.assertEqual(idle.response(of_h2).body, b"a")
        self.assertTrue(idle.wait(lambda: idle.reader.goaway))
        self.assertEqual(quick.get(), "a")
        stats = proxy.wait_for(lambda s: s.total("configurations") == 1)
        self.assertEqual((stats.total("configurations_drained_total"), stats.total("sessions_reset_total")), (1, 0))
        idle.close()

    # ---- What stays

    def test_unchanged_upstream_keeps_its_state(self):
        """Its connections and counters stay, and an endpoint that is down stays down."""
        down = f"127.0.0.1:{free_port()}"
        proxy, config = self.start_with(
            listener("main", http={"forward": "x"}), upstreams=[upstream("x", self.a), upstream("y", down, self.b,
                                                                                                fail_timeout="60s")])
        client = self.keep(Http1(proxy))
        self.assertEqual(client.get(), "a")
        config["listeners"][0]["http"] = {"routes": [{"match": {"path": {"exact": "/y"}}, "forward": "y"}, {"forward": "x"}]}
        proxy.reload(config)
        self.assertEqual([client.get("/y") for _ in range(4)], ["b"] * 4)
        self.assertEqual(client.get(), "a")
        for i in range(3):
            config["listeners"][0]["http"]["routes"].insert(0, {"match": {"path": {"exact": f"/{i}"}}, "forward": "x"})
            proxy.reload(config)
            self.assertEqual((client.get("/y"), client.get("/x")), ("b", "a"))
        stats = proxy.stats()
        self.assertEqual(stats.total("upstream_connections_opened_total", upstream="x"), 1)
        self.assertEqual(stats.total("endpoint_connect_errors_total", upstream="y"), 1)
        self.assertEqual(stats.total("http_requests_total"), 12)
        self.assertEqual(stats.total("config_reloads_total"), 4)

    def test_changed_upstream_keeps_what_it_knows(self):
        """The endpoints that it had before keep their counters, and those that are down stay down."""
        down = f"127.0.0.1:{free_port()}"
        proxy, config = self.start_with(listener("main", http={"forward": "x"}),
                                        upstreams=[upstream("x", down, self.a, fail_timeout="60s")])
        client = self.keep(Http1(proxy))
        self.assertEqual([client.get() for _ in range(4)], ["a"] * 4)
        config["upstreams"] = [upstream("x", self.b, down, self.a, fail_timeout="60s")]
        proxy.reload(config)
        self.assertEqual({client.get() for _ in range(12)}, {"a", "b"})
        stats = proxy.stats()
        self.assertEqual(stats.total("endpoint_connect_errors_total", upstream="x"), 1)
        self.assertGreaterEqual(stats.total("endpoint_connections_total", endpoint=self.a.address), 2)

    def test_health_checks(self):
        """An endpoint that failed its checks comes back when the new configuration has none."""
        port = free_port()
        check = {"health_check": {"interval": "50ms", "timeout": "1s", "http": {"path": "/"}}}
        proxy, config = self.start_with(listener("main", http={"forward": "x"}),
                                        upstreams=[upstream("x", f"127.0.0.1:{port}", **check)])
        proxy.wait_for(lambda s: s.total("endpoint_healthy") == 0)
        self.keep(Origin(server("back"), address=("127.0.0.1", port)))
        config["upstreams"][0].pop("health_check")
        proxy.reload(config)
        self.assertEqual(self.keep(Http1(proxy)).get(), "back")
        config["upstreams"][0].update(check)
        proxy.reload(config)
        proxy.wait_for(lambda s: s.total("endpoint_health_checks_total") > 3 and s.total("endpoint_healthy") == 1)

    # ---- The command

    def command(self, *arguments):
        result = subprocess.run([harness.SLUICE, "reload", *arguments], capture_output=True, text=True,
                                timeout=30 * SLOWNESS, check=False)
        return result.returncode, result.stdout, result.stderr

    def test_command(self):
        """It waits until the configuration is applied, or says why it is not."""
        proxy, config = self.start_with(listener("main", http=respond("old")))
        client = self.keep(Http1(proxy))
        config["listeners"][0]["http"] = respond("new")
        proxy.write_configuration(config)
        self.assertEqual(self.command("--pid", str(proxy.pid)),
                         (0, "configuration applied: listeners: 1 changed; upstreams: none\n", ""))
        self.assertEqual(client.get(), "new")
        proxy.write_configuration("listeners: 3")
        code, output, error = self.command("--pid", str(proxy.pid))
        self.assertEqual((code, output), (1, ""))
        self.assertRegex(error, r"sluice\.yaml:1:12: .*\n.*nothing was changed: the previous configuration")
        self.assertEqual(client.get(), "new")

    def test_command_that_finds_no_process(self):
        self.assertEqual(self.command("--pid", "1")[:2], (1, ""))
        self.assertIn("process 1 takes no commands", self.command("--pid", "1")[2])
        self.assertEqual(self.command("--pid", "x")[0], 2)

    def test_client_that_sends_no_command(self):
        """It holds up the control thread for a second at most, and the workers not at all."""
        proxy, _ = self.start_with(listener("main", http=respond("in")))
        with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as wrong:
            silent.connect(f"\0sluice-control-{proxy.pid}")
            wrong.connect(f"\0sluice-control-{proxy.pid}")
            wrong.sendall(b"rewind\n")
            self.assertEqual(self.keep(Http1(proxy)).get(), "in")
            wrong.settimeout(10 * SLOWNESS)
            receive_until(wrong, b'error\nunknown command "rewind"\n')

    def test_diff(self):
        proxy, config = self.start_with(listener("main", http=respond("old")), listener("gone", http=respond("x")),
                                        upstreams=[upstream("u", self.a)])
        path = self.temporary_directory() + "/new.yaml"

        def diff(config):
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            result = subprocess.run([harness.SLUICE, "diff", "--config", path, "--pid", str(proxy.pid)],
                                    capture_output=True, text=True, timeout=30 * SLOWNESS, check=False)
            return result.returncode, result.stdout, result.stderr
        self.assertEqual(diff(config), (0, "", ""))
        new = copy.deepcopy(config)
        new["shutdown_timeout"] = "7s"
        new["listeners"][0]["http"]["header_timeout"] = "3s"
        new["listeners"][1] = listener("new", http=respond("y"))
        new["upstreams"][0]["endpoints"].append(self.b.address)
        code, output, error = diff(new)
        self.assertEqual((code, error), (1, ""))
        self.assertEqual(output.splitlines()[:8], [
            "- shutdown_timeout: 5s", "+ shutdown_timeout: 7s", "listener gone: removed", "listener main: changed",
            "  listeners:", "      http:", "-       header_timeout: 10s", "+       header_timeout: 3s"])
        self.assertIn("listener new: added\nupstream u: changed\n", output)
        self.assertIn(f"+       - address: {self.b.address}\n", output)
        self.assertEqual(diff({"listeners": 3})[:2], (2, ""))

    # ---- Watched files

    def test_watch(self):
        """A change of the file, of a certificate, and of what a pattern matches is applied without a command."""
        folder = self.temporary_directory()
        for name in ("chain", "key"):
            shutil.copy(self.server[name], f"{folder}/{name}")
        tls = {"certificates": [{"chain": f"{folder}/chain", "key": f"{folder}/key"}]}
        proxy, config = self.start_with(listener("main", tls=tls, http=respond("old")), watch=True,
                                        include=[f"{folder}/*.yaml"])
        context = ssl.create_default_context(cafile=self.ca)

        def get():
            with context.wrap_socket(connect(proxy.address()), server_hostname="localhost") as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                received = b""
                while piece := sock.recv(1000):
                    received += piece
                return received.split(b"\r\n\r\n", 1)[1], sock.getpeercert()["serialNumber"]
        body, serial = get()
        self.assertEqual(body, b"old")
        # Written in two steps, as an editor may: it is invalid between them.
        with open(proxy.path, "w", encoding="utf-8") as file:
            file.write("listeners: [")
            file.flush()
            time.sleep(0.1)
            file.seek(0)
            config["listeners"][0]["http"] = respond("new")
            json.dump(config, file)
        harness.wait_until(lambda: get()[0] == b"new")
        self.assertEqual(proxy.stats().total("config_reload_failures_total"), 0)
        other = self.files.make("other", "localhost")
        for name in ("chain", "key"):
            shutil.copy(other[name], f"{folder}/{name}.new")
            os.rename(f"{folder}/{name}.new", f"{folder}/{name}")
        harness.wait_until(lambda: get()[1] != serial)
        with open(f"{folder}/more.yaml", "w", encoding="utf-8") as file:
            json.dump({"listeners": [listener("more", http=respond("more"))]}, file)
        proxy.wait_for_output("listener more on ")
        self.assertEqual(self.keep(Http1(proxy, "more")).get(), "more")
        count = proxy.stats().total("config_reloads_total")
        with open(f"{folder}/unrelated", "w", encoding="utf-8") as file:
            file.write("x")
        time.sleep(1)
        self.assertEqual(proxy.stats().total("config_reloads_total"), count)
        config["watch"] = False
        proxy.reload(config)
        config["listeners"][0]["http"] = respond("never")
        proxy.write_configuration(config)
        time.sleep(1)
        self.assertEqual(get()[0], b"new")

    # ---- What is no good

    def test_mistake_changes_nothing(self):
        proxy, config = self.start_with(listener("main", http=respond("old")))
        client = self.keep(Http1(proxy))
        wrong = copy.deepcopy(config)
        wrong["listeners"][0]["http"] = {"forward": "nowhere"}
        output = proxy.reload(wrong, succeeds=False)
        self.assertRegex(output, r"reload: .*sluice\.yaml:\d+:\d+: .*nowhere")
        self.assertIn("the previous configuration and files stay in use", output)
        self.assertEqual(client.get(), "old")
        stats = proxy.stats()
        self.assertEqual((stats.total("config_reloads_total"), stats.total("config_reload_failures_total")), (0, 1))
        proxy.reload("listeners: [", succeeds=False)
        self.assertEqual(client.get(), "old")

    def test_address_in_use_changes_nothing(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        proxy, config = self.start_with(listener("main", http=respond("old")))
        before = proxy.open_descriptors()
        free = free_port()
        wrong = copy.deepcopy(config)
        wrong["listeners"][0]["http"] = respond("new")
        wrong["listeners"] += [listener("fine", f"127.0.0.1:{free}", http=respond("x")),
                               listener("wrong", "127.0.0.1:%d" % taken.getsockname()[1], http=respond("x"))]
        output = proxy.reload(wrong, succeeds=False)
        self.assertIn('listener "wrong": cannot listen on', output)
        self.assertEqual(self.keep(Http1(proxy)).get(), "old")
        self.refuses(("127.0.0.1", free))
        harness.wait_until(lambda: proxy.open_descriptors() <= before + 1)

    def test_keys_that_need_a_restart(self):
        proxy, config = self.start_with(listener("main", http=respond("old")))
        config["workers"] = 3
        config["listeners"][0]["http"] = respond("new")
        self.assertIn("`workers` has changed, but is read at start only", proxy.reload(config))
        self.assertEqual(len(proxy.threads()), len(proxy.threads()))
        self.assertEqual(self.keep(Http1(proxy)).get(), "new")

    def test_signal_while_draining(self):
        proxy, config = self.start_with(listener("main", tcp={"forward": "x"}),
                                        upstreams=[upstream("x", self.keep(Origin(echo)))])
        with connect(proxy.address()) as sock:
            ping(sock)
            proxy.signal(signal.SIGTERM)
            proxy.wait_for_output("draining: ")
            proxy.signal(signal.SIGHUP)
            proxy.wait_for_output("reload: ignored, because the process is draining")
            ping(sock)
        self.assertEqual(proxy.wait()[0], 0)


class UnderLoad(quiet_day.QuietDay):
    """All kinds of clients, without the pauses of a quiet day, while the configuration changes all the time."""

    PAUSE = 0.3
    BETWEEN_RELOADS = 0.1

    def start(self, config, *arguments, **options):
        # Connections of many configurations live at once, and none of them may be drained.
        return super().start({**config, "reload": {"max_generations": 1000}}, *arguments, **options)

    def changed(self, config, chooser):
        """The configuration with changes that no client notices: routes, upstreams and listeners come and go, and
        places and options change."""
        config = copy.deepcopy(config)
        for each in config["listeners"]:
            if "http" in each and chooser.random() < 0.5:
                number = chooser.randrange(1000)
                each["http"]["routes"].insert(0, {"match": {"path": {"prefix": f"/never/{number}"}}, "respond": {"status": 404}})
            if "tcp" in each and chooser.random() < 0.3:
                each["tcp"]["buffer_high"] = chooser.choice(["256KiB", "1MiB"])
            if chooser.random() < 0.2:
                each["max_connections"] = chooser.randrange(1000, 2000)
        for each in config["upstreams"]:
            if chooser.random() < 0.2:
                each["connect_timeout"] = f"{chooser.randrange(4, 9)}s"
        for i in range(chooser.randrange(3)):
            config["upstreams"].append(upstream(f"more-{i}", f"127.0.0.1:{free_port()}"))
            config["listeners"].append(listener(f"more-{i}", tcp={"forward": f"more-{i}"}))
        chooser.shuffle(config["upstreams"])
        chooser.shuffle(config["listeners"])
        return config

    def test_quiet_day(self):
        seconds = 600 if LONG else 10 if SANITIZER else 15
        seed = int(harness.os.environ.get("SLUICE_E2E_SEED") or random.randrange(1 << 32))
        harness.print_note(f"seed {seed}")
        chooser = random.Random(seed)
        proxy = self.start_proxy()
        config = proxy.config
        before = proxy.pss()
        day = quiet_day.Day(proxy, seed)
        day.end = time.monotonic() + seconds
        day.longest_pause = self.PAUSE
        threads = [threading.Thread(target=day.run_client, args=(client,), daemon=True)
                   for client in self.clients(day, seed)]
        for thread in threads:
            thread.start()
        reloads = 0
        while time.monotonic() < day.end and not day.errors:
            if chooser.random() < 0.2:
                wrong = self.changed(config, chooser)
                wrong["upstreams"].append(upstream("wrong"))
                proxy.reload(wrong, succeeds=False)
            proxy.reload(self.changed(config, chooser))
            reloads += 1
            time.sleep(self.BETWEEN_RELOADS * chooser.random())
        proxy.reload(config)
        for thread in threads:
            thread.join(60 * SLOWNESS)
        self.assertEqual((day.errors, [thread for thread in threads if thread.is_alive()]), ([], []),
                         f"seed {seed}; stderr:\n{proxy.stderr()[-5000:]}")
        harness.print_note(f"{reloads} reloads, {day.counts['turns']} turns, memory {before >> 20} -> {proxy.pss() >> 20} MiB")
        self.assertGreater(reloads, 20)
        stats = proxy.wait_for(lambda s: s.total("sessions_active") == 0 and s.total("configurations") == 1, 20)
        self.assertEqual(stats.total("http_requests_ended_total"), stats.total("http_requests_ended_total", reason="ok"))
        self.assertEqual(set(stats.reasons()), {"finished"})
        self.assertEqual(stats.total("accepted_total"), day.counts["connections"])
        for name in ("endpoint_connect_errors_total", "http_retries_total", "refused_total", "tls_truncated_total"):
            self.assertEqual(stats.total(name), 0, name)
        self.stop(proxy)


if __name__ == "__main__":
    harness.main()
