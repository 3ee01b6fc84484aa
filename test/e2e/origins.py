"""Small servers, and actions of clients and servers on plain sockets."""

import contextlib
import queue
import random
import socket
import struct
import threading

from harness import SLOWNESS

# The timeout of each call on a socket.
PATIENCE_SECONDS = 10 * SLOWNESS


def text_of(address):
    """A socket's address in the notation of the configuration."""
    if isinstance(address, (bytes, str)):
        name = address.decode() if isinstance(address, bytes) else address
        return "unix:@" + name[1:] if name.startswith("\0") else "unix:" + name
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def family_of(address):
    if isinstance(address, (bytes, str)):
        return socket.AF_UNIX
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


reserved_ports = []  # One socket for each port, open until this process ends.


def reserve_port(port):
    """True if neither this process nor another one that runs tests has the port: the name of a socket is its lock."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0sluice-test-port-{port}")
    except OSError:
        name.close()
        return False
    reserved_ports.append(name)
    return True


def free_port(host="127.0.0.1"):
    """A port for programs that cannot choose one; no other call returns it, also not in another process. It is below the range
    of ports for outgoing connections, so that none of those can take it."""
    for _ in range(200):
        port = random.randint(15000, 32000)
        with socket.socket(family_of((host, port))) as probe, contextlib.suppress(OSError):
            probe.bind((host, port))
            if reserve_port(port):
                return port
    raise AssertionError("no free port")


def connect(address, source=None, receive_buffer=None, timeout=PATIENCE_SECONDS):
    sock = socket.socket(family_of(address))
    try:
        sock.settimeout(timeout)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            sock.bind((source, 0))
        sock.connect(address)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def reset(sock):
    """Closes so that the peer sees a reset."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def receive_exactly(sock, count):
    parts = []
    while count > 0:
        part = sock.recv(min(count, 1 << 20))
        if not part:
            raise AssertionError(f"the stream ended {count} bytes early")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def receive_until(sock, text):
    """What has arrived when `text` has: it may come in pieces."""
    received = b""
    while text not in received:
        part = sock.recv(1 << 16)
        if not part:
            raise AssertionError(f"the stream ended without {text}: {received}")
        received += part
    return received


def receive_all(sock):
    """Everything up to the peer's end."""
    parts = []
    while True:
        part = sock.recv(1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def outcome(sock):
    """How the stream continues, as a word or as data: "end", "reset", "silence" or the bytes. After bytes, call it once
    more."""
    try:
        return sock.recv(1 << 16) or "end"
    except (ConnectionResetError, BrokenPipeError):
        return "reset"
    except socket.timeout:
        return "silence"


def last_outcome(sock):
    """Like `outcome`, with data skipped."""
    while True:
        how = outcome(sock)
        if isinstance(how, str):
            return how


def outcome_of_connecting(address, source=None, data=b""):
    """How a connection that is refused after it was accepted ends: a reset may arrive before connect() has returned, or
    before `data` is sent."""
    try:
        with connect(address, source) as sock:
            sock.sendall(data)
            return last_outcome(sock)
    except (ConnectionResetError, BrokenPipeError):
        return "reset"


def ping(sock, question=b"ping", response=None):
    """Sends data and waits for a response; True when the expected one (by default the echo) arrived."""
    response = question if response is None else response
    sock.sendall(question)
    return receive_exactly(sock, len(response)) == response


# ---- Handlers of connections

def echo(sock):
    while True:
        data = sock.recv(1 << 16)
        if not data:
            break
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def discard(sock):
    while sock.recv(1 << 18):
        pass


def send_name(name):
    """A server that sends its name and then echoes."""
    def handler(sock):
        sock.sendall(name)
        echo(sock)
    return handler


class Origin:
    """A server on its own threads. With a handler, each connection is served by `handler(socket)` and then closed;
    without one, the test takes connections with `accept`."""

    def __init__(self, handler=None, address=("127.0.0.1", 0), backlog=512, receive_buffer=None):
        self._handler = handler
        self._accepted = queue.Queue()
        self._open = set()
        self._lock = threading.Lock()
        self.count = 0
        self._listener = socket.socket(family_of(address))
        if self._listener.family != socket.AF_UNIX:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._listener.bind(address)
        self._listener.listen(backlog)
        self.sockname = self._listener.getsockname()
        self.address = text_of(self.sockname)
        self._thread = threading.Thread(target=self._accept_loop, daemon=True)
        self._thread.start()

    def _accept_loop(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.settimeout(PATIENCE_SECONDS * 6)
            with self._lock:
                self._open.add(sock)
                self.count += 1
            if self._handler:
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()
            else:
                sock.settimeout(PATIENCE_SECONDS)
                self._accepted.put(sock)

    def _serve(self, sock):
        with contextlib.suppress(OSError):
            self._handler(sock)
        sock.close()
        with self._lock:
            self._open.discard(sock)

    def accept(self, timeout=PATIENCE_SECONDS):
        try:
            return self._accepted.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no connection came within {timeout} s") from None

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        with self._lock:
            left = list(self._open)
        for sock in left:
            # Wakes the thread that waits in it.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


class BlackHole:
    """An unreachable address: a listener that accepts nothing and whose queue is full, so that the kernel drops further
    connection attempts."""

    def __init__(self):
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self.sockname = self._listener.getsockname()
        self.address = text_of(self.sockname)
        self._fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.settimeout(0.3)
            self._fillers.append(filler)
            try:
                filler.connect(self.sockname)
            except socket.timeout:
                return
        raise AssertionError("the kernel queues more than a backlog of 0 lets it")

    def close(self):
        for filler in self._fillers:
            filler.close()
        self._listener.close()


def refused_address():
    """An address on which no process listens."""
    return f"127.0.0.1:{free_port()}"
