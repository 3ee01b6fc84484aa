"""A small name server (RFC 1035, over UDP) whose zone a test changes while it runs."""

import contextlib
import ipaddress
import socket
import struct
import threading

A, CNAME, AAAA, SRV = 1, 5, 28, 33
OK, SERVFAIL, NXDOMAIN = 0, 2, 3


def encoded_name(name):
    labels = [label.encode() for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def _address(text):
    return ipaddress.ip_address(text).packed


class NameServer:
    """Responds as `set`, `set_services` and `fail` have configured; other names are NXDOMAIN."""

    def __init__(self):
        self._lock = threading.Lock()
        self._names = {}  # Name -> (TTL, {type: [record data]}), or a code, or None for silence.
        self.query_count = 0
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def set(self, name, *addresses, ttl=1):
        """Sets the addresses of the name, of either family."""
        records = {A: [_address(a) for a in addresses if ":" not in a],
                   AAAA: [_address(a) for a in addresses if ":" in a]}
        self._put(name, (ttl, records))

    def set_services(self, name, *services, ttl=1):
        """Each service is (priority, weight, port, target)."""
        self._put(name, (ttl, {SRV: [struct.pack("!HHH", *numbers) + encoded_name(target)
                                     for *numbers, target in services]}))

    def set_alias(self, name, of, ttl=1):
        self._put(name, (ttl, {CNAME: [encoded_name(of)]}))

    def fail(self, name, code=SERVFAIL, kinds=(A, AAAA, SRV)):
        """Makes queries for these types of records fail with `code`, or get no response if it is None."""
        with self._lock:
            before = self._names.get(name)
            ttl, records = before if isinstance(before, tuple) else (1, {})
            self._names[name] = (ttl, {**records, **{kind: code for kind in kinds}})

    def forget(self, name):
        with self._lock:
            self._names.pop(name, None)

    def close(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    def _put(self, name, what):
        with self._lock:
            self._names[name] = what

    def _serve(self):
        while True:
            try:
                question, client = self._socket.recvfrom(4096)
            except OSError:
                return
            if not question:  # Shut down.
                return
            response = self._response(question)
            with contextlib.suppress(OSError):
                if response:
                    self._socket.sendto(response, client)

    def _records(self, name, kind):
        """The code, and (name, type, TTL, data) of each record, with aliases resolved; a code of None is silence."""
        known = self._names.get(name)
        if known is None:
            return NXDOMAIN, []
        ttl, records = known
        if CNAME in records:
            return OK, [(name, CNAME, ttl, data) for data in records[CNAME]]
        found = records.get(kind, [])
        return (OK, [(name, kind, ttl, data) for data in found]) if isinstance(found, list) else (found, [])

    def _response(self, question):
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        kind = struct.unpack_from("!H", question, at + 1)[0]
        name = ".".join(labels).lower()
        with self._lock:
            self.query_count += 1
            code, records = self._records(name, kind)
            for _ in range(8):
                if not records or records[-1][1] != CNAME or kind == CNAME:
                    break
                data, labels = records[-1][3], []
                while data[0]:
                    labels.append(data[1:1 + data[0]].decode())
                    data = data[1 + data[0]:]
                more_code, more = self._records(".".join(labels), kind)
                code, records = more_code, records + more
                if not more:
                    break
        if code is None:
            return None
        head = question[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(records), 0, 0)
        return head + question[12:at + 5] + b"".join(
            encoded_name(owner) + struct.pack("!HHIH", record, 1, ttl, len(data)) + data
            for owner, record, ttl, data in records)
