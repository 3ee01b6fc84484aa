"""Support for tests of HTTP with other programs: building those of http_peers.d, servers, proxies, and curl."""

import atexit
import json
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading

import harness
from harness import ROOT, SLOWNESS, need, require
from tls_support import TlsTest

SOURCES = ROOT / "test/e2e/http_peers.d"

# The kinds of peers: the protocol, and whether over TLS.
KINDS = [(protocol, secure) for protocol in ("http1", "http2") for secure in (False, True)]


def words(kind):
    return kind[0] + (" over TLS" if kind[1] else "")


# ---- Programs

_made = {}


def _folder():
    folder = tempfile.mkdtemp(prefix="sluice-e2e-")
    atexit.register(shutil.rmtree, folder)
    return folder


def go_program(package, module=SOURCES, seconds=230):
    """A program of the module in http_peers.d or another folder, or one that its go.mod lists as a tool."""
    if (module, package) not in _made:
        go = need("go")
        found = re.search(r"go(\d+)\.(\d+)", subprocess.run([go, "version"], capture_output=True, text=True, timeout=60,
                                                             check=True).stdout)
        require(found and (int(found[1]), int(found[2])) >= (1, 26), "go is older than 1.26")
        folder = _folder()
        options = {"cwd": module, "capture_output": True, "text": True, "timeout": seconds, "check": False,
                   "env": {"HOME": folder, **os.environ, "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local",
                           "GOWORK": "off"}}
        brought = subprocess.run([go, "list", "-deps", package], **options)
        require(brought.returncode == 0, f"modules do not come: {brought.stderr}")
        built = subprocess.run([go, "build", "-buildvcs=false", "-o", folder + "/program", package], **options)
        if built.returncode:
            raise AssertionError(built.stderr)
        _made[module, package] = folder + "/program"
    return _made[module, package]


def node_script(name):
    """Node and a script of http_peers.d/node, with the packages of its package-lock.json."""
    node, npm = need("node", "npm")
    if "node" not in _made:
        found = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        require(int(found[1:].split(".")[0]) >= 18, "node is older than 18")
        folder = _folder() + "/node"
        shutil.copytree(SOURCES / "node", folder)
        brought = subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, text=True,
                                 capture_output=True, timeout=120, check=False, stdin=subprocess.DEVNULL)
        require(brought.returncode == 0, f"npm's packages do not come: {brought.stdout}{brought.stderr}")
        _made["node"] = folder
    return [node, f"{_made['node']}/{name}"]


class Server:
    """A program that prints its address on its first line, and then reports as lines of JSON."""

    def __init__(self, arguments, kind, environment=None):
        self.kind = kind
        self._child = harness.spawn(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    env={**os.environ, **(environment or {})})
        self.address = self._child.stdout.readline().decode().strip()
        if not self.address:
            raise AssertionError(f"{arguments} did not start")
        self._reports = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._child.stdout:
            self._reports.put(json.loads(line))

    def signal(self, number):
        self._child.send_signal(number)

    def wait(self, seconds=10):
        self._child.wait(seconds * SLOWNESS)

    def report(self, seconds=10):
        try:
            return self._reports.get(timeout=seconds * SLOWNESS)
        except queue.Empty:
            raise AssertionError("the server reports nothing more") from None

    def close(self):
        harness.end(self._child)


def go_options(**options):
    return [f"-{name.replace('_', '-')}={value}" for name, value in options.items()]


# ---- Tests

class CurlResponse:
    """The result of a curl run. Names of fields are in lower case."""

    def __init__(self, head_text, body, facts):
        self.heads, self.trailers = [], {}
        for block in re.split(r"\r?\n\r?\n", head_text):
            lines = block.split("\r\n" if "\r\n" in block else "\n")
            if lines[0].startswith("HTTP/"):
                self.heads.append((lines[0], _fields(lines[1:])))
            elif block.strip():
                self.trailers.update(_fields(lines))
        self.body, self.facts = body, facts
        self.status, self.version = facts["http_code"], facts["http_version"]

    @property
    def fields(self):
        return self.heads[-1][1]

    @property
    def early(self):
        """Status and fields of the interim responses."""
        return [(int(line.split()[1]), fields) for line, fields in self.heads[:-1]]

    def json(self):
        return json.loads(self.body)


def _fields(lines):
    fields = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), []).append(value.strip())
    return {name: ", ".join(values) for name, values in fields.items()}


