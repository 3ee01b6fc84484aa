"""The cases of this folder, as README.md describes them."""

import pathlib
import re

from harness import LONG
import http_wire as wire
from http_wire import bytes_of

FOLDER = pathlib.Path(__file__).parent
# The prefix of paths for which the upstream responds as the case says.
SCRIPTED = "/scripted/"
# Added by proxies, or fields of one connection only (checked by the reader): compared only if a case names them.
UNCOMPARED = {"via", "forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-request-id",
              "connection", "content-length", "transfer-encoding", "te", "keep-alive", "date", "server", "x-echo",
              "user-agent", "sec-websocket-key"}
# Longer texts are cut in two at some positions only.
SMALL_BYTES = 64
CUTS_OF_LARGE = 8
BYTE_BY_BYTE_BYTES = 250


def unescape(text):
    """\\r, \\n, \\t, \\0, \\\\ and \\xhh are bytes; {x*9000} is a text 9,000 times."""
    text = re.sub(r"\{([^{}]+)\*(\d+)\}", lambda match: match[1] * int(match[2]), text)
    names = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\", "s": " ", "e": ""}
    return re.sub(r"\\(x[0-9a-fA-F]{2}|.)", lambda match: chr(int(match[1][1:], 16)) if len(match[1]) > 1
                  else names[match[1]], text)


def split_field(line):
    name, separator, value = line[1:].partition(":")
    if not separator:
        raise ValueError(f"no field: {line!r}")
    return unescape(line[0] + name), unescape(value[1:] if value.startswith(" ") else value)


def frames_of(lines, stream_name=None):
    """The items to send for the notation of HTTP/2: bytes, and words that begin with "!"."""
    items, at = [], 0

    def number(word):
        return stream_name if word == "S" else int(word)

    while at < len(lines):
        line = lines[at]
        at += 1
        fields = []
        while at < len(lines) and lines[at].startswith("  "):
            fields.append(split_field(lines[at].strip()))
            at += 1
        kind, _, rest = line.partition(" ")
        words = rest.split(" ")
        flags = [word for word in words if word in ("end", "open")]
        plain = [word for word in words if word not in ("end", "open")]
        end = wire.END_STREAM if "end" in flags else 0
        if kind.startswith("!"):
            items.append(line)
        elif kind == "REQUEST":
            items.append(wire.request_frame(number(plain[0]), plain[1], unescape(plain[2]), fields, bool(end)))
        elif kind == "HEADERS":
            last = 0 if "open" in flags else wire.END_HEADERS
            items.append(wire.frame(wire.HEADERS, end | last, number(plain[0]), wire.hpack(fields)))
        elif kind == "CONTINUATION":
            last = 0 if "open" in flags else wire.END_HEADERS
            items.append(wire.frame(wire.CONTINUATION, last, number(plain[0]), wire.hpack(fields)))
        elif kind == "DATA":
            items.append(wire.data_frame(number(plain[0]), unescape(" ".join(plain[1:])), bool(end)))
        elif kind == "RST":
            items.append(wire.rst_frame(number(plain[0]), wire.ERRORS.index(plain[1])))
        elif kind == "WINDOW":
            items.append(wire.window_frame(number(plain[0]), int(plain[1])))
        elif kind == "SETTINGS":
            items.append(wire.settings_frame(*(tuple(map(int, word.split("="))) for word in plain if word)))
        elif kind == "GOAWAY":
            items.append(wire.goaway_frame(number(plain[0]), wire.ERRORS.index(plain[1])))
        elif kind == "RAW":
            items.append(bytes_of(unescape(rest)))
        elif kind == "FRAME":
            items.append(wire.frame(int(plain[0]), int(plain[1]), number(plain[2]),
                                    bytes_of(unescape(" ".join(plain[3:])))))
        else:
            raise ValueError(f"no frame: {line!r}")
    return join(items)


def text_of(lines):
    return join([line if re.match(r"![a-z]", line) else bytes_of(unescape(line)) for line in lines])


def join(items):
    """Joins adjacent bytes."""
    joined = []
    for item in items:
        if joined and isinstance(item, bytes) and isinstance(joined[-1], bytes):
            joined[-1] += item
        else:
            joined.append(item)
    return joined


class ExpectedMessage:
    """An expected message."""

    def __init__(self, lines):
        self.maybe = lines[0].startswith("maybe ")
        words = lines[0].removeprefix("maybe ").split(" ")
        self.start = tuple(unescape(word) for word in words)
        self.fields, self.trailers, self.body, self.framing, self.scheme, self.behind = [], [], b"", None, None, b""
        for line in lines[1:]:
            if line.startswith("body: "):
                self.body = bytes_of(unescape(line[6:]))
            elif line.startswith("behind: "):
                self.behind = bytes_of(unescape(line[8:]))
            elif line.startswith("framing: "):
                self.framing = line[9:]
            elif line.startswith("scheme: "):
                self.scheme = line[8:]
            elif line.startswith("trailer "):
                self.trailers.append(split_field(line[8:]))
            else:
                self.fields.append(split_field(line))

    def compared(self, fields):
        named = {name for name, _ in self.fields}
        return sorted((name, value) for name, value in fields
                      if name in named or (name not in UNCOMPARED and not name.startswith("x-envoy-")))

    def differs(self, start, message, http2=False, behind=b""):
        """The difference, in words; an empty text if there is none."""
        pairs = [("start", self.start, start), ("fields", sorted(self.fields), self.compared(message.fields)),
                 ("body", self.body, bytes(message.body)),
                 ("trailers", sorted(self.trailers), sorted(message.trailers)),
                 ("complete", True, message.complete), ("behind", self.behind, bytes(behind))]
        if self.scheme and http2:
            pairs.append(("scheme", self.scheme, message.scheme))
        if self.framing and not http2:
            pairs.append(("framing", self.framing, message.framing))
        return "; ".join(f"{name} {found!r} for {expected!r}" for name, expected, found in pairs if expected != found)


