"""The rows of the table: each has an origin, a load that drives one subject, and metrics with their targets.

A new row is a new entry in SCENARIOS. A load gets a Case and returns its figures under the metrics' names (None: does
not apply, like CPU without a proxy), or raises Failure. A new kind of port is another one in configurations.py.
"""
import argparse, re, socket, time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

from configurations import FEATURES, H1, H2C, H2H2, HEADS, HTTPS, L4, TLS, Kind
from feature_load import expect_lines, feature_load
from first_response import VARIANTS, first_response_load
from idle import HalfRequest, Http1, Http2, Tunnel, idle_load
from loads import FIELDS, download_load, h2load, handshake_load, iperf3_load, upload_load, wrk_load
from machine import LOCAL, Child, Failure, task_cpu_ns
from open_loop import names, points
from origins import BODIES, http_origin, iperf3_origin, tunnel_origin
from subjects import Subject
from tls import CLIENT, client_context

GRACE_S = 30


@dataclass
class Case:
    """One turn of one subject in one scenario."""
    scenario: 'Scenario'
    subject: Subject
    options: argparse.Namespace
    directory: Path
    port: int = 0                                      # Where the load connects.
    proxy: Optional[Child] = None                      # None: direct.
    notes: list = field(default_factory=list)
    asked: int = 0                                     # Requests with a response, where a check needs the number.

    @property
    def is_tls(self): return self.scenario.kind.tls

    def url(self, path): return f'http{"s" if self.is_tls else ""}://{LOCAL}:{self.port}{path}'

    def connect_plain(self):
        plain = socket.create_connection((LOCAL, self.port), 10)
        # Otherwise a request waits for an ACK.
        if self.is_tls: plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain

    def connect(self, protocol):
        plain = self.connect_plain()
        if not self.is_tls: return plain
        if not self.scenario.kind.http: return client_context().wrap_socket(plain)
        secure = client_context(protocol).wrap_socket(plain)
        if secure.selected_alpn_protocol() != protocol: raise Failure(f'the proxy does not take {protocol} by ALPN')
        return secure

    def tool(self, *command):
        """Runs a load generator to its end and returns its output."""
        environment = {'OPENSSL_CONF': f'{self.options.directory}/{CLIENT}'} if self.is_tls else {}
        child = Child(command[0], command, self.options.cpus[1], self.directory, environment)
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

    def last_counters(self):
        """Ends sluice, which then prints its counters. Returns a function from a name to the sum of its series, of all
        or of those whose labels contain a text."""
        self.proxy.stop()
        found = re.findall(r'(?m)^sluice_(\w+)(\{.*\})? (\d+)$', self.proxy.text())
        if not found: raise Failure('sluice printed no counters')
        return lambda name, label='': sum(int(n) for series, labels, n in found if series == name and label in labels)


# ---- Checks of sluice's final counters

def copied_share(case):
    if not case.subject.is_sluice: return {'copied': None}
    counted = case.last_counters()
    forwarded = counted('endpoint_received_bytes_total') + counted('endpoint_sent_bytes_total')
    return {'copied': counted('copied_bytes_total') / forwarded}


def expect_full_handshakes(case):
    """The peers have the same clients, so sluice's counters apply to them too."""
    counted = case.last_counters() if case.subject.is_sluice else None
    if counted and (counted('tls_resumed_total') or not counted('tls_handshakes_total')):
        raise Failure(f'{counted("tls_resumed_total")} of {counted("tls_handshakes_total")} handshakes were resumed')
    return {}


