"""Servers and clients in processes of their own: so that they can be killed, or because one process does not have
enough descriptors."""

import base64
import contextlib
import hashlib
import re
import selectors
import socket
import subprocess
import sys

import harness
from harness import SLOWNESS, end, spawn
from origins import connect, receive_exactly, text_of


class _Process:
    def __init__(self, *arguments):
        self._process = spawn([sys.executable, "-B", __file__, *arguments], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        end(self._process)


class OriginProcess(_Process):
    """A server in a process. Kinds: "echo"; "websocket" accepts a websocket and echoes what follows; "hold" accepts and
    reads nothing."""

    def __init__(self, kind):
        super().__init__("origin", kind)
        self.address = self._process.stdout.readline().strip()


class ClientProcess(_Process):
    """A crowd of clients in a process. Orders: "open" N connections; "request" an echo from each; "close" them all."""

    def __init__(self, address):
        super().__init__("clients", address[0], str(address[1]))

    def do(self, order, count=0):
        self._process.stdin.write(f"{order} {count}\n")
        self._process.stdin.flush()
        response = self._process.stdout.readline().strip()
        if response != "ok":
            raise AssertionError(f"clients could not {order}: {response}")


def _accept_websocket(heads, sock, data):
    """Takes a part of the head. Returns what to send: the response, once the head is complete."""
    heads[sock] += data
    if not heads[sock].endswith(b"\r\n\r\n"):
        return b""
    key = re.search(rb"(?i)sec-websocket-key: *(\S+)", heads.pop(sock))[1]
    digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return (b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-accept: " + base64.b64encode(digest) + b"\r\n\r\n")


def _origin(kind):
    listener = socket.socket()
    if kind == "hold":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    listener.setblocking(False)
    print(text_of(listener.getsockname()), flush=True)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    # The parent's end: this process ends with it.
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    held = []
    heads = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj == sys.stdin.fileno():
                return
            if key.fileobj is listener:
                with contextlib.suppress(OSError):
                    sock, _ = listener.accept()
                    if kind == "hold":
                        held.append(sock)
                    else:
                        selector.register(sock, selectors.EVENT_READ)
                        if kind == "websocket":
                            heads[sock] = b""
                continue
            try:
                data = key.fileobj.recv(65536)
                if data and key.fileobj in heads:
                    data = _accept_websocket(heads, key.fileobj, data)
                    if not data:
                        continue
                if data:
                    key.fileobj.sendall(data)
                    continue
            except OSError:
                pass
            selector.unregister(key.fileobj)
            heads.pop(key.fileobj, None)
            key.fileobj.close()


def _clients(host, port):
    sockets = []

    def send_requests():
        # All requests at once, then all responses.
        for number, sock in enumerate(sockets):
            sock.sendall(b"%08d" % number)
        for number, sock in enumerate(sockets):
            if receive_exactly(sock, 8) != b"%08d" % number:
                raise AssertionError("another connection's data")

    for line in sys.stdin:
        order, count = line.split()
        try:
            if order == "open":
                for _ in range(int(count)):
                    sockets.append(connect((host, int(port)), timeout=30 * SLOWNESS))
            elif order == "request":
                send_requests()
            elif order == "close":
                while sockets:
                    sockets.pop().close()
            print("ok", flush=True)
        except (OSError, AssertionError) as error:
            print(repr(error), flush=True)


if __name__ == "__main__":
    harness.raise_descriptor_limit()
    {"origin": _origin, "clients": _clients}[sys.argv[1]](*sys.argv[2:])
