"""The same requests to another proxy with its own configuration, and to Sluice with what `sluice convert` makes of it."""

import contextlib
import os
import re
import subprocess

import harness
from examples_test import Program
from harness import SLUICE, need
from http_wire import Server
from origins import free_port
from tls_support import TlsTest

# What servers report of the requests that they get.
ECHOED = ("x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-set", "x-gone", "x-user", "x-path", "authorization")


def app(name, **answers):
    """A server whose response has what it got. `answers`: statuses for paths."""
    def respond(request, connection):
        fields = "".join(f" {field}={request.value(field)}" for field in ECHOED if request.value(field))
        path = request.path.partition("?")[0].strip("/").replace("-", "_")
        connection.reply(request, status=answers.get(path, 200), fields=[("x-app", name), ("x-secret", "s")],
                         body=f"{name}: {request.method} {request.path} {request.authority}{fields}".encode())
    return Server(respond)


class ConvertTest(TlsTest):

    proxy_name = None  # `nginx` or `haproxy`
    compared = ("location", "x-app", "x-secret", "x-added", "www-authenticate", "retry-after")

    def convert(self, *arguments, code=0):
        done = subprocess.run([SLUICE, "convert", *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def written(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def converted(self, text, code=0, name="convert.conf"):
        """The configuration that Sluice makes of `text`, and its findings."""
        return self.convert("--from", self.proxy_name, self.written(name, text), code=code)

    def filled(self, text, **servers):
        """`text` with the port of each server in the place of its name in capitals, and the test's certificates."""
        for name, server in servers.items():
            text = re.sub(rf"\b{name.upper()}\b", server.address.rsplit(":", 1)[1], text)
        return text.replace("CHAIN", self.server["chain"]).replace("KEY", self.server["key"]).replace("FOLDER", self.folder)

    @contextlib.contextmanager
    def both(self, text, code=0):
        """Runs both proxies with the same file, but for the ports, which are PORT1, PORT2 and so on in it. Yields the ports of each,
        by their number."""
        numbers = sorted({int(n) for n in re.findall(r"\bPORT(\d)\b", text)})
        ports = [{n: free_port() for n in numbers} for _ in range(2)]
        texts = [re.sub(r"\bPORT(\d)\b", lambda m, own=own: str(own[int(m[1])]), text) for own in ports]
        config, findings = self.converted(texts[1], code)
        names = re.findall(r"^  - name: (\S+)\n    address", config, re.M)
        try:
            proxy = self.start(config, listeners=names)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{config}\n{findings}") from error
        with contextlib.closing(Program(self.proxy_name, texts[0], [("127.0.0.1", p) for p in ports[0].values()])):
            yield ports
        self.stop(proxy)

    def ask(self, port, host, path, *arguments, scheme="http"):
        """Status, the fields that are compared, and the body, but of errors."""
        done = subprocess.run(
            [need("curl"), "-sS", "-i", "--max-time", "20", "--path-as-is", "--cacert", self.ca, "--resolve", f"{host}:{port}:127.0.0.1",
             f"{scheme}://{host}:{port}{path}", "-H", f"Host: {host}", *arguments],
            capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            return f"curl: {done.returncode}"
        head, _, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
        lines = head.split("\n")
        status = lines[0].split()[1]
        fields = sorted(line for line in lines[1:] if line.lower().partition(":")[0] in self.compared)
        # A redirect within the host may have it, or not.
        fields = [re.sub(rf"^(location): {scheme}://{re.escape(host)}(:{port})?/", r"\1: /", field.replace("Location:", "location:"))
                  for field in fields]
        fields = [field.removesuffix(', charset="UTF-8"') for field in fields]
        if status == "502" and "x-app" not in head.lower():
            status = "503"  # No server can be connected to: in Sluice there is none then.
        fields = sorted(name.lower() + ":" + value for name, _, value in (field.partition(":") for field in fields))
        is_error = status[0] in "345" and not re.match(r"\w+: [A-Z]+ /", body) and "text" not in arguments
        return status, fields, "" if is_error and not body.startswith("said: ") else body

    def compare(self, ports, requests, number=1, scheme="http"):
        for host, path, *arguments in requests:
            with self.subTest(host=host, path=path, arguments=arguments):
                other, sluice = (self.ask(own[number], host, path, *arguments, scheme=scheme) for own in ports)
                self.assertEqual(sluice, other)


__all__ = ["ConvertTest", "app", "harness"]
