"""Many transfers at once, in both directions, each byte checked. One loop is the clients and the server.

The data of a stream depends on its number and on the position, so that lost, doubled, swapped or foreign bytes are
found at their positions. A hash of the whole would not show that.
"""

import random
import selectors
import socket
import struct
import time

from harness import SLOWNESS
from origins import family_of, text_of

_PIECE = 256 * 1024
# Not a multiple of any buffer's size.
_PERIOD = 4 * 1024 * 1024 + 9973
_ONCE = random.Random(20240229).randbytes(_PERIOD)
_PATTERN = _ONCE + _ONCE[:_PIECE]
_PATTERN_VIEW = memoryview(_PATTERN)

# A run in which no byte moves for this long hangs.
_STUCK_SECONDS = 8

_HEADER = struct.Struct("!QQ")  # Which transfer, how many bytes in each direction.


def pattern_start(stream, position):
    return (stream * 1_000_003 + position) % _PERIOD


def pattern(stream, position, count):
    """`count` (at most 256 KiB) bytes of a stream from `position` on."""
    start = pattern_start(stream, position)
    return _PATTERN[start:start + count]


class TransferError(AssertionError):
    pass


class _End:
    """One end of a transfer."""

    def __init__(self, sock, is_client, index=None, size=0):
        self.sock = sock
        self.is_client = is_client
        self.index = index
        self.size = size
        self.pending = _HEADER.pack(index, size) if is_client else b""
        self.header = b""
        self.sent = 0
        self.received = 0
        self.shut = False
        self.ended = False

    # Streams are numbered so that neither two transfers of a run nor the two directions of one share a number.
    def _stream(self, from_client):
        return 2 * self.index + (0 if from_client else 1)

    @property
    def done(self):
        return self.shut and self.ended

    @property
    def events(self):
        reading = 0 if self.ended else selectors.EVENT_READ
        may_send = self.index is not None and not self.shut
        return reading | (selectors.EVENT_WRITE if may_send else 0)

    def send(self):
        if self.pending:
            self.pending = self.pending[self.sock.send(self.pending):]
            return
        count = min(_PIECE, self.size - self.sent)
        if count > 0:
            start = pattern_start(self._stream(self.is_client), self.sent)
            self.sent += self.sock.send(_PATTERN_VIEW[start:start + count])
        if self.sent == self.size:
            self.sock.shutdown(socket.SHUT_WR)
            self.shut = True

    def receive(self):
        data = self.sock.recv(_PIECE)
        if not data:
            if self.received != self.size or self.index is None:
                raise TransferError(f"{self}: the stream ended early")
            self.ended = True
            return
        if not self.is_client and self.index is None:
            self.header += data
            if len(self.header) < _HEADER.size:
                return
            self.index, self.size = _HEADER.unpack_from(self.header)
            data = self.header[_HEADER.size:]
        expected = pattern(self._stream(not self.is_client), self.received, len(data))
        if data != expected:
            at = next(i for i in range(len(data)) if data[i:i + 1] != expected[i:i + 1])
            raise TransferError(f"{self}: wrong byte at {self.received + at}")
        self.received += len(data)
        if self.received > self.size:
            raise TransferError(f"{self}: more than was sent")

    def __str__(self):
        end = "client" if self.is_client else "server"
        return f"transfer {self.index}, {end} end, {self.sent} sent and {self.received} received of {self.size}"


class TransferRun:
    """`count` transfers of `size` bytes in each direction through `address`. This object is the server."""

    def __init__(self, count, size, server_address=("127.0.0.1", 0), receive_buffer=None):
        self._count = count
        self._size = size
        self._listener = socket.socket(family_of(server_address))
        if receive_buffer:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._listener.bind(server_address)
        self._listener.listen(1024)
        self._listener.setblocking(False)
        self.address = text_of(self._listener.getsockname())
        self._selector = selectors.DefaultSelector()
        self._ends = []

    def run(self, address, seconds=60, on_turn=None):
        """Runs all transfers. Raises an error if data differs, if nothing moves for a while, or if they are not done in
        time. Returns the seconds taken."""
        start = progress_at = time.monotonic()
        deadline = start + seconds * SLOWNESS
        progress = 0
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        for index in range(self._count):
            sock = socket.socket(family_of(address))
            sock.settimeout(10 * SLOWNESS)
            sock.connect(address)
            self._add(_End(sock, True, index, self._size))
        while len(self._ends) < 2 * self._count or any(not end.done for end in self._ends):
            now = time.monotonic()
            received = sum(end.received for end in self._ends)
            if received != progress:
                progress, progress_at = received, now
            if now > deadline or now > progress_at + _STUCK_SECONDS * SLOWNESS:
                stuck = [str(end) for end in self._ends if not end.done]
                raise TransferError(f"not done after {now - start:.0f} s, the last {now - progress_at:.0f} s without "
                                    f"any progress: {len(stuck)} ends of {2 * self._count}, such as\n"
                                    + "\n".join(stuck[:6]))
            if on_turn:
                on_turn()
            for key, ready in self._selector.select(0.2):
                if key.data is None:
                    self._add(_End(self._listener.accept()[0], False))
                else:
                    self._serve(key.data, ready)
        return time.monotonic() - start

    def _add(self, end):
        end.sock.setblocking(False)
        self._ends.append(end)
        self._selector.register(end.sock, end.events, end)

    def _serve(self, end, ready):
        before = end.events
        try:
            if ready & selectors.EVENT_READ:
                end.receive()
            if ready & selectors.EVENT_WRITE:
                end.send()
        except BlockingIOError:
            pass
        except OSError as error:
            raise TransferError(f"{end}: {error}") from error
        if end.events == before:
            return
        if end.events:
            self._selector.modify(end.sock, end.events, end)
        else:
            self._selector.unregister(end.sock)

    @property
    def total_bytes(self):
        return 2 * self._count * self._size

    def close(self):
        for end in self._ends:
            end.sock.close()
        self._listener.close()
        self._selector.close()
