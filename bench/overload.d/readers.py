"""Slow readers: clients that each request a large response and read little of it. Run as readers.py JSON.

The argument is an object: `port`, `count`, `path`, `begin` and `end` (of CLOCK_MONOTONIC), `bytes` and `every` (seconds):
so much is read so often. They connect within the first second. Prints JSON: `connected`, `refused`, `ended` (by the
proxy, before the end), and `read`, in bytes.
"""
import errno, json, socket, sys, time

LOCAL = '127.0.0.1'
RECEIVE_BUFFER = 4096


def connect(port, request):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    client.settimeout(2)
    try:
        client.connect((LOCAL, port))
        client.sendall(request)
    except OSError:
        client.close()
        return None
    client.setblocking(False)
    return client


def read_some(client, count):
    """Bytes; None: the proxy has ended the connection."""
    try: return len(client.recv(count)) or None
    except BlockingIOError: return 0
    except OSError as error: return 0 if error.errno == errno.EAGAIN else None


def main(settings):
    request = f'GET {settings["path"]} HTTP/1.1\r\nHost: {LOCAL}\r\n\r\n'.encode()
    count, begin = settings['count'], settings['begin']
    clients, refused, ended, read = [], 0, 0, 0
    for number in range(count):
        time.sleep(max(begin + number / count - time.monotonic(), 0))
        client = connect(settings['port'], request)
        if client: clients.append(client)
        else: refused += 1
    connected, due = len(clients), time.monotonic()
    while due < settings['end']:
        left = []
        for client in clients:
            got = read_some(client, settings['bytes'])
            if got is None:
                ended += 1
                client.close()
                continue
            read += got
            left.append(client)
        clients = left
        due = max(due + settings['every'], time.monotonic())
        time.sleep(max(min(due, settings['end']) - time.monotonic(), 0))
    print(json.dumps({'connected': connected, 'refused': refused, 'ended': ended, 'read': read}))


main(json.loads(sys.argv[1]))
