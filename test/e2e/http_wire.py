"""HTTP/1.1 and HTTP/2 on plain sockets: lets tests send what no library would send, and see exactly what arrives.

Texts of heads are str with a character per byte (latin-1), bodies are bytes. Readers take bytes and are strict: a
`WireError` reports which rule the peer broke.
"""

import collections
import contextlib
import heapq
import re
import selectors
import socket
import struct
import threading
import time

from origins import PATIENCE_SECONDS, connect, reset, text_of

KIB = 1024


class WireError(Exception):
    """The peer broke a rule, or ended too early."""


def bytes_of(text):
    return text if isinstance(text, (bytes, bytearray)) else text.encode("latin-1")


class Message:
    """A request or a response, as it arrived."""

    def __init__(self):
        self.method = self.scheme = self.authority = self.path = self.protocol = ""
        self.status = 0
        self.fields = []        # (name, value), names in lower case; without pseudo-header fields and Host.
        self.body = bytearray()
        self.trailers = []
        self.framing = "none"   # none, length, chunked, until end; HTTP/2: frames.
        self.interim = []       # The interim responses (1xx) before this one.
        self.complete = False
        self.failure = ""       # Why it is incomplete: "end", "reset" (of the connection), or HTTP/2's error.
        self.stream = 0
        self.persistent = True

    def values(self, name):
        return [value for found, value in self.fields if found == name]

    def value(self, name):
        return ", ".join(self.values(name))

    def __repr__(self):
        start = f"{self.method} {self.scheme}://{self.authority}{self.path}" if self.method else f"{self.status}"
        state = "" if self.complete else f" ({self.failure or 'not complete'})"
        fields = "".join(f" {name}: {value};" for name, value in self.fields)
        trailers = "".join(f" trailer {name}: {value};" for name, value in self.trailers)
        return f"<{start}{state}{fields} {self.framing} {bytes(self.body[:200])!r}{trailers}>"


# ---- HTTP/1.1

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e\x80-\xff]+) HTTP/1\.([01])")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*")
_HEX = re.compile(rb"[0-9A-Fa-f]{1,16}")


