"""The rows: origin, load and metrics of each."""
# ---- Origins

def http_origin(case, port):
    paths = ' '.join(f'{kind}_temp_path origin_{kind};' for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
    config = case.directory / 'origin.conf'
    config.write_text(NGINX_HEAD.format(port=port, connections=case.options.connections) + f"""http {{
  access_log off; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 600; default_type text/plain; {paths}
  server {{ listen {LOCAL}:{port} backlog=4096; location = /small {{ return 200 "{BODY}"; }} }}
}}\n""")
    return [find('nginx', APT + 'nginx'), '-e', 'stderr', '-p', '.', '-c', config]


def iperf_origin(_case, port): return [find('iperf3', APT + 'iperf3'), '-s', '-B', LOCAL, '-p', port]


# ---- Loads: each drives one case and returns its figures by the metrics' names

@dataclass
class Case:
    scenario: 'Scenario'
    subject: Subject
    options: argparse.Namespace
    directory: Path
    port: int = 0                                # where the load generator connects
    proxy: Optional[Child] = None                # None: direct
    notes: list = field(default_factory=list)

    def tool(self, *command):
        """Runs a load generator to its end and returns what it printed."""
        child = Child(command[0], command, self.options.cpus[1], self.directory)
        try: code = child.wait(self.options.dur + GRACE_S)
        except Failure as slow: raise Failure(f'{slow}\n{child.tail()}') from None
        finally: child.stop()
        if code: raise Failure(f'{child.name} failed, exit code {code}\n{child.tail()}')
        return child.text()

    def cpu_seconds(self, load):
        """Returns load()'s result, the proxy's CPU seconds during it (None: no proxy), and the seconds it took."""
        before, start = task_cpu_ns(self.proxy.pid) if self.proxy else {}, time.monotonic()
        result, seconds = load(), time.monotonic() - start
        if not self.proxy: return result, None, seconds
        after = task_cpu_ns(self.proxy.pid)
        if before.keys() - after.keys(): self.notes.append('a thread ended during the load: its CPU is not counted')
        return result, sum(ns - before.get(task, 0) for task, ns in after.items()) / 1e9, seconds


def iperf_load(*flags):
    def load(case):
        text, cpu, seconds = case.cpu_seconds(lambda: case.tool(
            'iperf3', '-c', LOCAL, '-p', case.port, '-t', case.options.dur, '-J', '--connect-timeout', 5000, *flags))
        gigabytes = json.loads(text[text.index('{'):])['end']['sum_received']['bytes'] / 1e9
        if not gigabytes: raise Failure('iperf3 moved no bytes')
        return {'cpu': cpu and cpu / gigabytes, 'throughput': gigabytes / seconds}
    return load


def duration_us(text):
    number, unit = re.fullmatch(r'([\d.]+)(us|ms|s|m)', text).groups()
    return float(number) * {'us': 1, 'ms': 1e3, 's': 1e6, 'm': 6e7}[unit]


def wrk_load(connections, *flags):
    def load(case):
        text, cpu, seconds = case.cpu_seconds(lambda: case.tool(
            'wrk', '-t1', f'-c{connections}', f'-d{case.options.dur}s', '--latency', '--timeout', '10s', *flags,
            f'http://{LOCAL}:{case.port}/small'))
        requests = int(re.search(r'(\d+) requests in', text)[1])
        bad = re.search(r'Socket errors.*|Non-2xx.*', text)
        if bad or not requests: raise Failure(f'wrk: {requests} requests. {bad[0] if bad else "None was answered."}')
        p50, p99 = (duration_us(re.search(rf'{p}%\s+(\S+)', text)[1]) for p in (50, 99))
        return {'cpu': cpu and cpu / requests * 1e6, 'throughput': requests / seconds, 'p50': p50, 'p99': p99}
    return load


def request_once(connection):
    connection.sendall(f'GET /small HTTP/1.1\r\nHost: {LOCAL}\r\n\r\n'.encode())
    answer = b''
    while not answer.endswith(BODY.encode()):
        more = connection.recv(65536)
        if not more: raise Failure(f'an idle connection was closed after {len(answer)} bytes of the answer')
        answer += more
    if not answer.startswith(b'HTTP/1.1 200 '): raise Failure(f'answered {answer[:40]!r}')


def open_connections(port, count):
    """Connects and makes one request on each; what was opened is closed again if one of them fails."""
    opened, end = [], time.monotonic() + IDLE_OPEN_S
    try:
        for _ in range(count):
            opened.append(socket.create_connection((LOCAL, port), 10))
            request_once(opened[-1])
            if time.monotonic() > end: raise Failure(f'{len(opened)} of {count} connections after {IDLE_OPEN_S} s')
    except (OSError, Failure) as error:
        close_connections(opened)
        raise Failure(f'connection {len(opened)} of {count}: {error}') from None
    return opened


def close_connections(connections):
    for connection in connections:               # with a reset, which leaves no TIME_WAIT behind
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        connection.close()


def wait_for_time_wait(limit, timeout=65):
    """Sockets left by earlier loads are slab too, and vanish a minute later: not within our window, please."""
    end = time.monotonic() + timeout
    while time_wait_sockets() > limit and time.monotonic() < end: time.sleep(0.5)


def idle_load(case):
    count, memory = case.options.idle_n, lambda: (pss_bytes(case.proxy.pid) if case.proxy else 0, slab_bytes())
    wait_for_time_wait(20000)
    close_connections(open_connections(case.port, 50))     # first-use allocations are not the connections' own
    time.sleep(1)
    (pss_before, slab_before), waiting = memory(), time_wait_sockets()
    connections = open_connections(case.port, count)
    try:
        time.sleep(2)
        pss, slab = memory()
        if abs(time_wait_sockets() - waiting) > count: case.notes.append('slab: older sockets went meanwhile, low by up to 10 %')
        for connection in connections[::max(1, count // 50)]: request_once(connection)   # still alive?
    except OSError as error: raise Failure(f'an idle connection does not answer any more: {error}') from None
    finally: close_connections(connections)
    return {'pss': (pss - pss_before) / count if case.proxy else None, 'slab': (slab - slab_before) / count,
            'base': pss_before / 1e6 if case.proxy else None}


def number(value):
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}'



# ---- Scenarios: a new row is a new entry here (and, for a new kind of port, a block in each configuration above)

@dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    target: Optional[float] = None               # ratio to the best peer, or to the peer `against`
    against: str = ''
    limit: Optional[float] = None                # or an absolute figure
    lower_is_better: bool = True
    in_table: bool = True

    def reference(self, medians, peers):
        figures = [medians[p] for p in peers if medians.get(p) is not None and self.against in ('', p)]
        return (min if self.lower_is_better else max)(figures, default=None)

    def goal(self):
        sign = '<=' if self.lower_is_better else '>='
        if self.limit is not None: return f'{sign} {number(self.limit)}'
        return f'{sign} {self.target:.2f} x {self.against or "best"}' if self.target else ''

    def verdict(self, value, reference):
        """PASS, by how much the target is missed, or nothing where there is no target or no peer."""
        goal = self.limit if self.limit is not None else self.target and reference and self.target * reference
        if not goal or goal <= 0: return ''
        excess = value / goal if self.lower_is_better else goal / max(value, 1e-9)
        return 'PASS' if excess <= 1 else f'short by {100 * (excess - 1):.1f} %'


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    kind: str                                    # of port: the configurations know how to serve it
    origin: Callable
    load: Callable
    metrics: tuple
    tools: tuple
    is_steady: bool = True                       # a load that runs for --dur, so that profiling it makes sense


def throughput(unit): return Metric('throughput', unit, lower_is_better=False, in_table=False)


BULK = (Metric('cpu', 'CPU s/GB', target=0.90), throughput('GB/s'))
SCENARIOS = {s.name: s for s in (
    Scenario('l4bulk', 'L4, 1 stream to the origin', 'l4', iperf_origin, iperf_load(), BULK, ('iperf3',)),
    Scenario('l4bulk_rev', 'L4, 1 stream from the origin', 'l4', iperf_origin, iperf_load('-R'), BULK, ('iperf3',)),
    Scenario('l4rps', 'L4, 120 B requests, 64 connections', 'l4', http_origin, wrk_load(64),
             (Metric('cpu', 'CPU us/request', target=0.85), throughput('requests/s')), ('wrk', 'nginx')),
    Scenario('l4lat', 'L4, latency, 4 connections', 'l4', http_origin, wrk_load(4),
             (Metric('p50', 'p50 us'), Metric('p99', 'p99 us', target=1.0)), ('wrk', 'nginx')),
    Scenario('idle', 'L4, idle keep-alive connections', 'l4', http_origin, idle_load,
             (Metric('pss', 'PSS B/connection', limit=512), Metric('slab', 'slab B/connection', target=1.05, against='nginx'),
              Metric('base', 'PSS MB before', in_table=False)), ('nginx',), is_steady=False),
    Scenario('l4conn', 'L4, connect + 1 request + close', 'l4', http_origin, wrk_load(64, '-H', 'Connection: close'),
             (Metric('cpu', 'CPU us/connection'), throughput('connections/s')), ('wrk', 'nginx')),
)}
