"""A relay of TCP whose bytes the kernel forwards: a BPF program redirects what one socket of a pair receives to the other.

    relay.py LISTEN_PORT ENDPOINT_PORT

User space only accepts, connects, and passes on the end of a direction. It moves no byte, but for those that arrived
before a pair was in the map. Needs CAP_BPF and CAP_NET_ADMIN. For bench/sockmap only: it has no timeouts, no limits, and
cannot tell when the bytes before the end of a direction have been sent.
"""
import ctypes, os, selectors, socket, struct, sys

LOCAL = '127.0.0.1'
SYS_BPF = {'x86_64': 321, 'aarch64': 280}[os.uname().machine]
# From linux/bpf.h.
MAP_CREATE, MAP_UPDATE_ELEM, PROG_LOAD, PROG_ATTACH = 0, 2, 5, 8
SOCKHASH, SK_SKB, STREAM_VERDICT = 18, 14, 5
GET_SOCKET_COOKIE, SK_REDIRECT_HASH = 46, 72
SO_COOKIE = 57
PAIRS = 65536

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, max(len(attributes), 144))
    result = libc.syscall(SYS_BPF, command, buffer, len(buffer))
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def address(buffer): return ctypes.cast(buffer, ctypes.c_void_p).value


def instruction(code, target=0, source=0, offset=0, value=0):
    return struct.pack('<BBhi', code, source << 4 | target, offset, value)


def program(sockets):
    """return bpf_sk_redirect_hash(skb, sockets, &cookie_of(skb), 0);"""
    call, move, add, store, load, end = 0x85, 0xbf, 0x07, 0x7b, 0x18, 0x95
    return b''.join((
        instruction(move, 6, 1),
        instruction(call, value=GET_SOCKET_COOKIE),
        instruction(store, 10, 0, -8),
        instruction(move, 1, 6),
        instruction(load, 2, 1, 0, sockets), instruction(0),    # 1: the value is the descriptor of a map.
        instruction(move, 3, 10),
        instruction(add, 3, value=-8),
        instruction(0xb7, 4),
        instruction(call, value=SK_REDIRECT_HASH),
        instruction(end)))


def load(sockets):
    code, license_, log = program(sockets), ctypes.create_string_buffer(b'GPL'), ctypes.create_string_buffer(65536)
    held = ctypes.create_string_buffer(code, len(code))
    try:
        return bpf(PROG_LOAD, struct.pack('<IIQQIIQ', SK_SKB, len(code) // 8, address(held), address(license_), 1,
                                          len(log), address(log)))
    except OSError as error: sys.exit(f'relay: the program was refused: {error}\n{log.value.decode()}')


class Sockets:
    """A map from a socket's cookie to the other socket of its pair."""

    def __init__(self):
        self.fd = bpf(MAP_CREATE, struct.pack('<IIII', SOCKHASH, 8, 8, 2 * PAIRS))
        bpf(PROG_ATTACH, struct.pack('<IIII', self.fd, load(self.fd), STREAM_VERDICT, 0))

    def put(self, from_, to):
        key, value = ctypes.create_string_buffer(from_.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), 8), \
            ctypes.create_string_buffer(struct.pack('<Q', to.fileno()), 8)
        bpf(MAP_UPDATE_ELEM, struct.pack('<IIQQQ', self.fd, 0, address(key), address(value), 0))


def pass_on(from_, to):
    """What arrived before the pair was in the map. True at the end of the direction."""
    try:
        while received := from_.recv(65536): to.sendall(received)
    except BlockingIOError: return False
    except OSError: return True
    return True


def main():
    sockets, poll = Sockets(), selectors.EpollSelector()
    listener = socket.create_server((LOCAL, int(sys.argv[1])), backlog=4096)
    poll.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in poll.select():
            if key.fileobj is listener:
                client, _ = listener.accept()
                endpoint = socket.create_connection((LOCAL, int(sys.argv[2])))
                for each in (client, endpoint): each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    sockets.put(endpoint, client)
                    sockets.put(client, endpoint)
                except OSError:                         # One of them has ended already: only an open one can be in the map.
                    client.close()
                    endpoint.close()
                    continue
                for from_, to in ((client, endpoint), (endpoint, client)):
                    from_.setblocking(False)
                    pass_on(from_, to)
                    poll.register(from_, selectors.EVENT_READ, to)
            elif pass_on(key.fileobj, key.data):
                poll.unregister(key.fileobj)
                try: key.data.shutdown(socket.SHUT_WR)
                except OSError: pass                    # It has ended, too.


if __name__ == '__main__': main()