class Case:
    KEYS = {"name", "rule", "via", "send", "request", "respond", "expect", "upstream", "client", "pieces"}

    def __init__(self, file, text, line):
        self.file = file
        self.where = f"{file}:{line}"
        self._blocks = {}
        key = None
        for row in text.split("\n"):
            if row.startswith("  "):
                self._blocks[key].append(row[2:])
            elif row:
                match = re.fullmatch(r"([a-z]+(?:\[[a-z0-9 -]+\])?):(?: (.*))?", row)
                if not match or match[1].partition("[")[0] not in self.KEYS or match[1] in self._blocks:
                    raise ValueError(f"{self.where}: {row!r}")
                key = match[1]
                self._blocks[key] = [match[2]] if match[2] else []
        self.name, self.rule, self.via = (self._blocks[key][0] for key in ("name", "rule", "via"))
        self.via = self.via.split(" ")
        self.method = self._blocks.get("request", ["GET"])[0]
        try:
            for via in self.via:
                self.expect(via), self.upstream(via), self.client(via), self.sent(via, "1"), self.script(via, 1)
        except (ValueError, KeyError, IndexError) as error:
            raise ValueError(f"{self.where} {self.name}: {error}") from error

    def block(self, key, via):
        return next((lines for name, lines in self._blocks.items()
                     if name.partition("[")[0] == key and via in name), self._blocks.get(key))

    def expect(self, via):
        return self.block("expect", via)[0]

    @property
    def in_pieces(self):
        return self._blocks.get("pieces") != ["no"]

    @property
    def responds(self):
        return any(key.startswith("respond") for key in self._blocks)

    def sent(self, via, script):
        """The items that the client sends."""
        lines = self.block("send", via)
        path = SCRIPTED + script
        if not lines:
            http1 = f"{self.method} {path} HTTP/1.1\\r\\nHost: a.test\\r\\n\\r\\n"
            lines = [http1] if via.startswith("h1") else [f"REQUEST 1 end {self.method} {path}"]
        lines = [line.replace("{path}", path) for line in lines]
        return text_of(lines) if via.startswith("h1") else frames_of(lines)

    def script(self, via, stream):
        """The items of the upstream's response; None: the echo."""
        lines = self.block("respond", via)
        if not lines:
            return None
        return text_of(lines) if via.endswith("h1") else frames_of(lines, stream)

    def expected_messages(self, key, via):
        lines = self.block(key, via)
        if not lines:
            return None
        starts = [at for at, line in enumerate(lines) if not line.startswith("  ")] + [len(lines)]
        return [[line.strip() for line in lines[a:b]] for a, b in zip(starts, starts[1:])]

    def upstream(self, via):
        """(expected requests, whether truncated ones may arrive); None: anything."""
        found = self.expected_messages("upstream", via)
        if found is None and self.responds:
            return None
        if found in (None, [["nothing"]]):
            return [], False
        if found == [["nothing complete"]]:
            return [], True
        expected = [ExpectedMessage(lines) for lines in found]
        return expected, any(message.maybe for message in expected)

    def client(self, via):
        found = self.expected_messages("client", via)
        return found and [ExpectedMessage(lines) for lines in found]


def load(only=()):
    cases, names = [], set()
    for path in sorted(FOLDER.glob("*.txt")):
        if only and path.stem not in only:
            continue
        text = "\n".join("" if line.startswith("#") else line for line in path.read_text().split("\n"))
        line = 1
        for block in re.split(r"(\n{2,})", text):
            if block.strip():
                case = Case(path.name, block.strip("\n"), line + len(block) - len(block.lstrip("\n")))
                if case.name in names:
                    raise ValueError(f"{case.where}: a second {case.name}")
                names.add(case.name)
                cases.append(case)
            line += block.count("\n")
    return cases


class Cut:
    """How a text is cut into pieces: at these positions of its first long part, or everywhere."""

    def __init__(self, places=(), everywhere=False):
        self._places = places
        self._everywhere = everywhere
        self.label = "byte by byte" if everywhere else f"cut at {places[0]}" if places else "whole"

    def of(self, items):
        pieces, begin = [], 0
        for item in items:
            if not isinstance(item, bytes):
                pieces.append(item)
                continue
            here = range(1, len(item)) if self._everywhere else [place - begin for place in self._places
                                                                  if 0 < place - begin < len(item)]
            last = 0
            for place in here:
                pieces += [item[last:place], "!next"]
                last = place
            pieces.append(item[last:])
            begin += len(item)
        return pieces


def cuts_of(case, via):
    """Uncut, and cut in two: at every position if it is short."""
    items = case.script(via, 1) if case.responds else case.sent(via, "x")
    size = sum(len(item) for item in items if isinstance(item, bytes))
    if via.startswith("h2") and not case.responds:
        size += len(wire.PREFACE) + 9
    if not case.in_pieces:
        places = ()
    elif LONG or size <= SMALL_BYTES:
        places = range(1, min(size, 1500))
    else:
        places = range(1 + len(case.name) % 7, size, max(1, size // CUTS_OF_LARGE))
    return [Cut(), *(Cut((place,)) for place in places)]


def byte_by_byte(case, via):
    items = case.script(via, 1) if case.responds else case.sent(via, "x")
    return case.in_pieces and (LONG or sum(len(item) for item in items if isinstance(item, bytes)) <= 250)
