"""Servers and clients as processes of their own: to be killed, or because one process has not enough descriptors."""

import contextlib
import selectors
import socket
import subprocess
import sys

import harness
from harness import end, spawn
from origins import text_of


class OriginProcess:
    """A server as a process. Kinds: "echo"; "hold" accepts and reads nothing."""

    def __init__(self, kind):
        self._process = spawn([sys.executable, "-B", __file__, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True)
        self.address = self._process.stdout.readline().strip()

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        end(self._process)


def _serve(kind):
    harness.raise_descriptor_limit()
    listener = socket.socket()
    if kind == "hold":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    listener.setblocking(False)
    print(text_of(listener.getsockname()), flush=True)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    # The parent's end: when it is gone, so are we.
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    held = []
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
                continue
            try:
                data = key.fileobj.recv(65536)
                if data:
                    key.fileobj.sendall(data)
                    continue
            except OSError:
                pass
            selector.unregister(key.fileobj)
            key.fileobj.close()


if __name__ == "__main__":
    _serve(sys.argv[1])
