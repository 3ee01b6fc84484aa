"""Connections side by side that send an opening, read nothing, and close all at once. Run as attackers.py JSON.

The argument is an object: `port`, `connections`, `opening` (a file), `begin` and `end` (of CLOCK_MONOTONIC). Prints
JSON: `connected`, `ended` (by the other side, before the end), `sent` (bytes that the kernel took), `unacknowledged`
(of these), `readable` (bytes that were received and not read).
"""
import errno, fcntl, json, select, socket, struct, sys, termios, time
from pathlib import Path

RECEIVE_BUFFER = 4096


class Attacker:
    def __init__(self, port, opening):
        self.rest, self.sent, self.has_ended, self.is_connected = memoryview(opening), 0, False, False
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self.socket.setblocking(False)
        code = self.socket.connect_ex(('127.0.0.1', port))
        self.has_ended = code not in (0, errno.EINPROGRESS)

    def send(self):
        """Returns whether there is more to send."""
        if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR): self.has_ended = True
        try:
            while self.rest and not self.has_ended:
                taken = self.socket.send(self.rest)
                self.rest, self.sent, self.is_connected = self.rest[taken:], self.sent + taken, True
        except BlockingIOError: pass
        except OSError: self.has_ended = True
        return bool(self.rest) and not self.has_ended

    def queued(self, what):
        return struct.unpack('i', fcntl.ioctl(self.socket, what, b'\0' * 4))[0]

    def is_ended(self):
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return self.has_ended or bool(poll.poll(0))


def attack(settings):
    opening, end = Path(settings['opening']).read_bytes(), settings['end']
    time.sleep(max(0, settings['begin'] - time.monotonic()))
    epoll, attackers = select.epoll(), {}
    for _ in range(settings['connections']):
        attacker = Attacker(settings['port'], opening)
        attackers[attacker.socket.fileno()] = attacker
        if not attacker.has_ended: epoll.register(attacker.socket, select.EPOLLOUT)
    while (left := end - time.monotonic()) > 0:
        for number, _ in epoll.poll(left):
            if not attackers[number].send(): epoll.unregister(number)
    each = attackers.values()
    figures = {'connected': sum(one.is_connected for one in each), 'ended': sum(one.is_ended() for one in each),
               'sent': sum(one.sent for one in each),
               'unacknowledged': sum(one.queued(termios.TIOCOUTQ) for one in each),
               'readable': sum(one.queued(termios.FIONREAD) for one in each)}
    for one in each: one.socket.close()
    return figures | {'closed': time.monotonic()}


print(json.dumps(attack(json.loads(sys.argv[1]))))
