"""Idle connections: the memory of each after one request, in the proxy and in the machine."""
import socket, struct, time

from machine import LOCAL, Failure, pss_bytes, slab_bytes, time_wait_sockets
from origins import BODY
from tls import InMemoryTls

# Some proxies return the memory of a connection's beginning later.
SETTLE_S = 45
OPEN_S_PER_1000, TIME_WAIT_S = 30, 60
TIME_WAIT_BYTES = 256                                  # Of slab, each.


# ---- Clients: a connection on which request() may be called repeatedly

class Http1:
    alpn = 'http/1.1'
    REQUEST = f'GET /small HTTP/1.1\r\nHost: {LOCAL}\r\n\r\n'.encode()

    def __init__(self, case): self.socket = case.connect(self.alpn)

    def __enter__(self): return self

    def __exit__(self, *_error): self.close()

    def receive(self):
        more = self.socket.recv(65536)
        if not more: raise Failure('closed by the other side in the midst of an answer')
        return more

    def request(self):
        """Returns the number of bytes of the response."""
        self.socket.sendall(self.REQUEST)
        return self.receive_response()

    def receive_response(self):
        answer = b''
        while not answer.endswith(BODY.encode()): answer += self.receive()
        if not answer.startswith(b'HTTP/1.1 200 '): raise Failure(f'answered {answer[:40]!r}')
        return len(answer)

    def close(self):                                   # With a reset, which leaves no TIME_WAIT at our side.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.socket.close()


class HalfRequest(Http1):
    """Half of its next request has arrived, with TLS as half of a record, so that it cannot be processed yet."""

    def __init__(self, case):
        self.socket, self.rest = InMemoryTls(case.connect_plain()), b''

    def request(self):
        self.socket.send_raw(self.rest)
        if not self.rest: self.socket.sendall(self.REQUEST)
        size = self.receive_response()
        record = self.socket.sealed(self.REQUEST)
        self.rest = record[len(record) // 2:]
        self.socket.send_raw(record[:len(record) // 2])
        return size


class Tunnel(Http1):
    """A websocket whose messages are echoed."""
    UPGRADE = (f'GET /tunnel HTTP/1.1\r\nHost: {LOCAL}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
               'Sec-WebSocket-Key: c2x1aWNlIGNvbXBhcmVzIQ==\r\nSec-WebSocket-Version: 13\r\n\r\n').encode()
    MESSAGE = b'\x81\x85\0\0\0\0hello'                 # A text message, masked with zeros.

    def __init__(self, case):
        super().__init__(case)
        self.socket.sendall(self.UPGRADE)
        head = b''
        while not head.endswith(b'\r\n\r\n'): head += self.receive()
        if not head.startswith(b'HTTP/1.1 101 '): raise Failure(f'answered {head[:40]!r}')

    def request(self):
        self.socket.sendall(self.MESSAGE)
        answer = b''
        while len(answer) < len(self.MESSAGE): answer += self.receive()
        if answer != self.MESSAGE: raise Failure(f'the tunnel brought {answer!r}')


class Http2(Http1):
    alpn = 'h2'
    DATA, HEADERS, SETTINGS = 0, 1, 4
    END_STREAM, ACK, END_HEADERS = 1, 1, 4

    def __init__(self, case):
        super().__init__(case)
        self.pending, self.stream, self.settled = b'', 1, False
        scheme = b'\x87' if case.is_tls else b'\x86'   # HPACK (RFC 7541): GET, the scheme, /small, the authority
        self.head = b'\x82' + scheme + b'\x04\x06/small\x01' + bytes([len(LOCAL)]) + LOCAL.encode()
        self.socket.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + self.frame(self.SETTINGS))

    @staticmethod
    def frame(kind, flags=0, stream=0, payload=b''):
        return struct.pack('>IBI', len(payload) << 8 | kind, flags, stream) + payload

    def next_frame(self):
        while len(self.pending) < 9 or len(self.pending) < 9 + int.from_bytes(self.pending[:3], 'big'):
            self.pending += self.receive()
        size, (kind, flags, stream) = int.from_bytes(self.pending[:3], 'big'), struct.unpack('>BBI', self.pending[3:9])
        payload, self.pending = self.pending[9:9 + size], self.pending[9 + size:]
        return kind, flags, stream, payload

    def request(self):
        self.socket.sendall(self.frame(self.HEADERS, self.END_STREAM | self.END_HEADERS, self.stream, self.head))
        body, done = b'', False
        while not (done and self.settled):             # Later nothing more may arrive: it would be slab.
            kind, flags, stream, payload = self.next_frame()
            if kind == self.SETTINGS and flags & self.ACK: self.settled = True
            elif kind == self.SETTINGS: self.socket.sendall(self.frame(self.SETTINGS, self.ACK))
            elif stream == self.stream:
                if kind == self.DATA: body += payload
                done = done or kind in (self.DATA, self.HEADERS) and flags & self.END_STREAM
        if body != BODY.encode(): raise Failure(f'answered with {len(body)} bytes, not {len(BODY)}')
        self.stream += 2


# ---- The load

def idle_load(client=Http1):
    """Memory per idle connection after one request. 50 connections before it make the proxy allocate what is allocated
    once."""
    def load(case):
        count = case.options.tls_idle_n if case.is_tls else case.options.idle_n
        wait_for_time_wait(20000)
        close_all(open_clients(case, client, 50))
        time.sleep(1)
        pss, slab, waiting = memory(case)
        clients = open_clients(case, client, count)
        try:
            time.sleep(2 if case.options.smoke else SETTLE_S)
            pss_then, slab_then, waiting_then = memory(case)
            for each in clients[::max(1, count // 50)]: each.request()     # Still alive?
        except (OSError, Failure) as error:
            raise Failure(f'an idle connection does not answer any more: {error}') from None
        finally: close_all(clients)
        gone = (waiting - waiting_then) * TIME_WAIT_BYTES / count
        if abs(gone) > 50: case.notes.append(f'slab is off by about {-gone:+.0f} B: TIME_WAIT sockets came or went')
        return {'pss': (pss_then - pss) / count if case.proxy else None, 'slab': (slab_then - slab) / count,
                'base': pss / 1e6 if case.proxy else None}
    return load


def memory(case):
    return pss_bytes(case.proxy.pid) if case.proxy else 0, slab_bytes(), time_wait_sockets()


def wait_for_time_wait(limit):
    """Closed sockets are slab too, for a minute: they should not be released during the measurement."""
    end = time.monotonic() + TIME_WAIT_S + 5
    while time_wait_sockets() > limit and time.monotonic() < end: time.sleep(0.5)


def open_clients(case, client, count):
    """Opens them one by one, with one request on each; closes them all if one fails."""
    seconds = OPEN_S_PER_1000 * max(1, count / 1000)
    clients, end = [], time.monotonic() + seconds
    try:
        for _ in range(count):
            clients.append(client(case))
            clients[-1].request()
            if time.monotonic() > end: raise Failure(f'not all were open after {seconds:.0f} s')
    except (OSError, Failure) as error:
        close_all(clients)
        raise Failure(f'connection {len(clients)} of {count}: {error}') from None
    return clients


def close_all(clients):
    for client in clients: client.close()