def spoken(*versions, unrouted=0):
    """Checks that clients and the origin used these versions of HTTP and no other, and that all requests ended well,
    except for `unrouted` without a route. Returns the share of copied bytes."""
    def check(case):
        if not case.subject.is_sluice: return copied_share(case)
        counted, words = case.last_counters(), {1: 'http1_messages_total', 2: 'http2_streams_total'}
        for side, version in zip(('listener=', 'upstream='), versions):
            messages = {each: counted(word, side) for each, word in words.items()}
            if [each for each, count in messages.items() if count] != [version]:
                raise Failure(f'{side} HTTP/{version} was expected, and messages of each version were {messages}')
        ended = 'http_requests_ended_total'            # Requests for which the load no longer waits are reset.
        bad = counted(ended) - counted(ended, 'reason="ok"') - counted(ended, 'reason="client_reset"') - unrouted
        if bad: raise Failure(f'{bad} requests ended badly:\n{case.proxy.tail(80)}')
        return copied_share(case)
    return check


def spoken_and_logged(case):
    figures = spoken(1, 1, unrouted=1 if case.scenario.kind.features.routes else 0)(case)
    expect_lines(case)
    return figures


# ---- Metrics and rows

@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    target: Optional[float] = None                     # The ratio to the best peer, or to the peer `against`,
    against: str = ''
    limit: Optional[float] = None                      # or an absolute figure.
    lower_is_better: bool = True
    in_table: bool = True                              # Otherwise only in the progress lines and the JSON.

    def reference(self, medians, peers):
        """The divisor of sluice's figure: that of the best peer, not of `direct`."""
        figures = [medians[peer] for peer in peers if peer in medians and self.against in ('', peer)]
        return (min if self.lower_is_better else max)(figures, default=None)

    def goal(self):
        sign = '<=' if self.lower_is_better else '>='
        if self.limit is not None: return f'{sign} {self.limit:g}'
        return f'{sign} {self.target:.2f} x {self.against or "best"}' if self.target else ''

    def verdict(self, value, reference):
        """PASS, or by how much the target is missed; empty without a target, or without a peer."""
        goal = self.limit if self.limit is not None else (self.target or 0) * (reference or 0)
        if goal <= 0: return ''
        excess = value / goal if self.lower_is_better else goal / max(value, 1e-9)
        return 'PASS' if excess <= 1 else f'short by {100 * (excess - 1):.1f} %'


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    kind: Kind                                         # Of port.
    origin: Callable
    load: Callable
    metrics: tuple
    tools: tuple                                       # Programs; see PACKAGES.
    can_profile: bool = True
    most_rounds: int = 99                              # Fewer where a turn takes a minute and memory hardly varies.
    at_end: Optional[Callable] = None                  # More figures, which may end the proxy.
    base: str = ''                                     # The row to which it adds something; turns of both alternate.


PACKAGES = {'h2load': 'nghttp2-client'}                # Names of apt packages that differ from the program's.


def throughput(unit): return Metric('throughput', unit, lower_is_better=False, in_table=False)


def per_request(target=None): return (Metric('cpu', 'CPU us/request', target), throughput('requests/s'), BUSY)


def idle_metrics(limit=None):
    return (Metric('pss', 'PSS B/connection', limit=limit), Metric('base', 'MB PSS before', in_table=False),
            Metric('slab', 'slab B/connection', target=1.05, against='nginx'))


# Targets: the design's budget. The rows of idle connections come before those that leave many sockets in TIME_WAIT.
BUSY = Metric('busy', '% busy', in_table=False)         # The proxy; far below 100 the load was the bottleneck.
COPIED = Metric('copied', 'B copied/B', limit=0.01)
LATENCY = (Metric('p50', 'p50 us'), Metric('p99', 'p99 us', target=1.0))
FIRST = tuple(Metric(name, f'us, {name.replace("_", ", ")}', target=1.10, against='nginx') for name in VARIANTS)
BULK = (Metric('cpu', 'CPU s/GB', target=0.90), throughput('GB/s'))
TLS_BULK = (Metric('cpu', 'CPU s/GB', target=0.75), throughput('GB/s'))
OWN_PART = (Metric('own', 'own us/request'), Metric('kernel', 'kernel us/request'),
            Metric('share', '% own', in_table=False), throughput('requests/s'), BUSY)
