"""What nginx would have served itself: files, and `return` with variables. Sluice forwards to it.

Fields (x-origin-*) tell it which location of nginx.conf is meant, and what only Sluice knows about the client.
"""

import asyncio
import email.utils
import os
import re
import threading
import urllib.parse

from nginx_translate import VARIABLE

TYPES = {"html": "text/html", "htm": "text/html", "gif": "image/gif", "jpg": "image/jpeg", "png": "image/png", "txt": "text/plain",
         "js": "application/javascript", "css": "text/css", "xml": "text/xml", "json": "application/json"}
REASONS = {200: "OK", 204: "No Content", 206: "Partial Content", 301: "Moved Permanently", 302: "Moved Temporarily",
           304: "Not Modified", 403: "Forbidden", 404: "Not Found", 405: "Not Allowed"}
PLAIN = {200, 201, 204, 206, 301, 302, 303, 304, 307, 308}


class Request:

    def __init__(self, line, fields, body):
        self.method, self.target, _ = line.split(" ", 2)
        self.fields, self.body = fields, body
        self.path, _, self.query = self.target.partition("?")

    def field(self, name):
        return ("; " if name == "cookie" else ", ").join(text for key, text in self.fields if key == name)

    def variable(self, name, place):
        name = name.lower()
        host = self.field("host")
        known = {
            "uri": urllib.parse.unquote(self.path), "document_uri": urllib.parse.unquote(self.path), "request_uri": self.target,
            "args": self.query, "query_string": self.query, "is_args": "?" if self.query else "", "request_method": self.method,
            "host": re.sub(r":\d+$", "", host).lower().removesuffix(".") or place["server"], "remote_addr": self.field("x-origin-remote"),
            "scheme": self.field("x-origin-scheme"), "https": "on" if self.field("x-origin-scheme") == "https" else "",
            "server_protocol": {"HTTP/2": "HTTP/2.0"}.get(self.field("x-origin-protocol"), self.field("x-origin-protocol")),
            "http2": "h2" if self.field("x-origin-scheme") == "https" else "h2c", "server_port": place["port"],
            "server_name": place["server"], "ssl_protocol": self.field("x-origin-tls"), "ssl_server_name": self.field("x-origin-name"),
            "proxy_protocol_addr": self.field("x-origin-remote"), "request_body": self.body.decode("latin-1"),
            "content_length": self.field("content-length"), "content_type": self.field("content-type"),
            "document_root": place["root"], "server_addr": "127.0.0.1",
        }
        if name == "http2" and self.field("x-origin-protocol") != "HTTP/2":
            return ""
        if name in known:
            return known[name]
        if name.startswith("http_"):
            separator = "; " if name == "http_cookie" else ", "
            return separator.join(text for key, text in self.fields if key.replace("-", "_") == name[5:])
        if name.startswith("arg_"):
            return next((part.partition("=")[2] for part in self.query.split("&")
                         if part.partition("=")[0].lower() == name[4:]), "")
        if name.startswith("cookie_"):
            return next((part.partition("=")[2] for part in re.split(r";\s*", self.field("cookie"))
                         if part.partition("=")[0].lower() == name[7:]), "")
        return ""

    def expand(self, text, place):
        return VARIABLE.sub(lambda match: self.variable(match[1] or match[2], place), text)


def _page(status):
    title = f"{status} {REASONS.get(status, '')}".strip()
    return "text/html", f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n{title}\r\n</body>\r\n</html>\r\n".encode()


def answer(request, place):
    """Status, fields, body and trailers."""
    fields, status, kind, body = [], 200, place["type"], b""
    if place["return"]:
        given = place["return"] if re.fullmatch(r"\d+", place["return"][0]) else ["302", *place["return"]]
        status = int(given[0])
        text = request.expand(given[1], place) if len(given) > 1 else None
        if status in (301, 302, 303, 307, 308) and text is not None:
            fields.append(("Location", _location(request, place, text)))
            kind, body = _page(status)
        elif text is not None:
            body = text.encode("latin-1")
        elif status >= 300:
            kind, body = _page(status)
    else:
        status, kind, body = _file(request, place, fields)
    changes = [(name, request.expand(text, place)) for name, text, *always in place["headers"] if status in PLAIN or always]
    fields += [(name, text) for name, text in changes if text]
    trailers = [(name, request.expand(text, place)) for name, text, *_ in place["trailers"]] if status in PLAIN else []
    if body or status not in (204, 304):
        fields.append(("Content-Type", kind))
    return status, fields, body, [(name, text) for name, text in trailers if text]