class Http1Reader:
    """Reads requests, or responses to the requests whose methods are in `methods`."""

    def __init__(self, requests):
        self.requests = requests
        self.methods = collections.deque()
        self.messages = []   # The last one may be incomplete.
        self.tunnel = None   # A bytearray of the bytes after HTTP is over: after an upgrade or a CONNECT.
        self.ended = False
        self._in = bytearray()
        self._state = self._read_head
        self._left = 0
        self._interim = []

    def feed(self, data):
        self._in += data
        while self._state():
            pass

    def end(self, how="end"):
        """The peer sends nothing more."""
        self.ended = True
        message = self.messages[-1] if self.messages else None
        if self._state == self._read_until_end and how == "end":
            self._finish()
        elif message and not message.complete:
            message.failure = how

    @property
    def rest(self):
        """The bytes that belong to no message yet."""
        return bytes(self._in)

    def _line(self):
        end = self._in.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._in[:end + 1])
        if not line.endswith(b"\r\n"):
            raise WireError(f"a line that ends with LF only: {line!r}")
        del self._in[:end + 1]
        return line[:-2]

    def _lines(self):
        """The lines up to the empty line; None while that has not arrived."""
        if self._in.startswith(b"\r\n"):
            del self._in[:2]
            return []
        end = self._in.find(b"\r\n\r\n")
        if end < 0:
            return None
        lines = bytes(self._in[:end]).split(b"\r\n")
        del self._in[:end + 4]
        return lines

    @staticmethod
    def _fields(lines):
        fields = []
        for line in lines:
            match = _FIELD.fullmatch(line)
            if not match:
                raise WireError(f"a field line that is none: {line!r}")
            fields.append((match[1].decode("latin-1").lower(), match[2].decode("latin-1")))
        return fields

    def _read_head(self):
        lines = self._lines()
        if lines is None:
            return False
        message = Message()
        match = lines and (_REQUEST_LINE if self.requests else _STATUS_LINE).fullmatch(lines[0])
        if not match:
            raise WireError(f"a start line that is none: {lines[:1]!r}")
        fields = self._fields(lines[1:])
        lengths = [value for name, value in fields if name == "content-length"]
        codings = [value for name, value in fields if name == "transfer-encoding"]
        options = [option.strip().lower() for name, value in fields if name == "connection"
                   for option in value.split(",")]
        if len(lengths) > 1 or len(codings) > 1 or (lengths and codings):
            raise WireError(f"a framing that is not clear: {fields}")
        if lengths and not re.fullmatch(r"\d{1,19}", lengths[0]):
            raise WireError(f"content-length: {lengths[0]}")
        if codings and codings[0].lower() != "chunked":
            raise WireError(f"transfer-encoding: {codings[0]}")
        if self.requests:
            message.method, message.path = match[1].decode(), match[2].decode("latin-1")
            message.persistent = match[3] == b"1" and "close" not in options
            hosts = [value for name, value in fields if name == "host"]
            if len(hosts) != 1 and match[3] == b"1":
                raise WireError(f"{len(hosts)} fields Host")
            message.authority = hosts[0] if hosts else ""
            message.protocol = next((value for name, value in fields if name == "upgrade"), "")
            tunnel = message.method == "CONNECT" or (message.protocol and "upgrade" in options)
            method = message.method
        else:
            message.status = int(match[2])
            message.persistent = match[1] == b"1" and "close" not in options
            method = self.methods[0] if self.methods else "GET"
            tunnel = message.status == 101 or (method == "CONNECT" and message.status // 100 == 2)
        message.fields = [(name, value) for name, value in fields if name != "host" or not self.requests]
        if not self.requests and message.status < 200 and not tunnel:
            message.complete = True
            self._interim.append(message)
            return True
        if not self.requests and self.methods:
            self.methods.popleft()
        message.interim, self._interim = self._interim, []
        self.messages.append(message)
        bodiless = not self.requests and (method == "HEAD" or message.status in (204, 304))
        if tunnel:
            message.complete = True
            self.tunnel = bytearray()
            self._state = self._read_tunnel
        elif codings and not bodiless:
            message.framing, self._state = "chunked", self._read_chunk_size
        elif lengths and not bodiless:
            message.framing, self._left, self._state = "length", int(lengths[0]), self._read_length
        elif self.requests or bodiless:
            self._finish()
        else:
            message.framing, self._state = "until end", self._read_until_end
        return True

    def _finish(self):
        self.messages[-1].complete = True
        self._state = self._read_head
        return bool(self._in)

    def _take(self):
        part = self._in[:self._left]
        self.messages[-1].body += part
        self._left -= len(part)
        del self._in[:len(part)]

    def _read_length(self):
        self._take()
        return self._left == 0 and self._finish()

    def _read_until_end(self):
        self._left = len(self._in)
        self._take()
        return False

    def _read_tunnel(self):
        self.tunnel += self._in
        self._in.clear()
        return False

    def _read_chunk_size(self):
        line = self._line()
        if line is None:
            return False
        if not _HEX.fullmatch(line):
            raise WireError(f"a chunk size that is none: {line!r}")
        self._left = int(line, 16)
        self._state = self._read_chunk if self._left else self._read_trailers
        return True

    def _read_chunk(self):
        self._take()
        if self._left or len(self._in) < 2:
            return False
        if not self._in.startswith(b"\r\n"):
            raise WireError(f"a chunk that does not end: {bytes(self._in[:20])!r}")
        del self._in[:2]
        self._state = self._read_chunk_size
        return True

    def _read_trailers(self):
        lines = self._lines()
        if lines is None:
            return False
        self.messages[-1].trailers = self._fields(lines)
        return self._finish()


# ---- HPACK (RFC 7541)

_STATIC = """:authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200
:status=204 :status=206 :status=304 :status=400 :status=404 :status=500 accept-charset
accept-encoding=gzip,\x00deflate accept-language accept-ranges accept access-control-allow-origin age allow
authorization cache-control content-disposition content-encoding content-language content-length content-location
content-range content-type cookie date etag expect expires from host if-match if-modified-since if-none-match
if-range if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range
referer refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary via
www-authenticate"""
STATIC_TABLE = [tuple(entry.replace("\0", " ").partition("=")[::2]) for entry in _STATIC.split()]

# The length of the code of each byte, and of EOS, less 5: a to z for 0 to 25. The code is canonical (appendix B).
_CODE_LENGTHS = """isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxxbffhibdgffdgdbbbaaabbbbbbbcdkbhfibccccccccccccccccccccccdc
dioijbkabababbbaccbbbabcbaabccccckgjixprpprrrsrssssststtrstssssqrsrsstrqprrssqsrrtqrssqqrq
srssprrrsrrsvvporsruvvvwwvtuoqvwwvwtqqvvxwwwptpqrqqsrruuttvsvwvvwwwwwxwwwwwvz"""


def _huffman_codes():
    lengths = [ord(c) - ord("a") + 5 for c in _CODE_LENGTHS.replace("\n", "")]
    codes, code, last = {}, -1, 5
    for symbol in sorted(range(257), key=lambda symbol: (lengths[symbol], symbol)):
        code = (code + 1) << (lengths[symbol] - last)
        last = lengths[symbol]
        codes[last, code] = symbol
    return codes


_CODES = _huffman_codes()


def huffman_decode(data):
    text, code, length = bytearray(), 0, 0
    for byte in data:
        for bit in range(7, -1, -1):
            code, length = code << 1 | (byte >> bit & 1), length + 1
            symbol = _CODES.get((length, code))
            if symbol is not None:
                if symbol == 256:
                    raise WireError("the end in a Huffman text")
                text.append(symbol)
                code = length = 0
    if length > 7 or code != (1 << length) - 1:
        raise WireError("a Huffman text with wrong padding")
    return bytes(text)


def hpack_integer(value, prefix, first=0):
    limit = (1 << prefix) - 1
    if value < limit:
        return bytes([first | value])
    out = bytearray([first | limit])
    value -= limit
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def hpack(fields, index=False):
    """Literals: without indexing, or added to the table."""
    out = bytearray()
    for name, value in fields:
        out.append(0x40 if index else 0)
        for text in (bytes_of(name), bytes_of(value)):
            out += hpack_integer(len(text), 7) + text
    return bytes(out)


class HpackDecoder:

    def __init__(self, table_bytes=4096):
        self._limit = self._size = table_bytes
        self._table = collections.deque()
        self._used = 0

    def decode(self, data):
        fields, at = [], 0

        def integer(prefix):
            nonlocal at
            value = data[at] & ((1 << prefix) - 1)
            at += 1
            shift = 0
            if value == (1 << prefix) - 1:
                while True:
                    value += (data[at] & 127) << shift
                    shift += 7
                    at += 1
                    if data[at - 1] < 128:
                        break
            return value

        def text():
            nonlocal at
            huffman = data[at] & 128
            size = integer(7)
            raw = data[at:at + size]
            if len(raw) != size:
                raise WireError("a text longer than its block")
            at += size
            return (huffman_decode(raw) if huffman else bytes(raw)).decode("latin-1")

        while at < len(data):
            first = data[at]
            if first & 0x80:
                fields.append(self._entry(integer(7)))
            elif first & 0xe0 == 0x20:
                self._size = integer(5)
                if self._size > self._limit:
                    raise WireError(f"a table of {self._size} bytes")
                self._evict()
            else:
                indexed = first & 0xc0 == 0x40
                number = integer(6 if indexed else 4)
                name = self._entry(number)[0] if number else text()
                fields.append((name, text()))
                if indexed:
                    self._table.appendleft(fields[-1])
                    self._used += 32 + len(name) + len(fields[-1][1])
                    self._evict()
        return fields

    def _entry(self, number):
        if not 0 < number <= len(STATIC_TABLE) + len(self._table):
            raise WireError(f"no entry {number} in the table")
        return STATIC_TABLE[number - 1] if number <= len(STATIC_TABLE) else self._table[number - 1 - len(STATIC_TABLE)]

    def _evict(self):
        while self._used > self._size:
            name, value = self._table.pop()
            self._used -= 32 + len(name) + len(value)


# ---- HTTP/2 (RFC 9113)

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
(DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION) = range(10)
PRIORITY_UPDATE = 16
END_STREAM = ACK = 1
END_HEADERS, PADDED, WITH_PRIORITY = 4, 8, 32
(TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME, MAX_HEADER_LIST) = range(1, 7)
ERRORS = """NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR
REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED""".split()
FIRST_WINDOW = 65535


def error_name(code):
    return ERRORS[code] if code < len(ERRORS) else f"error {code}"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers_frame(stream, fields, end=False, index=False):
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, hpack(fields, index))


