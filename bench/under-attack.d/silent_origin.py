"""An origin that accepts and reads, and never responds. Run as silent_origin.py HOST PORT; at its end prints JSON: the
number of `connections`, and the number of received `bytes`."""
import json, select, signal, socket, sys


def serve(host, port, counts):
    buffer, connections, epoll = bytearray(1 << 18), {}, select.epoll()
    listener = socket.create_server((host, port), backlog=4096)
    listener.setblocking(False)
    epoll.register(listener, select.EPOLLIN)
    is_full = False                                    # It has as many open files as allowed.
    while True:
        for number, _ in epoll.poll():
            if number == listener.fileno():
                try: connection = listener.accept()[0]
                except BlockingIOError: continue
                except OSError:
                    is_full = True
                    epoll.unregister(listener)
                    continue
                connection.setblocking(False)
                connections[connection.fileno()] = connection
                epoll.register(connection, select.EPOLLIN)
                counts['connections'] += 1
                continue
            try: size = connections[number].recv_into(buffer)
            except BlockingIOError: continue
            except ConnectionError: size = 0
            counts['bytes'] += size
            if size: continue
            connections.pop(number).close()
            if is_full:
                is_full = False
                epoll.register(listener, select.EPOLLIN)


def leave(*_): raise SystemExit


counts = {'connections': 0, 'bytes': 0}
signal.signal(signal.SIGTERM, leave)
try: serve(sys.argv[1], int(sys.argv[2]), counts)
finally: print(json.dumps(counts))