SPLIT = ('h1', 'h2c', 'h2tls', 'h2h2')                 # Rows whose CPU time --user splits.
PLAIN = ('h1', 'l4rps')                                # Rows whose port --open-loop can use.
BARE = 'f_bare'
FEATURE_TITLES = {
    'bare': 'everything forwarded', 'hosts': '1,000 routes, of 500 hosts', 'paths': '1,000 routes, of any host',
    'headers': '100 rules for header fields', 'log': 'access log', 'log_json': 'access log, JSON',
    'observed': 'access log, JSON; traces of 1 %; metrics read each second',
    'all': 'routes of hosts, rules, log'}


def open_loop_metrics(rate):
    return (Metric('peak', 'requests/s, closed loop', lower_is_better=False, in_table=False), *(
        metric for point in points(rate) for metric in (
            *(Metric(name, f'{name.split()[0]} us, {point}') for name in names(point)),
            Metric(f'rate {point}', 'requests/s', in_table=False), Metric(f'busy {point}', '% busy', in_table=False))))


def feature_row(name, kind):
    return Scenario(f'f_{name}', FEATURE_TITLES[name], kind, http_origin, feature_load, per_request(),
                    ('wrk', 'nginx'), at_end=spoken_and_logged, base=BARE if name != 'bare' else '')