def request_fields(method="GET", path="/", authority="a.test", scheme="http"):
    fields = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
    return [(name, value) for name, value in fields if value is not None]


def request_frame(stream, method="GET", path="/", fields=(), end=True, authority="a.test"):
    return headers_frame(stream, [*request_fields(method, path, authority), *fields], end)


def data_frame(stream, data=b"", end=False):
    return frame(DATA, END_STREAM if end else 0, stream, bytes_of(data))


def settings_frame(*entries):
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", *entry) for entry in entries))


def rst_frame(stream, code=8):
    return frame(RST_STREAM, stream=stream, payload=struct.pack(">I", code))


def window_frame(stream, more):
    return frame(WINDOW_UPDATE, stream=stream, payload=struct.pack(">I", more))


def goaway_frame(last, code=0, text=b""):
    return frame(GOAWAY, payload=struct.pack(">II", last, code) + text)


class Http2Reader:
    """Reads one side's frames. If `polite`, the responses to them (SETTINGS, PING, windows) are then in `out`."""

    def __init__(self, requests, polite=True):
        self.requests = requests
        self.polite = polite
        self.out = bytearray()
        self.streams = {}       # Messages by stream number,
        self.messages = []      # and in the order in which their heads arrived.
        self.done = []          # Messages that are complete or reset, in that order.
        self.settings = {}
        self.frames = collections.Counter()
        self.goaway = None      # (last stream, name of the error, text)
        self.windows = collections.defaultdict(int)  # What the peer allows to send beyond the first windows.
        self.acks = 0           # Of SETTINGS.
        self.pongs = []         # The data of acknowledged PINGs.
        self.ended = False
        self._in = bytearray()
        self._hpack = HpackDecoder()
        self._preface = PREFACE if requests else b""
        self._block = None

    def feed(self, data):
        self._in += data
        if self._preface:
            if len(self._in) < len(self._preface):
                return
            if not self._in.startswith(self._preface):
                raise WireError(f"no preface: {bytes(self._in[:30])!r}")
            del self._in[:len(self._preface)]
            self._preface = b""
        while len(self._in) >= 9:
            size = int.from_bytes(self._in[:3], "big")
            if len(self._in) < 9 + size:
                return
            kind, flags, stream = struct.unpack_from(">BBI", self._in, 3)
            payload = bytes(self._in[9:9 + size])
            del self._in[:9 + size]
            self._take(kind, flags, stream & 0x7fffffff, payload)

    def end(self, how="end"):
        self.ended = True
        for message in self.streams.values():
            if not message.complete and not message.failure:
                message.failure = how

    def _take(self, kind, flags, stream, payload):
        self.frames[kind] += 1
        if self._block and kind != CONTINUATION:
            raise WireError("a header block is interrupted")
        if kind == DATA:
            self._take_data(flags, stream, payload)
        elif kind == HEADERS:
            if flags & PADDED:
                payload = payload[1:len(payload) - payload[0]]
            if flags & WITH_PRIORITY:
                payload = payload[5:]
            self._block = (stream, flags & END_STREAM, payload)
            self._take_block(flags)
        elif kind == CONTINUATION:
            self._block = (self._block[0], self._block[1], self._block[2] + payload)
            self._take_block(flags)
        elif kind == RST_STREAM:
            message = self.streams.setdefault(stream, Message())
            message.stream = stream
            # A complete response is not affected: RFC 9113 section 8.1.
            if not message.complete:
                message.failure = error_name(int.from_bytes(payload, "big"))
                self.done.append(message)
            else:
                message.reset_behind = error_name(int.from_bytes(payload, "big"))
        elif kind == SETTINGS:
            if flags & ACK:
                self.acks += 1
            else:
                self.settings.update(struct.iter_unpack(">HI", payload))
                self.out += frame(SETTINGS, ACK) if self.polite else b""
        elif kind == PING:
            if flags & ACK:
                self.pongs.append(payload)
            elif self.polite:
                self.out += frame(PING, ACK, payload=payload)
        elif kind == GOAWAY:
            last, code = struct.unpack_from(">II", payload)
            self.goaway = (last, error_name(code), payload[8:].decode("latin-1"))
        elif kind == WINDOW_UPDATE:
            self.windows[stream] += int.from_bytes(payload, "big")
        elif kind == PUSH_PROMISE:
            raise WireError("a PUSH_PROMISE")

    def _take_data(self, flags, stream, payload):
        message = self.streams.get(stream)
        if message is None or message.complete or (not self.requests and not message.status):
            raise WireError(f"DATA on stream {stream}")
        if self.polite and payload:
            self.out += window_frame(0, len(payload))
            if not flags & END_STREAM:
                self.out += window_frame(stream, len(payload))
        if flags & PADDED:
            payload = payload[1:len(payload) - payload[0]]
        message.body += payload
        if flags & END_STREAM:
            self._finish(message)

    def _finish(self, message):
        message.complete = True
        lengths = message.values("content-length")
        if lengths and message.body and int(lengths[0]) != len(message.body):
            raise WireError(f"content-length: {lengths[0]} of {len(message.body)} bytes")
        self.done.append(message)

    def _take_block(self, flags):
        if not flags & END_HEADERS:
            return
        stream, end, block = self._block
        self._block = None
        fields = self._hpack.decode(block)
        message = self.streams.get(stream)
        if message and (message.status or message.method):
            if any(name.startswith(":") for name, _ in fields) or not end:
                raise WireError(f"trailers that are none: {fields}")
            message.trailers = fields
            return self._finish(message)
        head = Message()
        head.stream, head.framing = stream, "frames"
        pseudo = dict(field for field in fields if field[0].startswith(":"))
        names = [name for name, _ in fields]
        if len(pseudo) != sum(name.startswith(":") for name in names) or any(
                name.startswith(":") for name in names[len(pseudo):]):
            raise WireError(f"pseudo-header fields: {fields}")
        pseudo.setdefault(":authority", dict(fields).get("host", ""))
        if any(name != name.lower() or name in ("connection", "transfer-encoding", "upgrade", "keep-alive")
               or (name == "host" and value != pseudo[":authority"]) for name, value in fields):
            raise WireError(f"fields that HTTP/2 must not have: {fields}")
        head.fields = [field for field in fields if not field[0].startswith(":") and field[0] != "host"]
        head.status = int(pseudo.get(":status", 0))
        for part in ("method", "scheme", "authority", "path", "protocol"):
            setattr(head, part, pseudo.get(":" + part, ""))
        if bool(head.method) != self.requests or (not self.requests and not head.status):
            raise WireError(f"a head that is none: {fields}")
        if 100 <= head.status < 200:
            head.complete = True
            message = self.streams.setdefault(stream, Message())
            message.interim.append(head)
            return None
        head.interim = message.interim if message else []
        self.streams[stream] = head
        self.messages.append(head)
        return self._finish(head) if end else None