class HttpTest(TlsTest):

    def setUp(self):
        super().setUp()
        self.files = self.temporary_directory()
        os.chmod(self.files, 0o755)

    def write(self, name, data):
        """A file for servers and clients."""
        path = os.path.join(self.files, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def web_server(self, kind=("http1", False), node=False, environment=None, **options):
        """A server of kind `kind`: Go's net/http with options of http_peers.d/web, or Node's."""
        protocol, secure = kind
        chain, key = self.server["chain"], self.server["key"]
        if node:
            arguments = [*node_script("server.mjs"), protocol, *((chain, key) if secure else ())]
        else:
            tls = {"certificate": chain, "key": key} if secure else {}
            arguments = [go_program("./web"), "server", *go_options(protocol=protocol, **tls, **options)]
        return self.keep(Server(arguments, kind, environment))

    def upstream(self, *servers, kind=None, **options):
        protocol, secure = kind or servers[0].kind
        tls = {"tls": {"ca": self.ca, "server_name": "localhost"}} if secure else {}
        return {"name": "main", "protocol": protocol, "endpoints": [getattr(server, "address", server)
                                                                    for server in servers], **tls, **options}

    def configuration(self, upstream, http=None, listener=None, **top):
        """Listeners `plain` and `secure`, each for both protocols."""
        http = {**({} if http and "routes" in http else {"forward": "main"}), **(http or {})}
        listeners = [{"name": "plain", "address": "127.0.0.1:0", "http": http, **(listener or {})}]
        listeners.append({**listeners[0], "name": "secure", "tls": {"certificates": [self.server],
                                                                    "alpn": ["h2", "http/1.1"]}})
        return {"workers": 1, "shutdown_timeout": "8s", **top, "listeners": listeners, "upstreams": [upstream]}

    def through(self, *servers, http=None, cut_allowed=False, listener=None, top=None, **upstream):
        """A proxy in front of servers of one kind; keywords are those of `upstream`."""
        return self.start(self.configuration(self.upstream(*servers, **upstream), http, listener, **(top or {})),
                          cut_allowed=cut_allowed)

    def url(self, where, kind, path="/"):
        """The URL at a proxy, or at a server."""
        port = where.address.rsplit(":", 1)[1] if isinstance(where, Server) else where.port(
            "secure" if kind[1] else "plain")
        return f"{'https' if kind[1] else 'http'}://localhost:{port}{path}"

    def call(self, *arguments, seconds=60, check=True, **options):
        result = subprocess.run(arguments, capture_output=True, timeout=seconds * SLOWNESS, check=False, **options)
        if check and result.returncode:
            raise AssertionError(f"{' '.join(arguments)} ended with {result.returncode}:\n"
                                 f"{(result.stdout[-2000:] + result.stderr[-2000:]).decode(errors='replace')}")
        return result

    CURL_PROTOCOLS = {("http1", False): "--http1.1", ("http1", True): "--http1.1",
                      ("http2", False): "--http2-prior-knowledge", ("http2", True): "--http2"}

    def curl_options(self, kind):
        return ["-sS", self.CURL_PROTOCOLS[kind], "--ipv4", "--cacert", self.ca, "--max-time", str(60 * SLOWNESS)]

    def curl(self, where, kind, path, *arguments, seconds=60, **options):
        """One request, as a CurlResponse."""
        with tempfile.TemporaryDirectory(prefix="sluice-e2e-") as folder:
            result = self.call(need("curl"), *self.curl_options(kind), "-D", folder + "/heads", "-o", folder + "/body",
                               "-w", "%{json}", *arguments, self.url(where, kind, path), seconds=seconds, **options)
            with open(folder + "/heads", encoding="utf-8", newline="") as heads:
                head_text = heads.read()
            body = b""
            if os.path.exists(folder + "/body"):
                with open(folder + "/body", "rb") as file:
                    body = file.read()
            return CurlResponse(head_text, body, json.loads(result.stdout))

    def go_client(self, where, kind, path, headers=(), trailers=(), **options):
        """One request by Go, as `responseReport` of http_peers.d/web/client.go."""
        secure = {"ca": self.ca} if kind[1] else {}
        fields = [f"-header={line}" for line in headers] + [f"-trailer={line}" for line in trailers]
        return json.loads(self.call(go_program("./web"), "client", *fields, *go_options(
            protocol=kind[0], url=self.url(where, kind, path), **secure, **options)).stdout)
