"""Connections side by side that send an opening, and what follows it, and close all at once. Run as attackers.py JSON.

The argument is an object: `port`, `connections`, `opening` (a file), `begin` and `end` (of CLOCK_MONOTONIC), and

    `then`      what follows the opening:
                `nothing`     the connection stays open
                `drip`        a byte of `more` each half second, from the beginning again after its end
                `flood`       `more` without end; what arrives is read; a connection that ended is replaced
                `reconnect`   once the opening is sent and something was received, or the connection is there if the opening is
                              empty, it is reset and replaced
    `more`      a file

Prints JSON: `connected` and `ended` (by the other side, before the end) connections, `sent` (bytes that the kernel took),
`unacknowledged` (of these), `readable` (bytes that were received and not read).
"""
import errno, fcntl, json, select, socket, struct, sys, termios, time
from pathlib import Path

RECEIVE_BUFFER, DRIP_S = 4096, 0.5
SEND, RECEIVE = select.EPOLLOUT, select.EPOLLIN | select.EPOLLRDHUP


class Attacker:
    def __init__(self, port, opening):
        self.rest, self.sent, self.has_ended, self.is_connected = memoryview(opening), 0, False, False
        self.has_received, self.at = False, 0          # `at`: in what follows the opening.
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        self.socket.setblocking(False)
        code = self.socket.connect_ex(('127.0.0.1', port))
        self.has_ended = code not in (0, errno.EINPROGRESS)

    def send(self):
        """Returns whether there is more to send."""
        if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR): self.has_ended = True
        if not self.has_ended: self.is_connected = True
        try:
            while self.rest and not self.has_ended:
                taken = self.socket.send(self.rest)
                self.rest, self.sent = self.rest[taken:], self.sent + taken
        except BlockingIOError: pass
        except OSError: self.has_ended = True
        return bool(self.rest) and not self.has_ended

    def receive(self):
        """Drops what has arrived."""
        try:
            arrived = self.socket.recv(1 << 16)
            self.has_received |= bool(arrived)
            self.has_ended |= not arrived
        except BlockingIOError: pass
        except OSError: self.has_ended = True

    def queued(self, what):
        return struct.unpack('i', fcntl.ioctl(self.socket, what, b'\0' * 4))[0]

    def is_ended(self):
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        return self.has_ended or bool(poll.poll(0))

    def reset(self):
        """Closes without TIME_WAIT, which would take all ports."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.socket.close()


class Attack:
    def __init__(self, settings):
        self.settings, self.then = settings, settings['then']
        self.opening, self.more = (Path(settings[name]).read_bytes() for name in ('opening', 'more'))
        self.epoll, self.attackers = select.epoll(), {}
        self.connected = self.ended = self.sent = 0    # Of those that were replaced.

    def start(self):
        attacker = Attacker(self.settings['port'], self.opening)
        self.attackers[attacker.socket.fileno()] = attacker
        if not attacker.has_ended: self.epoll.register(attacker.socket, SEND if self.then in ('nothing', 'drip') else SEND | RECEIVE)

    def replace(self, attacker):
        del self.attackers[attacker.socket.fileno()]
        self.connected += attacker.is_connected
        self.ended += attacker.has_ended
        self.sent += attacker.sent
        attacker.reset()
        self.start()

    def ready(self, attacker, events):
        if self.then in ('nothing', 'drip'):
            if not attacker.send(): self.epoll.unregister(attacker.socket)
            return
        if events & ~SEND: attacker.receive()
        if events & SEND and not attacker.send():
            if self.then == 'flood': attacker.rest = memoryview(self.more)
            else: self.epoll.modify(attacker.socket, RECEIVE)
        is_done = self.then == 'reconnect' and attacker.is_connected and not attacker.rest and (
            attacker.has_received or not self.opening)
        if is_done or attacker.has_ended: self.replace(attacker)

    def drip(self):
        for attacker in self.attackers.values():
            if attacker.rest or attacker.has_ended: continue
            attacker.rest = memoryview(self.more)[attacker.at:attacker.at + 1]
            attacker.at = (attacker.at + 1) % len(self.more)
            attacker.send()

    def run(self):
        time.sleep(max(0, self.settings['begin'] - time.monotonic()))
        for _ in range(self.settings['connections']): self.start()
        next_drip = time.monotonic() + DRIP_S
        while (left := self.settings['end'] - time.monotonic()) > 0:
            if self.then == 'drip':
                left = min(left, max(0, next_drip - time.monotonic()))
                if not left:
                    self.drip()
                    next_drip += DRIP_S
            for number, events in self.epoll.poll(left):
                if number in self.attackers: self.ready(self.attackers[number], events)
        each = self.attackers.values()
        figures = {'connected': self.connected + sum(one.is_connected for one in each),
                   'ended': self.ended + sum(one.is_ended() for one in each),
                   'sent': self.sent + sum(one.sent for one in each),
                   'unacknowledged': sum(one.queued(termios.TIOCOUTQ) for one in each if not one.has_ended),
                   'readable': sum(one.queued(termios.FIONREAD) for one in each if not one.has_ended)}
        for one in each: one.socket.close()
        return figures | {'closed': time.monotonic()}


print(json.dumps(Attack(json.loads(sys.argv[1])).run()))
