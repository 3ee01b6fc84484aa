"""What grows: each axis has sizes, and makes for a size the configuration of Sluice and the requests.

The load is the same at each size of an axis: the same rate, the same number of requests that differ. Only what is there
beside it grows. So a cost that does not depend on the size gives a flat line.
"""
import math, random
from dataclasses import dataclass, field
from typing import Callable

from machine import LOCAL

ASKED = 1000                                           # Hosts that requests name, at most; spread over all.
USED = 10                                              # Upstreams that are used, at most.
FIELDS = [f'x-field-{i}: value-{i}-{"abcdefghij" * 2}\r\n' for i in range(100)]


@dataclass
class Setup:
    """What one size needs."""
    config: str
    heads: list                                        # Of requests; they take turns.
    idle: int = 0                                      # Connections beside those of the load.
    warm_up: int = 200                                 # Requests before anything is counted.
    both_cpus: bool = False                            # Otherwise the proxy has one for itself.


@dataclass(frozen=True)
class Axis:
    name: str
    title: str                                         # Of the plot's axis.
    sizes: tuple
    build: Callable                                    # (size, listening port, origin's port) -> Setup
    most: float                                        # Growth of CPU time from first to last that --check accepts,
    most_instructions: float = 1.1                     # and of instructions, which no neighbor disturbs.
    most_counted: float = math.inf                     # The largest size at which instructions are counted.
    smoke: tuple = field(default=())

    def sizes_of(self, is_smoke): return self.smoke or (self.sizes[0], self.sizes[2]) if is_smoke else self.sizes


def address(index, port):
    """Each is an address of its own, of this machine."""
    return f'127.{1 + (index >> 16)}.{index >> 8 & 255}.{index & 255}:{port}'


def head(host=LOCAL, fields=''): return f'GET /small HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n'


def spread(size, count):
    """`count` numbers below size at most, in an order that no cache guesses, and always the same."""
    numbers = list(range(size)) if size <= count else random.Random(size).sample(range(size), count)
    random.Random(1).shuffle(numbers)
    return numbers


def config(listen, http, upstreams, workers=1):
    return (f'workers: {workers}\nlisteners:\n  - name: main\n    address: "{LOCAL}:{listen}"\n    max_connections: 19500\n'
            f'    http:\n      idle_timeout: 600s\n      http1: {{ max_requests: 0 }}\n{http}upstreams:\n{upstreams}')


def upstream(name, endpoints, more=''):
    quoted = ', '.join(f'"{each}"' for each in endpoints)
    return f'  - {{ name: {name}, pool: {{ max_requests: 0, idle_timeout: 600s }}, {more}endpoints: [ {quoted} ] }}\n'


def plain(listen, origin, **changes):
    forward = '      forward: origin\n'
    return config(listen, forward, upstream('origin', [f'{LOCAL}:{origin}']), **changes)


def routed(listen, targets, upstreams):
    """A route by exact host for each target, which is the name of an upstream. In few bytes: there may be 4 MiB."""
    routes = ''.join(f'{{match: {{host: h{i}.test}}, forward: {target}}},\n' for i, target in enumerate(targets))
    return config(listen, f'      routes: [\n{routes}      ]\n', upstreams)


def connections(size, listen, origin): return Setup(plain(listen, origin), [head()], idle=size)


def routes(size, listen, origin):
    text = routed(listen, ['origin'] * size, upstream('origin', [f'{LOCAL}:{origin}']))
    return Setup(text, [head(f'h{i}.test') for i in spread(size, ASKED)], warm_up=min(size, ASKED) + 200)


def upstreams(size, listen, origin):
    names = [f'u{i}' for i in range(size)]
    text = routed(listen, names, ''.join(upstream(name, [address(i, origin)]) for i, name in enumerate(names)))
    return Setup(text, [head(f'h{i}.test') for i in spread(size, USED)])


def endpoints(balance):
    """Each has an address and a connection of its own: the warm-up reaches all, or with random choices nearly all."""
    def build(size, listen, origin):
        one = upstream('origin', [address(i, origin) for i in range(size)], f'balance: {balance}, ')
        return Setup(config(listen, '      forward: origin\n', one), [head()], warm_up=(1 if balance == 'round_robin' else 2) * size + 200)
    return build


def workers(size, listen, origin): return Setup(plain(listen, origin, workers=size), [head()], both_cpus=True)


def fields(size, listen, origin):
    return Setup(plain(listen, origin), [head(fields=''.join(FIELDS[:size - 1]))])    # Host is one.


AXES = {axis.name: axis for axis in (
    Axis('connections', 'idle connections', (10, 100, 1000, 4000, 9000, 18_000), connections, 1.3, smoke=(10, 200)),
    # A configuration has 524,288 keys and values at most, and such a route has 7.
    Axis('routes', 'routes, each of an exact host', (1, 10, 100, 1000, 10_000, 70_000), routes, 1.5, 1.2),
    Axis('upstreams', 'upstreams, 10 of them in use', (10, 100, 1000, 10_000), upstreams, 1.3),
    # Each endpoint has a connection, so that sockets and their memory are cold when their turn comes. That costs the same
    # with each policy; what round_robin costs beyond it is its choice.
    Axis('endpoints', 'endpoints of one upstream, all in use', (1, 10, 100, 1000, 10_000), endpoints('round_robin'), 2.5, 1.2,
         most_counted=1000),                           # More than a million a request would take too many steps.
    Axis('least_request', 'endpoints of one upstream, least_request', (1, 10, 100, 1000, 10_000),
         endpoints('least_request'), 2.5, 1.2),
    # Steps are of one thread, so no instructions.
    Axis('workers', 'workers on two CPUs', (1, 2, 4, 8, 16), workers, 1.5, most_counted=0),
    # Of the fields of a request, which all have to be read and sent: this one has to grow.
    Axis('fields', 'fields of a request', (1, 10, 30, 100), fields, 4, 7),
)}
