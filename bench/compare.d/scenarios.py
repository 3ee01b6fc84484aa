"""The rows of the table: each has an origin, a load that drives one subject, and metrics with their targets.

A new row is a new entry in SCENARIOS. A load gets a Case and returns its figures under the metrics' names (None: does
not apply, as CPU without a proxy), or raises Failure. A new kind of port also needs a block in each configuration.
"""
import argparse, json, re, socket, struct, time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from machine import LOCAL, Child, Failure, find_program, pss_bytes, slab_bytes, task_cpu_ns, time_wait_sockets
from subjects import Subject, nginx_head

BODY = ' '.join(['hello world'] * 10) + '\n'           # 120 bytes
GRACE_S, IDLE_OPEN_S, TIME_WAIT_S = 30, 120, 60
TIME_WAIT_BYTES = 256                                  # of slab, each


@dataclass
class Case:
    """One turn of one subject in one scenario."""
    scenario: 'Scenario'
    subject: Subject
    options: argparse.Namespace
    directory: Path
    port: int = 0                                      # where the load connects
    proxy: Optional[Child] = None                      # None: direct
    notes: list = field(default_factory=list)

    def tool(self, *command):
        """Runs a load generator to its end and returns what it printed."""
        child = Child(command[0], command, self.options.cpus[1], self.directory)
        try: code = child.wait(self.options.dur + GRACE_S)
        finally: child.stop()
        if code: raise Failure(f'{child.name} failed with exit code {code}\n{child.tail()}')
        return child.text()

    def cpu_seconds(self, load):
        """Returns load()'s result, the proxy's CPU seconds during it (None: no proxy), and the seconds it took."""
        before, start = task_cpu_ns(self.proxy.pid) if self.proxy else {}, time.monotonic()
        result, seconds = load(), time.monotonic() - start
        if not self.proxy: return result, None, seconds
        after = task_cpu_ns(self.proxy.pid)
        if before.keys() - after.keys(): self.notes.append('a thread ended meanwhile: its CPU time is not counted')
        return result, sum(ns - before.get(task, 0) for task, ns in after.items()) / 1e9, seconds


# ---- Origins: (case, port) -> command

def http_origin(case, port):
    users = ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi')
    folders = ' '.join(f'{user}_temp_path origin_{user};' for user in users)
    config = case.directory / 'origin.conf'
    config.write_text(nginx_head(port, case.options.connections) + f'''http {{
  access_log off; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600; {folders}
  server {{ listen {LOCAL}:{port} backlog=4096; location = /small {{ return 200 "{BODY}"; }} }}
}}
''')
    return [find_program('nginx', 'apt install nginx'), '-e', 'stderr', '-p', '.', '-c', config]


def iperf3_origin(_case, port): return ['iperf3', '-s', '-B', LOCAL, '-p', port]


# ---- Loads

def parse(pattern, text, program):
    found = re.search(pattern, text)
    if not found: raise Failure(f'{program} printed no {pattern!r}:\n{text[-2000:]}')
    return found[1]


def iperf3_load(*flags):
    def load(case):
        command = ['iperf3', '-J', '-c', LOCAL, '-p', case.port, '-t', case.options.dur, *flags]
        text, cpu_s, seconds = case.cpu_seconds(lambda: case.tool(*command))
        try: answer = json.loads(text)
        except ValueError: raise Failure(f'iperf3 printed no JSON:\n{text[-2000:]}') from None
        gigabytes = answer.get('end', {}).get('sum_received', {}).get('bytes', 0) / 1e9
        if 'error' in answer or not gigabytes: raise Failure(f'iperf3: {answer.get("error", "no bytes arrived")}')
        return {'cpu': cpu_s and cpu_s / gigabytes, 'throughput': gigabytes / seconds}
    return load


def wrk_load(connections, *flags):
    def load(case):
        url = f'http://{LOCAL}:{case.port}/small'
        command = ['wrk', '-t1', f'-c{connections}', f'-d{case.options.dur}s', '--latency', '--timeout', '10s', *flags]
        text, cpu_s, seconds = case.cpu_seconds(lambda: case.tool(*command, url))
        requests = int(parse(r'(\d+) requests in', text, 'wrk'))
        bad = re.search(r'Socket errors.*|Non-2xx.*', text)
        if bad or not requests: raise Failure(f'wrk: {requests} requests. {bad[0] if bad else "None was answered."}')
        p50, p99 = (duration_us(parse(rf'(?m)^\s+{percent}%\s+(\S+)', text, 'wrk')) for percent in (50, 99))
        return {'cpu': cpu_s and cpu_s / requests * 1e6, 'throughput': requests / seconds, 'p50': p50, 'p99': p99}
    return load


def duration_us(text):
    unit = text.lstrip('0123456789.')
    return float(text[:len(text) - len(unit)]) * {'us': 1, 'ms': 1e3, 's': 1e6, 'm': 60e6}[unit]