# ---- Blocking peers

class Peer:
    """A blocking socket with a reader."""

    how = ""  # How the peer ended: "end", "reset", or "".

    def __init__(self, sock, reader):
        self.sock = sock
        self.reader = reader

    def send(self, data):
        """Returns False if the peer is gone already; what it sent before can still be read."""
        try:
            self.sock.sendall(bytes_of(data))
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def pump(self, seconds):
        """Reads what arrives next. Returns False if nothing arrives within `seconds`, or ever."""
        if self.how:
            return False
        self.sock.settimeout(max(seconds, 0.001))
        try:
            data = self.sock.recv(1 << 18)
        except (socket.timeout, BlockingIOError):
            return False
        except (ConnectionResetError, BrokenPipeError):
            self.how = "reset"
        else:
            if not data:
                self.how = "end"
        finally:
            with contextlib.suppress(OSError):
                self.sock.settimeout(PATIENCE_SECONDS)
        if self.how:
            self.reader.end(self.how)
            return True
        self.reader.feed(data)
        self.send_responses()
        return True

    def send_responses(self):
        out = getattr(self.reader, "out", None)
        if out:
            self.send(bytes(out))
            out.clear()

    def wait(self, condition, seconds=PATIENCE_SECONDS):
        """Reads until `condition()` holds, and returns its value. Returns False if the peer ends or the time is over
        before."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0 or (not self.pump(left) and self.how):
                return condition()
        return condition()

    def ending(self, seconds=PATIENCE_SECONDS):
        """Skips all data, and returns how the peer ends: "end", "reset", or "silence"."""
        self.wait(lambda: self.how, seconds)
        return self.how or "silence"

    def close(self):
        self.sock.close()

    def reset(self):
        reset(self.sock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Http1Client(Peer):
    _taken = 0

    def __init__(self, address, **options):
        super().__init__(connect(address, **options), Http1Reader(requests=False))

    def send_request(self, data, methods=("GET",)):
        """Sends raw bytes, which are requests with these methods."""
        self.reader.methods.extend(methods)
        return self.send(data)

    def response(self, seconds=PATIENCE_SECONDS):
        """The next final response, complete or not; None if there is none."""
        messages = self.reader.messages
        self.wait(lambda: len(messages) > self._taken and messages[self._taken].complete, seconds)
        if len(messages) == self._taken:
            return None
        self._taken += 1
        return messages[self._taken - 1]

    def get(self, path, method="GET", fields="", body=b"", seconds=PATIENCE_SECONDS):
        length = f"content-length: {len(body)}\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nhost: a.test\r\n{fields}{length}\r\n"
        self.send_request(head.encode("latin-1") + body, [method])
        return self.response(seconds)


class Http2Client(Peer):
    _next = 1
    _window = FIRST_WINDOW

    def __init__(self, address, settings=(), polite=True, greet=True, **options):
        super().__init__(connect(address, **options), Http2Reader(requests=False, polite=polite))
        if greet:
            self.send(PREFACE + settings_frame(*settings))

    def send_request(self, path="/", method="GET", fields=(), body=None, authority="a.test"):
        """Sends a request. Returns the number of its stream."""
        stream, self._next = self._next, self._next + 2
        self.send(request_frame(stream, method, path, fields, body is None, authority))
        if body is not None:
            self._send_body(stream, memoryview(body))
        return stream

    def _send_body(self, stream, body):
        """Sends as the windows allow, until there is a response."""
        reader = self.reader
        self.wait(lambda: reader.settings)
        window = reader.settings.get(INITIAL_WINDOW, FIRST_WINDOW)
        has_response = lambda: reader.streams.get(stream) or reader.goaway or self.how
        while not has_response():
            window += reader.windows.pop(stream, 0)
            self._window += reader.windows.pop(0, 0)
            size = min(window, self._window, 16384, len(body))
            if size > 0 or not body:
                piece, body = bytes(body[:size]), body[size:]
                window -= size
                self._window -= size
                self.send(data_frame(stream, piece, not body))
                if not body:
                    return
            elif not self.wait(lambda: reader.windows[stream] or window and reader.windows[0] or has_response()):
                return

    def response(self, stream, seconds=PATIENCE_SECONDS):
        """A message that is complete, or has the reason in `failure`; None if nothing arrived for it."""
        streams = self.reader.streams
        self.wait(lambda: stream in streams and (streams[stream].complete or streams[stream].failure), seconds)
        if stream in streams and (streams[stream].complete or streams[stream].failure or streams[stream].status):
            return streams[stream]
        return None

    def get(self, path, seconds=PATIENCE_SECONDS, **options):
        return self.response(self.send_request(path, **options), seconds)


class Http2Server(Peer):
    """The server's side of a connection that a test's server accepted."""

    def __init__(self, sock, settings=(), polite=True, greet=True):
        super().__init__(sock, Http2Reader(requests=True, polite=polite))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._seen = set()
        if greet:
            self.send(settings_frame(*settings))

    def head(self, seconds=PATIENCE_SECONDS):
        """The head of the next request, whose body may follow."""
        message = self.wait(lambda: next((message for message in self.reader.messages
                                          if message.stream not in self._seen), None), seconds)
        if message:
            self._seen.add(message.stream)
        return message

    def respond(self, stream, status=200, fields=(), body=b"", end=True):
        self.send(headers_frame(stream, [(":status", str(status)), *fields], end=end and not body) +
                  (data_frame(stream, body, end) if body else b""))


# ---- A server for many connections

class Connection:
    """One connection of a `Server`."""

    def __init__(self, server, sock, number):
        self.server = server
        self.sock = sock
        self.number = number
        self.reader = None     # None until the first bytes show the version.
        self.failure = ""
        self.closed = False
        self._first = bytearray()
        self._out = collections.deque()  # Views, so that large bodies are not copied.
        self._waiting = collections.OrderedDict()  # HTTP/2: DATA by stream that waits for windows.
        self._window = FIRST_WINDOW
        self._stream_windows = {}
        self._seen = 0         # How many of the reader's messages were taken.
        self._pending = []     # Those among them that are incomplete.
        self._closing = False

    @property
    def http2(self):
        return isinstance(self.reader, Http2Reader)

    def messages(self):
        if self.reader is None:
            return []
        return self.reader.messages

    def send(self, data):
        """Sends raw bytes."""
        self._queue(data)
        self.flush()

    def _queue(self, data):
        data = bytes_of(data)
        if data:
            self._out.append(memoryview(bytes(data) if isinstance(data, bytearray) else data))

    def reply(self, request, status=200, fields=(), body=b""):
        head_only = request.method == "HEAD"
        fields = [*fields, ("content-length", str(len(body)))]
        if not self.http2:
            text = f"HTTP/1.1 {status} OK\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields) + "\r\n"
            self._queue(text)
            return self.send(b"" if head_only else body)
        body = b"" if head_only else body
        head = headers_frame(request.stream, [(":status", str(status)), *fields], end=not body)
        if body:
            self._waiting[request.stream] = memoryview(body)
        return self.send(head)

    def after(self, seconds, action):
        self.server.at(time.monotonic() + seconds, self, action)

    def close(self):
        """Closes when all is sent."""
        self._closing = True
        self.flush()

    def reset(self):
        self.server.forget(self, close=False)
        reset(self.sock)

    # For the server

    def receive(self, data):
        if self.reader is None:
            self._first += data
            if PREFACE.startswith(self._first[:len(PREFACE)]) and len(self._first) < len(PREFACE):
                return
            data = bytes(self._first)
            if data.startswith(PREFACE):
                self.reader = Http2Reader(requests=True)
                self._queue(settings_frame((MAX_STREAMS, 1000)))
            else:
                self.reader = Http1Reader(requests=True)
        try:
            self.reader.feed(data)
        except WireError as error:
            self.failure = f"{error}"
            self.server.failures.append((self, self.failure))
            self.close()
        self.hand_over()
        if self.http2:
            self._queue(self.reader.out)
            self.reader.out.clear()
        self.flush()

    def hand_over(self):
        messages = self.reader.messages
        self._pending += messages[self._seen:]
        self._seen = len(messages)
        ready = [message for message in self._pending if message.complete or self.server.early(message)]
        self._pending = [message for message in self._pending if not message.failure and message not in ready]
        for message in messages if self._waiting else ():
            if message.failure:
                self._waiting.pop(message.stream, None)
        for message in ready:
            self.server.respond(message, self)

    def flush(self):
        if self.closed:
            return
        if self.http2:
            self._give_data()
        try:
            while self._out:
                sent = self.sock.send(self._out[0])
                if sent < len(self._out[0]):
                    self._out[0] = self._out[0][sent:]
                else:
                    self._out.popleft()
                if self.http2 and not self._out:
                    self._give_data()
        except BlockingIOError:
            pass
        except OSError:
            return self.server.forget(self)
        self.server.watch(self, bool(self._out))
        if self._closing and not self._out and not self._waiting:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
            self.server.forget(self)

    def _give_data(self):
        reader = self.reader
        self._window += reader.windows.pop(0, 0)
        for stream in list(self._waiting):
            window = self._stream_windows.setdefault(stream, reader.settings.get(INITIAL_WINDOW, FIRST_WINDOW))
            window += reader.windows.pop(stream, 0)
            body = self._waiting[stream]
            while body and min(window, self._window) > 0 and len(self._out) < 64:
                size = min(window, self._window, 16384, len(body))
                piece, body = body[:size], body[size:]
                window -= size
                self._window -= size
                self._queue(data_frame(stream, bytes(piece), not body))
            self._stream_windows[stream] = window
            self._waiting[stream] = body
            if not body:
                del self._waiting[stream], self._stream_windows[stream]


class Server:
    """Serves HTTP/1.1 and HTTP/2, as the client chooses, on one thread. Calls `respond(request, connection)` on it for
    each complete request; for one with `early(request)`, when its head has arrived."""

    def __init__(self, respond, early=lambda request: False, backlog=1024):
        self.respond = respond
        self.early = early
        self.connections = []
        self.count = 0         # Of all connections that were accepted.
        self.failures = []     # (connection, the rule that the proxy broke)
        self._selector = selectors.DefaultSelector()
        self._timers = []
        self._watched = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self._listener.setblocking(False)
        self.address = text_of(self._listener.getsockname())
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._calls = collections.deque()
        self.problem = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def call(self, action):
        """Calls it on the server's thread, and returns its value."""
        done, result = threading.Event(), []
        self._calls.append(lambda: (result.append(action()), done.set()))
        self._wake.send(b"x")
        if not done.wait(PATIENCE_SECONDS):
            raise AssertionError(f"the test's server does not respond: {self.problem}")
        return result[0]

    def close(self):
        self._calls.append(None)
        self._wake.send(b"x")
        self._thread.join(5)
        for sock in (self._listener, self._wake, self._woken, *(connection.sock for connection in self.connections)):
            sock.close()
        self._selector.close()
        if self.problem:
            raise self.problem

    def at(self, when, connection, action):
        heapq.heappush(self._timers, (when, id(action), connection, action))

    def watch(self, connection, writing):
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
        if self._watched.get(connection) not in (None, events):
            self._selector.modify(connection.sock, events, connection)
            self._watched[connection] = events

    def forget(self, connection, close=True):
        connection.closed = True
        if self._watched.pop(connection, None):
            self._selector.unregister(connection.sock)
        if close:
            connection.sock.close()

    def _run(self):
        try:
            while self._turn():
                pass
        except BaseException as error:
            self.problem = error
            raise

    def _turn(self):
        wait = max(0, self._timers[0][0] - time.monotonic()) if self._timers else None
        for key, events in self._selector.select(wait):
            if key.fileobj.fileno() < 0:
                continue  # Closed by an earlier event of this turn.
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._woken:
                self._woken.recv(1)
                call = self._calls.popleft()
                if call is None:
                    return False
                call()
            elif not key.data.closed:
                self._serve(key.data, events)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, _, connection, action = heapq.heappop(self._timers)
            if not connection or not connection.closed:
                action()
        return True

    def _accept(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.count += 1
                connection = Connection(self, sock, self.count)
                self.connections.append(connection)
                self._watched[connection] = selectors.EVENT_READ
                self._selector.register(sock, selectors.EVENT_READ, connection)

    def _serve(self, connection, events):
        if events & selectors.EVENT_WRITE:
            connection.flush()
        if connection.closed or not events & selectors.EVENT_READ:
            return
        try:
            data = connection.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = None
        if data:
            return connection.receive(data)
        if connection.reader:
            connection.reader.end("reset" if data is None else "end")
        self.forget(connection)
