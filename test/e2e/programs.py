"""Real peers: nginx, HAProxy, openssl, iperf3, each with its own files and ports."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time

from harness import end, need, require, spawn, wait_until
from origins import connect, free_port


class _Server:
    """A program with its files in a folder of its own. It is ready when every address in `listens` accepts."""

    def __init__(self, name, listens):
        self.program = need(name)
        self._folder = tempfile.TemporaryDirectory(prefix=f"sluice-{os.path.basename(name)}-")
        self.folder = self._folder.name
        os.chmod(self.folder, 0o755)
        self._listens = listens
        self._process = None

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run(self, *arguments):
        log = open(os.path.join(self.folder, "output.log"), "wb")
        with log:
            self._process = spawn([self.program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  cwd=self.folder)
        try:
            for address in self._listens:
                wait_until(lambda: self._accepts(address), 10, f"{self.program} on {address}")
        except BaseException:
            print(self.output())
            self.close()
            raise

    def _accepts(self, address):
        if self._process.poll() is not None:
            raise AssertionError(f"{self.program} ended:\n{self.output()}")
        with contextlib.suppress(OSError), connect(address, timeout=1):
            return True
        return False

    def output(self):
        with open(os.path.join(self.folder, "output.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self):
        if self._process:
            end(self._process)
        self._folder.cleanup()


class Nginx(_Server):
    """`http` is the content of the http block, `stream` that of a stream block."""

    def __init__(self, listens, http="", stream=""):
        super().__init__("nginx", listens)
        modules = ""
        if stream:
            path = "/usr/lib/nginx/modules/ngx_stream_module.so"
            require(os.path.exists(path), "missing: nginx's stream module; run tools/deps")
            modules = f"load_module {path};"
        temporary = "".join(f"{kind}_temp_path {self.folder}/{kind};\n" for kind in
                            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        self.run("-e", "stderr", "-c", self.write("nginx.conf", f"""
            {modules}
            daemon off; master_process off; worker_processes 1; pid {self.folder}/pid; error_log stderr;
            events {{ worker_connections 1024; }}
            http {{ access_log off; {temporary} {http} }}
            {"stream {" + stream + "}" if stream else ""}
        """))


class HaProxy(_Server):
    def __init__(self, listens, config):
        super().__init__("haproxy", listens)
        self.run("-db", "-f", self.write("haproxy.cfg", f"""
global
    maxconn 1000
defaults
    timeout connect 5s
    timeout client 30s
    timeout server 30s
{config}
"""))


def certificate(folder, name):
    """A self-signed certificate for `name`. Returns the paths of the chain and of the key."""
    chain, key = os.path.join(folder, f"{name}.pem"), os.path.join(folder, f"{name}.key")
    subprocess.run([need("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}",
                    "-keyout", key, "-out", chain], check=True, capture_output=True, timeout=30)
    return chain, key


class Redis(_Server):
    """Keeps nothing on disk."""

    def __init__(self):
        self.address = f"127.0.0.1:{free_port()}"
        super().__init__("redis-server", [("127.0.0.1", int(self.address.split(":")[1]))])
        self.run("--port", self.address.split(":")[1], "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                 "--dir", self.folder)


class IperfServer(_Server):
    def __init__(self, port):
        super().__init__("iperf3", [])
        self.run("-s", "-B", "127.0.0.1", "-p", str(port))
        time.sleep(0.3)  # A connection to check whether it listens would count as a test run.


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False