SCENARIOS = {scenario.name: scenario for scenario in (
    Scenario('l4bulk', '1 stream to the origin', L4, iperf3_origin, iperf3_load(), BULK, ('iperf3',)),
    Scenario('l4bulk_rev', '1 stream from the origin', L4, iperf3_origin, iperf3_load('-R'), BULK, ('iperf3',)),
    Scenario('l4rps', '120 B requests, 64 connections', L4, http_origin, wrk_load(64),
             per_request(0.85), ('wrk', 'nginx')),
    Scenario('l4lat', 'latency, 4 connections', L4, http_origin, wrk_load(4), LATENCY, ('wrk', 'nginx')),
    Scenario('idle', 'idle keep-alive connections', L4, http_origin, idle_load(),
             idle_metrics(512), ('nginx',), can_profile=False),
    Scenario('tlsbulk', 'TLS, 1 MiB bodies from the origin', TLS, http_origin, download_load,
             (*TLS_BULK, COPIED), ('wrk', 'nginx'), at_end=copied_share),
    Scenario('tlsbulk_up', 'TLS, 1 MiB bodies to the origin', TLS, http_origin, upload_load,
             (*TLS_BULK, COPIED), ('wrk', 'nginx'), at_end=copied_share),
    Scenario('tlsrps', 'TLS, 120 B requests, 64 connections', TLS, http_origin, wrk_load(64),
             per_request(), ('wrk', 'nginx')),
    Scenario('tlsidle', 'TLS, idle keep-alive connections', TLS, http_origin, idle_load(),
             idle_metrics(1024), ('nginx',), can_profile=False),
    Scenario('tlshalf', 'TLS, idle with half a record', TLS, http_origin, idle_load(HalfRequest),
             idle_metrics(1024), ('nginx',), can_profile=False),
    Scenario('h1tlsidle', 'TLS, HTTP/1.1, idle keep-alive connections', HTTPS, http_origin, idle_load(Http1),
             idle_metrics(1024), ('nginx',), can_profile=False, most_rounds=1, at_end=spoken(1, 1)),
    Scenario('h1idle', 'HTTP/1.1, idle keep-alive connections', H1, http_origin, idle_load(Http1),
             idle_metrics(512), ('nginx',), can_profile=False, at_end=spoken(1, 1)),
    Scenario('h2cidle', 'HTTP/2, idle connections', H2C, http_origin, idle_load(Http2),
             idle_metrics(), ('nginx',), can_profile=False, most_rounds=1, at_end=spoken(2, 1)),
    Scenario('h2idle', 'TLS, HTTP/2, idle connections', HTTPS, http_origin, idle_load(Http2),
             idle_metrics(1024), ('nginx',), can_profile=False, most_rounds=1, at_end=spoken(2, 1)),
    Scenario('wsidle', 'TLS, idle websockets', HTTPS, tunnel_origin, idle_load(Tunnel),
             idle_metrics(1024), (), can_profile=False, most_rounds=1, at_end=spoken(1, 1)),
    Scenario('h1', 'HTTP/1.1, 120 B, 64 connections', H1, http_origin, wrk_load(64),
             per_request(0.75), ('wrk', 'nginx'), at_end=spoken(1, 1)),
    Scenario('h1busy', 'HTTP/1.1, 120 B, 2,000 connections', H1, http_origin, wrk_load(2000),
             per_request(), ('wrk', 'nginx'), at_end=spoken(1, 1)),
    Scenario('h1pipe', 'HTTP/1.1, 120 B, 32 x 16 pipelined', H1, http_origin, h2load('http/1.1', 16, '/small', '--h1'),
             per_request(), ('h2load', 'nginx'), at_end=spoken(1, 1)),
    Scenario('h1lat', 'HTTP/1.1, latency, 4 connections', H1, http_origin, wrk_load(4),
             LATENCY, ('wrk', 'nginx'), at_end=spoken(1, 1)),
    Scenario('h1_64k', 'HTTP/1.1, 64 KiB from the origin', H1, http_origin, h2load('http/1.1', 1, '/medium', '--h1'),
             (*per_request(0.75), COPIED), ('h2load', 'nginx'), at_end=spoken(1, 1)),
    Scenario('h1_64k_up', 'HTTP/1.1, 64 KiB to the origin', H1, http_origin,
             h2load('http/1.1', 1, '/upload', '--h1', '-d', 'medium'),
             (*per_request(0.75), COPIED), ('h2load', 'nginx'), at_end=spoken(1, 1)),
    Scenario('h2c', 'HTTP/2, 120 B, 32 x 16 streams', H2C, http_origin, h2load('h2c', 16, '/small'),
             per_request(0.65), ('h2load', 'nginx'), at_end=spoken(2, 1)),
    Scenario('h2c_heads', 'HTTP/2, requests with 16 KiB of fields', HEADS, http_origin,
             h2load('h2c', 16, '/small', *FIELDS), per_request(), ('h2load', 'nginx'), at_end=spoken(2, 1)),
    Scenario('h2tls', 'TLS, HTTP/2, 120 B, 32 x 16 streams', HTTPS, http_origin, h2load('h2', 16, '/small'),
             per_request(0.65), ('h2load', 'nginx'), at_end=spoken(2, 1)),
    Scenario('h2h2', 'the same, HTTP/2 to the origin', H2H2, http_origin, h2load('h2', 16, '/small'),
             per_request(), ('h2load', 'nginx'), at_end=spoken(2, 2)),
    *(feature_row(name, kind) for name, kind in FEATURES.items()),
    Scenario('l4conn', 'connect, 1 request, close', L4, http_origin, wrk_load(64, '-H', 'Connection: close'),
             (Metric('cpu', 'CPU us/connection'), throughput('connections/s')), ('wrk', 'nginx')),
    Scenario('h1first', 'TLS, HTTP/1.1, first response', HTTPS, http_origin, first_response_load(Http1), FIRST, ('nginx',),
             can_profile=False, at_end=spoken(1, 1)),
    Scenario('h2first', 'TLS, HTTP/2, first response', HTTPS, http_origin, first_response_load(Http2), FIRST, ('nginx',),
             can_profile=False, at_end=spoken(2, 1)),
    Scenario('tlsconn', 'TLS handshake in full, 1 request, close', TLS, http_origin, handshake_load,
             (Metric('cpu', 'CPU us/connection', target=0.85),), ('h2load', 'nginx'), at_end=expect_full_handshakes),
)}
GROUPS = {group: [name for name, scenario in SCENARIOS.items() if scenario.kind.group == group]
          for group in ('l4', 'tls', 'http', 'features')}
