"""L4 with real programs on both sides: curl, wrk, iperf3, openssl, nginx and HAProxy."""

import json
import os
import re
import subprocess

import harness
from harness import MIB, SANITIZER, SLOWNESS, need, require, print_note
from origins import connect, free_port, receive_all
from programs import HaProxy, IperfServer, Nginx, certificate, has_ipv6


def http_get(address, source=None):
    """The body of GET / and the client's own address."""
    with connect(address, source) as client:
        mine = client.getsockname()
        client.sendall(b"GET / HTTP/1.0\r\nHost: test\r\n\r\n")
        head, _, body = receive_all(client).partition(b"\r\n\r\n")
        if b" 200 " not in head.splitlines()[0]:
            raise AssertionError(head)
        return body.decode(), mine


class PeersTest(harness.SluiceTest):

    def call(self, *arguments, seconds=60, **options):
        return subprocess.run(arguments, capture_output=True, timeout=seconds * SLOWNESS, check=False, **options)


class Web(PeersTest):

    def nginx(self, listen="", address=None):
        port = free_port()
        listen = listen or f"127.0.0.1:{port}"
        self.files = self.temporary_directory()
        os.chmod(self.files, 0o755)
        return self.keep(Nginx([address or ("127.0.0.1", port)], f"""
            server {{ listen {listen}; root {self.files}; client_max_body_size 1g;
                      location = /small {{ return 200 "{'x' * 100}"; }}
                      location /put/ {{ dav_methods PUT; }} }}""")), f"127.0.0.1:{port}"

    def curl(self, *arguments):
        result = self.call(need("curl"), "-sS", "--fail", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def write(self, name, size):
        data = os.urandom(size)
        with open(os.path.join(self.files, name), "wb") as file:
            file.write(data)
        return data

    def check_bodies(self, *url):
        for size in (0, 1, 1460, 65536, 1_000_003, 20 * MIB):
            body = self.write("body", size)
            self.assertTrue(self.curl(*url[:-1], url[-1] + "/body") == body, f"{size} bytes")

    def test_curl(self):
        _, upstream = self.nginx()
        proxy = self.proxy(upstream)
        self.check_bodies(f"http://127.0.0.1:{proxy.port()}")

    def test_curl_parallel(self):
        _, upstream = self.nginx()
        proxy = self.proxy(upstream, workers=2)
        body = self.write("body", 2 * MIB)
        out = self.temporary_directory()
        self.curl("--parallel", "--parallel-max", "20", "-o", f"{out}/#1",
                  f"http://127.0.0.1:{proxy.port()}/body?[1-40]")
        for number in range(1, 41):
            with open(f"{out}/{number}", "rb") as file:
                self.assertTrue(file.read() == body)

    def test_wrk(self):
        _, upstream = self.nginx()
        proxy = self.proxy(upstream, workers=2)
        self.write("body", 64 * 1024)
        for path in ("small", "body"):
            with self.subTest(path):
                result = self.call(need("wrk"), "-t1", "-c32", "-d2s", f"http://127.0.0.1:{proxy.port()}/{path}")
                output = result.stdout.decode()
                self.assertEqual(result.returncode, 0, output)
                self.assertNotIn("Socket errors", output)
                self.assertNotIn("Non-2xx", output)
                rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
                print_note(f"/{path}: {rate:.0f} requests/s")
                self.assertGreater(rate, 50)

    def test_ipv6(self):
        require(has_ipv6(), "this machine has no ::1")
        port = free_port("::1")
        self.nginx(f"[::1]:{port}", ("::1", port))
        proxy = self.proxy(f"[::1]:{port}", listener={"address": "[::1]:0"})
        self.check_bodies("-g", f"http://[::1]:{proxy.port()}")

    def test_unix_sockets(self):
        path = os.path.join(self.temporary_directory(), "nginx.sock")
        os.chmod(os.path.dirname(path), 0o755)
        self.nginx(f"unix:{path}", path)
        for address in (f"unix:{self.temporary_directory()}/s.sock", f"unix:@sluice-e2e-{os.getpid()}"):
            for workers in (1, 2):
                with self.subTest(address=address, workers=workers):
                    proxy = self.proxy(f"unix:{path}", listener={"address": address}, workers=workers)
                    option = "--abstract-unix-socket" if "@" in address else "--unix-socket"
                    self.check_bodies(option, address[5:].lstrip("@"), "http://test")
                    self.stop(proxy)


class Iperf(PeersTest):

    def run_iperf(self, *arguments, **config):
        port = free_port()
        self.keep(IperfServer(port))
        proxy = self.proxy(f"127.0.0.1:{port}", **config)
        result = self.call(need("iperf3"), "-c", "127.0.0.1", "-p", str(proxy.port()), "-t", "2", "-J", *arguments)
        report = json.loads(result.stdout)
        self.assertNotIn("error", report)
        self.assertEqual(result.returncode, 0, result.stdout)
        return report["end"]

    def check(self, figures):
        rate = figures["bits_per_second"] / 8 / MIB
        print_note(f"{rate:.0f} MiB/s")
        self.assertGreater(rate, 5 if SANITIZER else 50)

    def test_forward(self):
        self.check(self.run_iperf()["sum_received"])

    def test_reverse(self):
        self.check(self.run_iperf("--reverse")["sum_received"])

    def test_bidirectional(self):
        # iperf3's server uses the first of the two connections that it accepts for the upload, and nothing else tells
        # them apart. One worker connects in the order of acceptance; two may swap them, and then nothing is ever read.
        end = self.run_iperf("--bidir", workers=1)
        self.check(end["sum_received"])
        self.check(end["sum_received_bidir_reverse"])

    def test_parallel_plain_rings(self):
        self.check(self.run_iperf("-P", "8", workers=2, memory={"rings": "plain"})["sum_received"])


class Tls(PeersTest):

    NAMES = ("alpha.test", "beta.test", "other.test")

    def start_servers(self):
        folder = self.temporary_directory()
        os.chmod(folder, 0o755)
        self.ports = {name: free_port() for name in self.NAMES}
        servers = ""
        for name, port in self.ports.items():
            chain, key = certificate(folder, name)
            servers += f"""server {{ listen 127.0.0.1:{port} ssl http2; ssl_protocols TLSv1.2 TLSv1.3;
                           ssl_certificate {chain}; ssl_certificate_key {key}; return 200 "{name}"; }}\n"""
        self.keep(Nginx([("127.0.0.1", port) for port in self.ports.values()], servers))

    def start_proxy(self, routes):
        self.start_servers()
        config = harness.configuration([])
        config["listeners"][0]["tcp"] = {"routes": routes}
        config["upstreams"] = [{"name": name, "endpoints": [f"127.0.0.1:{port}"]} for name, port in self.ports.items()]
        return self.start(config)

    def certificate_name(self, proxy, name, *options):
        """The name in the certificate of the server that openssl is connected to; None if there is none."""
        server_name = ("-servername", name) if name else ("-noservername",)
        result = self.call(need("openssl"), "s_client", "-connect", f"127.0.0.1:{proxy.port()}", *server_name, *options,
                           stdin=subprocess.DEVNULL)
        self.output = result.stdout.decode(errors="replace")
        match = re.search(r"subject=CN\s*=\s*(\S+)", self.output)
        return match and match[1]

    def test_sni(self):
        proxy = self.start_proxy([
            {"match": {"sni": ["alpha.test"]}, "forward": "alpha.test"},
            {"match": {"sni": ["beta.test", "*.beta.test"]}, "forward": "beta.test"},
            {"forward": "other.test"},
        ])
        for name, expected in (("alpha.test", "alpha.test"), ("beta.test", "beta.test"), ("x.beta.test", "beta.test"),
                               ("x.y.beta.test", "other.test"), ("gamma.test", "other.test"), (None, "other.test")):
            for options in (("-tls1_3",), ("-tls1_2",)):
                self.assertEqual(self.certificate_name(proxy, name, *options), expected, (name, options))

    def test_no_route(self):
        proxy = self.start_proxy([{"match": {"sni": ["alpha.test"]}, "forward": "alpha.test"}])
        self.assertEqual(self.certificate_name(proxy, "alpha.test"), "alpha.test")
        self.assertIsNone(self.certificate_name(proxy, "beta.test"))
        proxy.wait_for(lambda s: s.ended("no_route") == 1)

    def test_alpn(self):
        proxy = self.start_proxy([
            {"match": {"alpn": ["h2"], "sni": ["alpha.test"]}, "forward": "alpha.test"},
            {"match": {"alpn": ["http/1.1"]}, "forward": "beta.test"},
            {"forward": "other.test"},
        ])
        self.assertEqual(self.certificate_name(proxy, "alpha.test", "-alpn", "h2,http/1.1"), "alpha.test")
        self.assertIn("ALPN protocol: h2", self.output)
        self.assertEqual(self.certificate_name(proxy, "alpha.test", "-alpn", "http/1.1"), "beta.test")
        self.assertEqual(self.certificate_name(proxy, "gamma.test", "-alpn", "http/1.1"), "beta.test")
        self.assertEqual(self.certificate_name(proxy, "gamma.test", "-alpn", "h2"), "other.test")
        self.assertEqual(self.certificate_name(proxy, "alpha.test"), "other.test")

    def test_curl_through_tls(self):
        """A whole exchange, not only the handshake."""
        proxy = self.start_proxy([{"match": {"sni": ["*.test"]}, "forward": "beta.test"}])
        result = self.call(need("curl"), "-sSk", "--connect-to", f"::127.0.0.1:{proxy.port()}", "https://any.test/")
        self.assertEqual(result.stdout, b"beta.test", result.stderr)

    def test_openssl_server(self):
        """openssl on both ends."""
        folder = self.temporary_directory()
        chain, key = certificate(folder, "alpha.test")
        port = free_port()
        server = harness.spawn([need("openssl"), "s_server", "-accept", f"127.0.0.1:{port}", "-cert", chain, "-key",
                                key, "-www", "-quiet"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        self.addCleanup(harness.end, server)
        config = harness.configuration([f"127.0.0.1:{port}"])
        config["listeners"][0]["tcp"] = {"routes": [{"match": {"sni": ["alpha.test"]}, "forward": "main"}]}
        proxy = self.start(config)
        harness.wait_until(lambda: self.certificate_name(proxy, "alpha.test") == "alpha.test", 10, "openssl s_server")


class ProxyProtocol(PeersTest):
    """Addresses survive a chain of proxies: client -> HAProxy or nginx -> Sluice -> nginx or HAProxy."""

    SOURCE = "127.0.0.77"

    def nginx_receiver(self, listen=None, address=None):
        port = free_port()
        response = "$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port"
        self.keep(Nginx([address or ("127.0.0.1", port)], f"""
            server {{ listen {listen or f'127.0.0.1:{port}'} proxy_protocol; return 200 "{response}"; }}"""))
        return f"127.0.0.1:{port}"

    def haproxy_receiver(self):
        port = free_port()
        self.keep(HaProxy([("127.0.0.1", port)], f"""
frontend receiver
    mode http
    bind 127.0.0.1:{port} accept-proxy
    http-request return status 200 content-type text/plain lf-string "%[src] %[src_port] %[dst] %[dst_port]"
"""))
        return f"127.0.0.1:{port}"

    def haproxy_sender(self, target, option):
        port = free_port()
        self.keep(HaProxy([("127.0.0.1", port)], f"""
listen sender
    mode tcp
    bind 127.0.0.1:{port}
    server sluice {target} {option}
"""))
        return "127.0.0.1", port

    def nginx_sender(self, target):
        port = free_port()
        self.keep(Nginx([("127.0.0.1", port)], stream=f"""
            server {{ listen 127.0.0.1:{port}; proxy_pass {target}; proxy_protocol on; }}"""))
        return "127.0.0.1", port

    def check(self, first, source=SOURCE):
        """The last server of the chain knows the client that connected to the first."""
        seen, mine = http_get(first, source)
        self.assertEqual(seen.strip(), f"{mine[0]} {mine[1]} {first[0]} {first[1]}")

    def test_to_nginx(self):
        receiver = self.nginx_receiver()
        for version in ("v1", "v2"):
            with self.subTest(version):
                proxy = self.proxy(receiver, upstream={"send_proxy_protocol": version})
                self.check(proxy.address())

    def test_to_haproxy(self):
        receiver = self.haproxy_receiver()
        for version in ("v1", "v2"):
            with self.subTest(version):
                proxy = self.proxy(receiver, upstream={"send_proxy_protocol": version})
                self.check(proxy.address())

    def test_from_haproxy(self):
        """Both versions in, both out."""
        receiver = self.nginx_receiver()
        for option in ("send-proxy", "send-proxy-v2", "send-proxy-v2-ssl-cn"):
            for version in ("v1", "v2"):
                with self.subTest(f"{option} -> {version}"):
                    proxy = self.proxy(receiver, upstream={"send_proxy_protocol": version},
                                       listener={"proxy_protocol": {"accept": "required", "trusted": ["127.0.0.1"]}})
                    self.check(self.haproxy_sender(proxy.addresses["main"], option))

    def test_from_nginx(self):
        proxy = self.proxy(self.haproxy_receiver(), upstream={"send_proxy_protocol": "v2"},
                           listener={"proxy_protocol": {"accept": "required"}})
        self.check(self.nginx_sender(proxy.addresses["main"]))

    def test_from_sluice(self):
        """Two instances of Sluice in a row."""
        inner = self.proxy(self.nginx_receiver(), upstream={"send_proxy_protocol": "v1"},
                           listener={"proxy_protocol": {"accept": "required"}})
        outer = self.proxy(inner.addresses["main"], upstream={"send_proxy_protocol": "v2"})
        self.check(outer.address())

    def test_ipv6(self):
        require(has_ipv6(), "this machine has no ::1")
        receiver = self.nginx_receiver()
        for version in ("v1", "v2"):
            with self.subTest(version):
                proxy = self.proxy(receiver, upstream={"send_proxy_protocol": version}, listener={"address": "[::1]:0"})
                self.check(proxy.address(), None)

    def test_client_on_unix_socket(self):
        """The client has no address: the header says so, and the receivers accept it."""
        for receiver in (self.nginx_receiver(), self.haproxy_receiver()):
            for version in ("v1", "v2"):
                with self.subTest(f"{version} to {receiver}"):
                    address = f"{self.temporary_directory()}/s.sock"
                    self.proxy(receiver, upstream={"send_proxy_protocol": version},
                               listener={"address": f"unix:{address}"})
                    http_get(address)


if __name__ == "__main__":
    harness.main()
