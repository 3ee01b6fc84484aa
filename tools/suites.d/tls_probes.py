"""A short suite of our own like tlsfuzzer: a TLS client by tlslite-ng (PyPI) that sends records as no client should.

Each probe has the reaction that the server must show: data, an alert of this name, or an end. tlsfuzzer itself is in no
package registry, so CI runs this one; `tools/suites tlsfuzzer --checkout FOLDER` runs the full suite.
"""

import contextlib
import socket
import sys

from harness import SLOWNESS
from python_libraries import libraries
from suite import FAIL, PASS, Result, Suite

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
ALERT, HANDSHAKE, DATA, CCS = 21, 22, 23, 20
TLS12, TLS13 = (3, 3), (3, 4)
OUTSIDE = {TLS12: 2**14 + 2048, TLS13: 2**14 + 256}  # The longest record (RFC 5246 6.2.3 and RFC 8446 5.2).
ALERTS = {0: "close_notify", 10: "unexpected_message", 20: "bad_record_mac", 22: "record_overflow", 40: "handshake_failure",
          47: "illegal_parameter", 50: "decode_error", 51: "decrypt_error", 70: "protocol_version", 80: "internal_error",
          100: "no_renegotiation"}


def record(kind, body, version=(3, 3), length=None):
    return bytes((kind, *version)) + (len(body) if length is None else length).to_bytes(2, "big") + bytes(body)


