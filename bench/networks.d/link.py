"""A link between two network namespaces, with a rate, a delay and loss in each direction. Run as a program:

    link.py NAMESPACE_A ADDRESS_A NAMESPACE_B ADDRESS_B DELAY_MS LOSS_PERCENT MBIT QUEUE_KB

It makes a TUN device in each namespace and carries the packets, so it needs no module of the kernel, where netem is often
missing. Packets leave one after another at the rate, wait in a queue before that (what does not fit is dropped), and
arrive the delay later, in their order. Loss is random, by a fixed seed. Prints a line once it is ready; ends by a signal.
In Python it carries some 30,000 packets a second on one CPU.
"""
import ctypes, errno, fcntl, os, random, select, struct, subprocess, sys, time
from collections import deque

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000
CLONE_NEWNET, PR_SET_TIMERSLACK = 0x40000000, 29
LIBC = ctypes.CDLL(None, use_errno=True)
MOST_AT_ONCE = 64                                      # Packets of one side, so that the other one's are not late.


def enter(namespace):
    """This thread is in the namespace from now on, and what it starts."""
    with open(f'/run/netns/{namespace}') as there:
        if LIBC.setns(there.fileno(), CLONE_NEWNET): raise OSError(ctypes.get_errno(), f'setns {namespace}')


def device(namespace, address, other):
    """A TUN device of that namespace; returns its descriptor."""
    enter(namespace)
    tun = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack('16sH22x', b'link0', IFF_TUN | IFF_NO_PI))
    for command in (f'ip address add {address} peer {other} dev link0', 'ip link set link0 txqueuelen 10000 up'):
        subprocess.run(command.split(), check=True)
    return tun


class Direction:
    def __init__(self, source, target, delay_s, loss, bytes_per_s, queue_bytes):
        self.source, self.target, self.delay_s, self.loss = source, target, delay_s, loss
        self.bytes_per_s, self.queue_s = bytes_per_s, queue_bytes / bytes_per_s
        self.sent_at, self.flying, self.chance = 0.0, deque(), random.Random(1)

    def take(self):
        for _ in range(MOST_AT_ONCE):
            try: packet = os.read(self.source, 65536)
            except BlockingIOError: return
            now = time.monotonic()
            begin = max(now, self.sent_at)
            if begin - now > self.queue_s or self.chance.random() < self.loss: continue
            self.sent_at = begin + len(packet) / self.bytes_per_s
            self.flying.append((self.sent_at + self.delay_s, packet))

    def deliver(self):
        flying, now = self.flying, time.monotonic()
        while flying and flying[0][0] <= now:
            try: os.write(self.target, flying.popleft()[1])
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EIO, errno.ENOBUFS): raise

    def due(self): return self.flying[0][0] if self.flying else float('inf')


def main(namespace_a, address_a, namespace_b, address_b, delay_ms, loss_percent, mbit, queue_kb):
    a, b = device(namespace_a, address_a, address_b), device(namespace_b, address_b, address_a)
    LIBC.prctl(PR_SET_TIMERSLACK, 1)
    how = float(delay_ms) / 1000, float(loss_percent) / 100, float(mbit) * 125_000, float(queue_kb) * 1000
    directions = {a: Direction(a, b, *how), b: Direction(b, a, *how)}
    print('ready', flush=True)
    while True:
        next_due = min(each.due() for each in directions.values())
        timeout = max(0.0, next_due - time.monotonic()) if next_due < float('inf') else None
        for one in select.select([a, b], [], [], timeout)[0]: directions[one].take()
        for each in directions.values(): each.deliver()


if __name__ == '__main__': main(*sys.argv[1:])
