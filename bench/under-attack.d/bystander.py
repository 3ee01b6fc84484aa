"""A well-behaved client: requests at fixed times, independently of earlier ones. Run as bystander.py JSON.

The argument is an object: `targets` (name -> [port for HTTP/1.1, port for HTTP/2]), `begin` and `end` (of
CLOCK_MONOTONIC), `interval` and `timeout` in seconds, `path`, `body`. Each target has a request per interval, of each
kind in turn: on a kept HTTP/1.1 connection, on a new one, on a kept HTTP/2 connection. The targets take turns within
the interval. If a kept connection is busy, another one is opened, like in a pool of connections.

Latency counts from the time when the request was due, so that it includes delays of this process, equally for all
targets. Prints JSON: `real_time`, `late_ms` (the longest delay of this process itself), `connections` (target -> how
many were opened to be kept), and `requests`: [due, target, kind, ms, problem or null].
"""
import collections, contextlib, errno, gc, json, os, re, select, socket, struct, sys, time

LOCAL = '127.0.0.1'
KINDS = ('kept HTTP/1.1', 'new HTTP/1.1', 'kept HTTP/2')
LENGTH = re.compile(rb'(?i)\r\ncontent-length: *(\d+)\r\n')
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
# HPACK (RFC 7541): size updates of the table may come first, then the status, from the static table.
SIZE_UPDATES, STATUS_200 = re.compile(rb'\A(?:[\x20-\x3e]|\x3f[\x80-\xff]*[\0-\x7f])*', re.S), b'\x88'


class Problem(Exception):
    """Why a connection cannot be used any more."""


def frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('>IBI', len(payload) << 8 | kind, flags, stream) + payload


class Request:
    __slots__ = ('due', 'target', 'kind', 'connection', 'is_done')

    def __init__(self, due, target, kind):
        self.due, self.target, self.kind, self.connection, self.is_done = due, target, kind, None, False


class Connection:
    def __init__(self, client, port):
        self.client, self.arrived, self.unsent = client, bytearray(), b''
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = self.socket.connect_ex((LOCAL, port))
        self.is_open = True
        client.watch(self)
        if code not in (0, errno.EINPROGRESS):
            self.close()
            raise Problem(os.strerror(code))

    def send(self, data):
        self.unsent += data
        with contextlib.suppress(BlockingIOError):     # Its connect may be in progress: EAGAIN, too.
            self.unsent = self.unsent[self.socket.send(self.unsent):]
        self.client.watch(self)

    def ready(self):
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code: raise Problem(os.strerror(code))
        if self.unsent: self.send(b'')
        with contextlib.suppress(BlockingIOError):
            more = self.socket.recv(65536)
            if not more: raise Problem('closed by the other side')
            self.arrived += more
            self.parse()

    def close(self):
        if not self.is_open: return
        self.is_open = False
        self.client.forget(self)
        self.socket.close()


class Http1(Connection):
    def __init__(self, client, port, is_kept):
        self.request, self.is_kept = None, is_kept
        super().__init__(client, port)

    def requests(self): return [self.request] if self.request else []

    def start(self, request):
        self.request = request
        self.send(self.client.head1)

    def expire(self, _request): self.close()

    def parse(self):
        head, end, body = self.arrived.partition(b'\r\n\r\n')
        if not end: return
        length = LENGTH.search(head + b'\r\n')
        if not length: raise Problem('a response without Content-Length')
        if len(body) < int(length[1]): return
        if not self.request: raise Problem('a response without a request')
        request, self.request = self.request, None
        self.arrived = bytearray()
        right = head.startswith(b'HTTP/1.1 200 ') and body == self.client.body
        self.client.done(request, None if right else f'{bytes(head[:12])!r}, body of {len(body)}')
        if self.is_kept and right and b'connection: close' not in head.lower(): self.client.idle[request.target].append(self)
        else: self.close()


class Http2(Connection):
    def __init__(self, client, port):
        self.streams, self.next_stream, self.is_retired = {}, 1, False
        super().__init__(client, port)
        self.send(client.opening2)

    def requests(self): return [request for request, _, _ in self.streams.values()]

    def start(self, request):
        self.streams[self.next_stream] = [request, b'', bytearray()]
        self.send(frame(HEADERS, END_STREAM | END_HEADERS, self.next_stream, self.client.head2))
        self.next_stream += 2

    def expire(self, request):
        """Other requests on the connection may still be served; new ones use another connection."""
        self.is_retired = True
        stream = next(number for number, (each, _, _) in self.streams.items() if each is request)
        del self.streams[stream]
        self.send(frame(RST_STREAM, 0, stream, struct.pack('>I', 8)))
        if not self.streams: self.close()

    def parse(self):
        while len(self.arrived) >= 9:
            size, (kind, flags, stream) = int.from_bytes(self.arrived[:3], 'big'), struct.unpack('>BBI', self.arrived[3:9])
            if len(self.arrived) < 9 + size: return
            payload = bytes(self.arrived[9:9 + size])
            del self.arrived[:9 + size]
            self.take(kind, flags, stream, payload)
        if self.is_retired and not self.streams: self.close()

    def take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK: self.send(frame(SETTINGS, ACK))
        elif kind == PING and not flags & ACK: self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.is_retired = True
            for refused in [number for number in self.streams if number > int.from_bytes(payload[:4], 'big')]:
                self.client.done(self.streams.pop(refused)[0], 'GOAWAY')
        elif stream not in self.streams: return
        elif kind == RST_STREAM: self.client.done(self.streams.pop(stream)[0], f'RST_STREAM {payload.hex()}')
        elif kind in (DATA, HEADERS):
            if flags & PADDED or kind == HEADERS and flags & WITH_PRIORITY: raise Problem('a frame with padding or priority')
            if kind == HEADERS: self.streams[stream][1] = payload
            else: self.streams[stream][2] += payload
            if flags & END_STREAM: self.complete(*self.streams.pop(stream))

    def complete(self, request, block, body):
        right = SIZE_UPDATES.sub(b'', block, 1)[:1] == STATUS_200 and body == self.client.body
        self.client.done(request, None if right else f'HPACK {block[:8].hex()}, body of {len(body)}')