class Wire:
    """A socket for tlslite-ng whose first flight a probe can change, and whose later ones it can hold."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=5 * SLOWNESS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.change = None  # From bytes to bytes, of each flight.
        self.kept = None

    def send(self, data):
        if self.kept is not None:
            self.kept += data
        else:
            self.socket.sendall(self.change(bytes(data)) if self.change else data)
        return len(data)

    sendall = send

    def recv(self, size):
        return self.socket.recv(size)

    def close(self):
        self.socket.close()

    def __getattr__(self, name):
        return getattr(self.socket, name)


class Client:
    """A connection whose handshake is done, or fails."""

    def __init__(self, address, version, change=None, handshake=True):
        self.version = version
        self.wire = Wire(address)
        self.wire.change = change
        if not handshake:
            return
        from tlslite.handshakesettings import HandshakeSettings
        from tlslite.tlsconnection import TLSConnection
        self.tls = TLSConnection(self.wire)
        settings = HandshakeSettings()
        settings.minVersion = settings.maxVersion = version
        settings.cipherNames = ["aes128gcm"]
        settings.keyExchangeNames = ["ecdhe_rsa"]
        settings.eccCurves, settings.keyShares = ["secp256r1"], ["secp256r1"]
        try:
            self.tls.handshakeClientCert(settings=settings)
        except Exception:
            self.wire.close()
            raise
        self.wire.change = None

    def sealed(self, kind, body):
        """A record with this content, as on the wire."""
        from tlslite.messages import Message
        self.wire.kept = b""
        for _ in self.tls._recordLayer.sendRecord(Message(kind, bytearray(body))):
            pass
        kept, self.wire.kept = self.wire.kept, None
        return kept

    def send(self, data):
        # A server that has refused may have closed: what it sent is still read.
        with contextlib.suppress(OSError):
            self.wire.socket.sendall(data)

    def reaction(self):
        """The first reaction of the server, except for tickets: `data`, the name of an alert, `end`, `reset`,
        `silence`."""
        from tlslite.errors import TLSAbruptCloseError
        try:
            while True:
                header, parser = next(item for item in self.tls._recordLayer.recvRecord() if item not in (0, 1))
                body = bytes(parser.bytes)
                if header.type == DATA:
                    return "data"
                if header.type == ALERT:
                    return ALERTS.get(body[1], f"alert {body[1]}")
                if header.type == HANDSHAKE and body[0] == 24:
                    return "key update"
        except TLSAbruptCloseError:
            return "end"
        except ConnectionError:
            return "reset"
        except TimeoutError:
            return "silence"

    def plain_reaction(self):
        """The same without keys: the content of the first record."""
        with contextlib.suppress(ConnectionError):
            try:
                head = self.exactly(5)
                body = self.exactly(int.from_bytes(head[3:], "big"))
            except TimeoutError:
                return "silence"
            except EOFError:
                return "end"
            return ALERTS.get(body[1], f"alert {body[1]}") if head[0] == ALERT else f"record of type {head[0]}"
        return "reset"

    def exactly(self, size):
        found = b""
        while len(found) < size:
            piece = self.wire.socket.recv(size - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found


# ---- After the handshake: from a client to bytes

def flipped(data, at=-1):
    data = bytearray(data)
    data[at] ^= 1
    return bytes(data)


def sealed(kind, body):
    return lambda client: client.sealed(kind, body)


def request(client):
    return client.sealed(DATA, REQUEST)


def empty_records(count):
    return lambda client: b"".join(client.sealed(DATA, b"") for _ in range(count)) + request(client)


def byte_records(client):
    return b"".join(client.sealed(DATA, REQUEST[at:at + 1]) for at in range(len(REQUEST)))


def key_update(client, wanted):
    update = client.sealed(HANDSHAKE, bytes((24, 0, 0, 1, wanted)))
    tls = client.tls
    # In tlslite-ng this name changes the keys for sending.
    tls.session.cl_app_secret, _ = tls._recordLayer.calcTLS1_3KeyUpdate_reciever(
        tls.session.cipherSuite, tls.session.cl_app_secret, tls.session.sr_app_secret)
    return update + request(client)


BOTH = {
    "one request": (request, "data"),
    "a record for each byte": (byte_records, "data"),
    "8 empty records before a request": (empty_records(8), "data"),
    "33 empty records before a request": (empty_records(33), "unexpected_message"),
    "close_notify before any request": (sealed(ALERT, b"\1\0"), "close_notify"),
    "close_notify in a request": (lambda client: client.sealed(DATA, REQUEST[:9]) + client.sealed(ALERT, b"\1\0"), "close_notify"),
    "a changed tag": (lambda client: flipped(request(client)), "bad_record_mac"),
    "a changed first byte": (lambda client: flipped(request(client), 13), "bad_record_mac"),
    "a record of 3 bytes": (lambda client: record(DATA, b"abc"), "bad_record_mac"),
    "a record of no bytes": (lambda client: record(DATA, b""), "bad_record_mac"),
    "records in the wrong order": (lambda client: client.sealed(DATA, b"a") and request(client), "bad_record_mac"),
    "a record twice": (lambda client: client.sealed(DATA, b"GET / ") * 2, "bad_record_mac"),
    "a byte too long outside": (lambda client: record(DATA, b"", length=OUTSIDE[client.version] + 1), "record_overflow"),
    "a byte too long inside": (sealed(DATA, bytes(2**14 + 1)), "record_overflow"),
    "an alert of one byte": (sealed(ALERT, b"\2"), "decode_error"),
    "an alert of three bytes": (sealed(ALERT, b"\1\0\0"), "decode_error"),
    "a fatal alert": (sealed(ALERT, b"\2\x28"), "end"),
    "a content type that is none": (sealed(99, b"abc"), "unexpected_message"),
    "heartbeat, which was not negotiated": (sealed(24, b"\1\0\1a" + bytes(16)), "unexpected_message"),
}
ONLY = {
    TLS12: {
        "a record of another version": (lambda client: flipped(request(client), 2), "protocol_version"),
        "renegotiation": (sealed(HANDSHAKE, b"\1\0\0\4abcd"), "no_renegotiation"),
        "another change of ciphers": (sealed(CCS, b"\1"), "unexpected_message"),
    },
    TLS13: {
        "nothing but padding": (lambda client: client.sealed(0, bytes(30)), "unexpected_message"),
        "an empty handshake record": (sealed(HANDSHAKE, b""), "unexpected_message"),
        "an empty alert": (sealed(ALERT, b""), "unexpected_message"),
        "change of ciphers after Finished": (lambda client: record(CCS, b"\1"), "unexpected_message"),
        "an alert in the clear": (lambda client: record(ALERT, b"\2\x28"), "unexpected_message"),
        "a handshake message in the clear": (lambda client: record(HANDSHAKE, b"\x18\0\0\1\0"), "unexpected_message"),
        "KeyUpdate that wants none": (sealed(HANDSHAKE, b"\x18\0\0\1\2"), "illegal_parameter"),
        "KeyUpdate of two bytes": (sealed(HANDSHAKE, b"\x18\0\0\2\0\0"), "decode_error"),
        "KeyUpdate and a request": (lambda client: key_update(client, 0), "data"),
        "KeyUpdate that wants one, and a request": (lambda client: key_update(client, 1), "key update"),
        "KeyUpdate and more in its record": (sealed(HANDSHAKE, b"\x18\0\0\1\0\x18"), "unexpected_message"),
        "data inside of a message": (lambda client: client.sealed(HANDSHAKE, b"\x18\0") + request(client), "unexpected_message"),
        "ClientHello": (sealed(HANDSHAKE, b"\1\0\0\4abcd"), "unexpected_message"),
        "Finished again": (sealed(HANDSHAKE, b"\x14\0\0\x20" + bytes(32)), "unexpected_message"),
    },
}


# ---- In the handshake

def cut_hello(size):
    """The first flight, one ClientHello, in records of `size` bytes."""
    def change(data):
        if data[0] != HANDSHAKE or data[5] != 1:
            return data
        hello = data[5:]
        return b"".join(record(HANDSHAKE, hello[at:at + size], (3, 1)) for at in range(0, len(hello), size))
    return change


def hello(body):
    return record(HANDSHAKE, b"\1" + len(body).to_bytes(3, "big") + body, (3, 1))


OLD = bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0"  # Random, no session, one cipher, no compression.
FIRST = {
    "data before the handshake": (record(DATA, b"abc"), "unexpected_message"),
    "a change of ciphers before the handshake": (record(CCS, b"\1"), "unexpected_message"),
    "a ClientHello record that is too long": (record(HANDSHAKE, b"\1\0\x40\0" + bytes(2**14 - 3), (3, 1)), "record_overflow"),
    "Finished before the handshake": (record(HANDSHAKE, b"\x14\0\0\x0c" + bytes(12), (3, 1)), "unexpected_message"),
    "a ClientHello of no bytes": (hello(b""), "decode_error"),
    "a ClientHello cut in its random": (hello(b"\3\3" + bytes(20)), "decode_error"),
    "a ClientHello with bytes behind it": (hello(b"\3\3" + OLD + b"\0\0" + b"abc"), "decode_error"),
    "a ClientHello of SSL 3.0": (hello(b"\3\0" + OLD), "protocol_version"),
    "a ClientHello of TLS 1.1": (hello(b"\3\2" + OLD), "protocol_version"),
    "a ClientHello without a cipher of ours": (hello(b"\3\3" + bytes(33) + b"\0\2\0\1" + b"\1\0"), "handshake_failure"),
    "an extension twice": (hello(b"\3\3" + OLD + b"\0\x08" + b"\0\x17\0\0" * 2), "decode_error"),
}


@contextlib.contextmanager
def wrong_finished():
    from tlslite.messages import Finished
    create = Finished.create
    Finished.create = lambda self, data: create(self, bytearray(flipped(data)))
    try:
        yield
    finally:
        Finished.create = create


class TlsProbes(Suite):
    name = "tls_probes"
    about = "the short form of tlsfuzzer: records and messages of TLS 1.2 and 1.3 that no client should send"

    def run(self, test, options):
        sys.path.insert(0, str(libraries()))
        proxy = test.start({
            "workers": 1, "shutdown_timeout": "3s",
            "listeners": [{"name": "main", "address": "127.0.0.1:0", "tls": {"certificates": [test.rsa]},
                           "http": {"routes": [{"respond": {"body": "hello\n"}}]}}],
        }, cut_allowed=True)
        self.address, results = proxy.address(), {}

        def note(name, wanted, found):
            if options.only in name:
                good = found == wanted
                results[name] = Result(PASS) if good else Result(FAIL, f"expected {wanted}, found {found}")

        for version, words in ((TLS12, "TLS 1.2"), (TLS13, "TLS 1.3")):
            for name, (probe, wanted) in {**BOTH, **ONLY[version]}.items():
                note(f"{words}: {name}", wanted, self.after(version, probe))
            for size in (1, 7, 64):
                note(f"{words}: ClientHello in records of {size} bytes", "data", self.after(version, request, cut_hello(size)))
            note(f"{words}: ClientHello in segments of 1 byte", "data", self.after(version, request, segments=True))
            note(f"{words}: Finished with a wrong hash", "decrypt_error", self.finished(version))
        for name, (data, wanted) in FIRST.items():
            client = Client(self.address, None, handshake=False)
            client.send(data)
            note(f"first: {name}", wanted, client.plain_reaction())
            client.wire.close()
        return results

    def after(self, version, probe, change=None, segments=False):
        """The server's reaction to a probe; each has a connection of its own."""
        try:
            client = Client(self.address, version, change)
        except Exception as error:  # Of many kinds: tlslite-ng's and the socket's.
            return f"no handshake: {type(error).__name__} {error}"
        data = probe(client)
        if segments:
            for at in range(len(data)):
                client.send(data[at:at + 1])
        else:
            client.send(data)
        found = client.reaction()
        client.wire.close()
        return found

    def finished(self, version):
        from tlslite.errors import TLSRemoteAlert
        try:
            with wrong_finished():
                client = Client(self.address, version)
        except TLSRemoteAlert as alert:
            return ALERTS.get(alert.description, f"alert {alert.description}")
        except Exception as error:
            return f"{type(error).__name__} {error}"
        found = client.reaction()  # In TLS 1.3 the client is done before the server has checked.
        client.wire.close()
        return found


SUITE = TlsProbes()