def idle_load(case):
    """Memory per connection that waits after one request. Those of 50 before it paid for what is allocated once."""
    count = case.options.idle_n
    wait_for_time_wait(20000)
    close_all(open_connections(case.port, 50))
    time.sleep(1)
    pss, slab, waiting = memory(case)
    connections = open_connections(case.port, count)
    try:
        time.sleep(2)
        pss_then, slab_then, waiting_then = memory(case)
        for connection in connections[::max(1, count // 50)]: request_once(connection)   # still alive?
    except OSError as error: raise Failure(f'an idle connection does not answer any more: {error}') from None
    finally: close_all(connections)
    vanished = (waiting - waiting_then) * TIME_WAIT_BYTES / count
    if abs(vanished) > 50: case.notes.append(f'slab is off by about {-vanished:+.0f} B: TIME_WAIT sockets came or went')
    return {'pss': (pss_then - pss) / count if case.proxy else None, 'slab': (slab_then - slab) / count,
            'base': pss / 1e6 if case.proxy else None}


def memory(case):
    return pss_bytes(case.proxy.pid) if case.proxy else 0, slab_bytes(), time_wait_sockets()


def wait_for_time_wait(limit):
    """Closed sockets are slab too and go a minute later: better not while we measure."""
    end = time.monotonic() + TIME_WAIT_S + 5
    while time_wait_sockets() > limit and time.monotonic() < end: time.sleep(0.5)


def open_connections(port, count):
    """Opens them one by one, with one request on each; closes them all if one fails."""
    connections, end = [], time.monotonic() + IDLE_OPEN_S
    try:
        for _ in range(count):
            connections.append(socket.create_connection((LOCAL, port), 10))
            request_once(connections[-1])
            if time.monotonic() > end: raise Failure(f'not all were open after {IDLE_OPEN_S} s')
    except (OSError, Failure) as error:
        close_all(connections)
        raise Failure(f'connection {len(connections)} of {count}: {error}') from None
    return connections


def request_once(connection):
    connection.sendall(f'GET /small HTTP/1.1\r\nHost: {LOCAL}\r\n\r\n'.encode())
    answer = b''
    while not answer.endswith(BODY.encode()):
        more = connection.recv(65536)
        if not more: raise Failure(f'closed by the other side after {len(answer)} bytes of the answer')
        answer += more
    if not answer.startswith(b'HTTP/1.1 200 '): raise Failure(f'answered {answer[:40]!r}')


def close_all(connections):
    for connection in connections:                     # with a reset, which leaves no TIME_WAIT at our side
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        connection.close()


# ---- Metrics and rows

@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    target: Optional[float] = None                     # ratio to the best peer, or to the peer `against`
    against: str = ''
    limit: Optional[float] = None                      # or an absolute figure
    lower_is_better: bool = True
    in_table: bool = True                              # else in the progress lines and the JSON only

    def reference(self, medians, peers):
        """What sluice is divided by: the best of the peers, not of `direct`."""
        figures = [medians[peer] for peer in peers if peer in medians and self.against in ('', peer)]
        return (min if self.lower_is_better else max)(figures, default=None)

    def goal(self):
        sign = '<=' if self.lower_is_better else '>='
        if self.limit is not None: return f'{sign} {self.limit:g}'
        return f'{sign} {self.target:.2f} x {self.against or "best"}' if self.target else ''

    def verdict(self, value, reference):
        """PASS, or by how much the target is missed; empty where there is no target, or no peer to compare with."""
        goal = self.limit if self.limit is not None else (self.target or 0) * (reference or 0)
        if goal <= 0: return ''
        excess = value / goal if self.lower_is_better else goal / max(value, 1e-9)
        return 'PASS' if excess <= 1 else f'short by {100 * (excess - 1):.1f} %'


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    kind: str                                          # of port
    origin: Callable
    load: Callable
    metrics: tuple
    tools: tuple                                       # apt packages of the same name hold them
    can_profile: bool = True


def throughput(unit): return Metric('throughput', unit, lower_is_better=False, in_table=False)


# Targets: the design's budget. `idle` comes before `l4conn`, which leaves many sockets in TIME_WAIT.
BULK = (Metric('cpu', 'CPU s/GB', target=0.90), throughput('GB/s'))
SCENARIOS = {scenario.name: scenario for scenario in (
    Scenario('l4bulk', '1 stream to the origin', 'l4', iperf3_origin, iperf3_load(), BULK, ('iperf3',)),
    Scenario('l4bulk_rev', '1 stream from the origin', 'l4', iperf3_origin, iperf3_load('-R'), BULK, ('iperf3',)),
    Scenario('l4rps', '120 B requests, 64 connections', 'l4', http_origin, wrk_load(64),
             (Metric('cpu', 'CPU us/request', target=0.85), throughput('requests/s')), ('wrk', 'nginx')),
    Scenario('l4lat', 'latency, 4 connections', 'l4', http_origin, wrk_load(4),
             (Metric('p50', 'p50 us'), Metric('p99', 'p99 us', target=1.0)), ('wrk', 'nginx')),
    Scenario('idle', 'idle keep-alive connections', 'l4', http_origin, idle_load,
             (Metric('pss', 'PSS B/connection', limit=512),
              Metric('slab', 'slab B/connection', target=1.05, against='nginx'),
              Metric('base', 'MB PSS before', in_table=False)), ('nginx',), can_profile=False),
    Scenario('l4conn', 'connect, 1 request, close', 'l4', http_origin, wrk_load(64, '-H', 'Connection: close'),
             (Metric('cpu', 'CPU us/connection'), throughput('connections/s')), ('wrk', 'nginx')),
)}