def _location(request, place, text):
    if not text.startswith("/") or not place["absolute"]:
        return text
    host = place["server"] if place["server_name_in_redirect"] else request.variable("host", place)
    port = f":{place['port']}" if place["port_in_redirect"] and place["port"] else ""
    return f"{request.field('x-origin-scheme')}://{host}{port}{text}"


def _file(request, place, fields):
    if request.method not in ("GET", "HEAD"):
        return 405, *_page(405)
    path = urllib.parse.unquote(request.path)
    if place["alias"] is not None:
        prefix = place["location"]
        name = place["alias"] + (path[len(prefix):] if path.startswith(prefix) else "")
    else:
        name = place["root"] + path
    if name.endswith("/"):
        name = next((name + index for index in place["index"] if os.path.exists(name + index)), name)
        if name.endswith("/"):
            status = 403 if os.path.isdir(name) else 404
            return status, *_page(status)
    if os.path.isdir(name):
        fields.append(("Location", _location(request, place, request.path + "/")))
        return 301, *_page(301)
    try:
        with open(name, "rb") as file:
            body = file.read()
    except FileNotFoundError:
        return 404, *_page(404)
    except OSError:
        return 403, *_page(403)
    state = os.stat(name)
    tag = f'"{int(state.st_mtime):x}-{state.st_size:x}"'
    fields += [("Last-Modified", email.utils.formatdate(state.st_mtime, usegmt=True)), ("ETag", tag), ("Accept-Ranges", "bytes")]
    since = request.field("if-modified-since")
    if request.field("if-none-match") == tag or (since and since == fields[0][1]):
        return 304, "text/html", b""
    return 200, TYPES.get(name.rsplit(".", 1)[-1], place["type"]), body


class Origin:
    """Both servers, in a thread: `places` at origin.sock, and the texts of `return` in stream."""

    def __init__(self, prefix, places, returns):
        self.prefix, self.places, self.returns = prefix, places, returns
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._run(ready)), daemon=True).start()
        if not ready.wait(10):
            raise RuntimeError("the origin did not start")

    async def _run(self, ready):
        limit = 1 << 20
        servers = [await asyncio.start_unix_server(self._serve, f"{self.prefix}/origin.sock", limit=limit)]
        for path, text in self.returns:
            servers.append(await asyncio.start_unix_server(self._teller(text), path, limit=limit))
        ready.set()
        await asyncio.gather(*(server.serve_forever() for server in servers))

    @staticmethod
    def _teller(text):
        async def tell(reader, writer):
            try:
                # PROXY TCP4 source destination port port
                words = (await reader.readline()).decode("latin-1").split()
                known = {}
                if len(words) == 6:
                    known = {"remote_addr": words[2], "remote_port": words[4], "proxy_protocol_addr": words[2],
                             "proxy_protocol_port": words[4]}
                writer.write(VARIABLE.sub(lambda match: known.get(match[1] or match[2], ""), text).encode("latin-1"))
                await writer.drain()
                writer.close()
            except OSError:
                pass
        return tell

    async def _serve(self, reader, writer):
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()

    async def _one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")[:-2]
        fields = [(name.lower(), text.strip()) for name, _, text in (item.partition(":") for item in lines)]
        given = dict(fields)
        if given.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._body(reader, given)
        request = Request(line, fields, body)
        place = self.places[int(given["x-origin-place"])]
        status, answered, body, trailers = answer(request, place)
        if status == 444:
            return False
        text = f"HTTP/1.1 {status} {REASONS.get(status, '')}\r\n"
        text += "".join(f"{name}: {content}\r\n" for name, content in answered)
        bodiless = request.method == "HEAD" or status in (204, 304)
        if trailers and not bodiless:
            text += "Transfer-Encoding: chunked\r\n\r\n"
            chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n" if body else b""
            end = b"0\r\n" + "".join(f"{name}: {content}\r\n" for name, content in trailers).encode("latin-1") + b"\r\n"
            writer.write(text.encode("latin-1") + chunk + end)
        else:
            if status not in (204, 304):
                text += f"Content-Length: {len(body)}\r\n"
            writer.write((text + "\r\n").encode("latin-1") + (b"" if bodiless else body))
        await writer.drain()
        return True

    @staticmethod
    async def _body(reader, fields):
        if fields.get("transfer-encoding", "").lower() != "chunked":
            return await reader.readexactly(int(fields.get("content-length", 0)))
        parts = []
        while length := int((await reader.readline()).split(b";")[0], 16):
            parts.append(await reader.readexactly(length))
            await reader.readline()
        while (await reader.readline()).strip():
            pass
        return b"".join(parts)