class Bystander:
    def __init__(self, settings):
        self.settings, self.epoll, self.connections = settings, select.epoll(), {}
        self.body, path = settings['body'].encode(), settings['path'].encode()
        self.head1 = b'GET ' + path + b' HTTP/1.1\r\nHost: ' + LOCAL.encode() + b'\r\n\r\n'
        # HPACK (RFC 7541): GET, http, the path, the authority; literals without indexing.
        self.head2 = b'\x82\x86\x04' + bytes([len(path)]) + path + b'\x01' + bytes([len(LOCAL)]) + LOCAL.encode()
        self.opening2 = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(SETTINGS) + frame(
            WINDOW_UPDATE, 0, 0, struct.pack('>I', 1 << 30))
        self.idle = {name: [] for name in settings['targets']}
        self.kept2 = dict.fromkeys(settings['targets'])
        self.opened = dict.fromkeys(settings['targets'], 0)
        self.results, self.waiting, self.late = [], collections.deque(), 0.0

    def watch(self, connection):
        number = connection.socket.fileno()
        events = select.EPOLLIN | (select.EPOLLOUT if connection.unsent else 0)
        if number in self.connections: self.epoll.modify(number, events)
        else: self.epoll.register(number, events)
        self.connections[number] = connection

    def forget(self, connection):
        number = connection.socket.fileno()
        self.epoll.unregister(number)
        del self.connections[number]
        for idle in self.idle.values():
            if connection in idle: idle.remove(connection)

    def done(self, request, problem):
        if request.is_done: return
        request.is_done = True
        milliseconds = (time.monotonic() - request.due) * 1000
        self.results.append((request.due, request.target, KINDS[request.kind], milliseconds, problem))

    def fail(self, connection, problem):
        requests = connection.requests()
        connection.close()
        for request in requests: self.done(request, str(problem))

    def start(self, request):
        self.late = max(self.late, time.monotonic() - request.due)
        self.waiting.append(request)
        try:
            request.connection = self.choose(request)
            request.connection.start(request)
        except (Problem, OSError) as error:
            if request.connection: self.fail(request.connection, error)
            self.done(request, str(error))

    def choose(self, request):
        target, (port1, port2) = request.target, self.settings['targets'][request.target]
        if request.kind == 1: return Http1(self, port1, is_kept=False)
        if request.kind == 0 and self.idle[target]: return self.idle[target].pop()
        if request.kind == 0:
            self.opened[target] += 1
            return Http1(self, port1, is_kept=True)
        kept = self.kept2[target]
        if not kept or not kept.is_open or kept.is_retired:
            self.opened[target] += 1
            kept = self.kept2[target] = Http2(self, port2)
        return kept

    def expire(self, now):
        while self.waiting and (self.waiting[0].is_done or self.waiting[0].due + self.settings['timeout'] <= now):
            request = self.waiting.popleft()
            if request.is_done: continue
            self.done(request, 'timeout')
            with contextlib.suppress(OSError): request.connection.expire(request)

    def run(self):
        begin, end, interval = (self.settings[key] for key in ('begin', 'end', 'interval'))
        targets = list(self.settings['targets'])
        count = int((end - begin) / interval)
        schedule = collections.deque(
            Request(begin + interval * (number + place / len(targets)), target, number % len(KINDS))
            for number in range(count) for place, target in enumerate(targets))
        while schedule or self.waiting:
            now = time.monotonic()
            while schedule and schedule[0].due <= now: self.start(schedule.popleft())
            self.expire(now)
            nexts = ([schedule[0].due] if schedule else []) + (
                [self.waiting[0].due + self.settings['timeout']] if self.waiting else [])
            if not nexts: continue
            for number, _ in self.epoll.poll(max(0, min(nexts) - time.monotonic())):
                connection = self.connections.get(number)
                if not connection: continue
                try: connection.ready()
                except (Problem, OSError) as error: self.fail(connection, error)
        return {'late_ms': self.late * 1000, 'connections': self.opened, 'requests': self.results}


def in_real_time():
    """So that attackers on the same CPU do not delay it."""
    try: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError: return False
    return True


def main():
    bystander = Bystander(json.loads(sys.argv[1]))
    gc.collect()
    gc.disable()
    is_real_time = in_real_time()
    print(json.dumps({'real_time': is_real_time, **bystander.run()}))


main()
