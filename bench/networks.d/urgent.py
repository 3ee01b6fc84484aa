"""How soon an urgent response arrives on a connection that is full of others. Run as a program:

    urgent.py ADDRESS PORT STREAMS TRIES PAUSE_S

One connection of TLS and HTTP/2 downloads /large on STREAMS streams of the lowest urgency (RFC 9218: u=7). Meanwhile it
requests /urgent with u=0, TRIES times. Prints JSON: how long each of those took, in ms, and the Mbit/s of all. The windows are
so large that only the connection limits.
"""
import json, socket, ssl, struct, sys, time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE, WINDOW = 4, 1 << 30


def frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('>IBI', len(payload) << 8 | kind, flags, stream) + payload


def literal(text): return bytes([len(text)]) + text.encode()


class Client:
    def __init__(self, address, port):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(['h2'])
        plain = socket.create_connection((address, port), 30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self.address, self.received, self.stream, self.bytes = context.wrap_socket(plain), address, b'', -1, 0
        self.socket.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' +
                            frame(SETTINGS, payload=struct.pack('>HI', INITIAL_WINDOW_SIZE, WINDOW)) +
                            frame(WINDOW_UPDATE, payload=struct.pack('>I', WINDOW)))

    def request(self, path, urgency):
        """Returns the number of its stream. HPACK (RFC 7541): GET, https, the path, the authority, the priority."""
        self.stream += 2
        head = b'\x82\x87\x04' + literal(path) + b'\x01' + literal(self.address) + b'\x00' + literal('priority') + literal(f'u={urgency}')
        self.socket.sendall(frame(HEADERS, END_STREAM | END_HEADERS, self.stream, head))
        return self.stream

    def read_until(self, stream=0, end=float('inf')):
        """Reads until that stream has ended, or until that time."""
        while time.monotonic() < end:
            while len(self.received) >= 9 and len(self.received) >= (size := 9 + int.from_bytes(self.received[:3], 'big')):
                kind, flags, of = struct.unpack('>BBI', self.received[3:9])
                payload, self.received = self.received[9:size], self.received[size:]
                if kind == SETTINGS and not flags & ACK: self.socket.sendall(frame(SETTINGS, ACK))
                elif kind == PING and not flags & ACK: self.socket.sendall(frame(PING, ACK, 0, payload))
                elif kind in (GOAWAY, RST_STREAM): sys.exit(f'the proxy ended stream {of}: type {kind}, {payload!r}')
                elif kind == HEADERS and payload[:1] not in (b'\x88', b'\x20', b'\x3f'): sys.exit(f'no 200: {payload[:9]!r}')
                elif kind == DATA: self.bytes += len(payload)
                if kind in (DATA, HEADERS) and flags & END_STREAM:
                    if of == stream: return
                    self.request('/large', 7)          # The connection stays full.
            more = self.socket.recv(65536)             # Something always arrives.
            if not more: sys.exit('the connection has ended')
            self.received += more


def main(address, port, streams, tries, pause_s):
    client, times = Client(address, int(port)), []
    for _ in range(int(streams)): client.request('/large', 7)
    client.read_until(end=time.monotonic() + 3 * float(pause_s))
    begin, before = time.monotonic(), client.bytes
    for _ in range(int(tries)):
        sent = time.monotonic()
        client.read_until(client.request('/urgent', 0))
        times.append(1000 * (time.monotonic() - sent))
        client.read_until(end=time.monotonic() + float(pause_s))
    print(json.dumps({'ms': times, 'rate': (client.bytes - before) * 8 / 1e6 / (time.monotonic() - begin)}))


if __name__ == '__main__': main(*sys.argv[1:])
