"""Latency with an open loop: requests fall due at a constant rate, whatever becomes of the earlier ones.

wrk and h2load have closed loops: a client waits for its response before it sends the next request, so that a proxy that
stands still for a moment also holds back the requests that would have seen it (coordinated omission). h2load with --rps
is no way out: it keeps the rate on average, but counts a request from when it is sent, which is after it waited for its
connection's response. At 500 requests/s to a server that stood still for 0.3 s of each second, 4 seconds, h2load (1.52,
HTTP/1.1) had 4 responses that took more than 50 ms over one connection, 16 over 4 and 128 over 32: one for each
connection and stop. 500 were due while that long a wait remained; overload.d/open_loop.cc has 505. So that one is the
client here: it counts from when a request was due, and has spare connections for what a slow proxy leaves behind
(test/tree/open_loop_test.py).
"""
import dataclasses, json, time
from pathlib import Path

from machine import Child, Failure, compiled, idle_seconds

PROGRAM = Path(__file__).resolve().parents[1] / 'overload.d' / 'open_loop.cc'
SHARES = {'50 %': 0.5, '80 %': 0.8}                     # Of what the closed loop got.
QUANTILES = {'p50': 0.5, 'p90': 0.9, 'p99': 0.99, 'p99.9': 0.999}
# A response on its way may take a second longer; nothing is given up. What has no response then counts as a second.
CONNECTIONS, WARM_UP_S, GIVE_UP_MS, LATE_MS = 512, 1, 3_600_000, 1000
FULL = 0.9                                             # Of the load's CPU; beyond it the client waits for itself.


def points(rate):
    """What is offered: its name, and the part of the capacity (None: the rate)."""
    return {f'{rate:,.0f}/s': None} if rate else SHARES


def names(point): return [f'{quantile} {point}' for quantile in QUANTILES]


def open_loop(scenario, metrics, directory, rate=0):
    """The scenario with a second load after its own, at parts of its throughput or at `rate` requests/s, and with these
    metrics instead. The program is compiled in the directory."""
    program = compiled(PROGRAM, directory)

    def load(case):
        peak = scenario.load(case)['throughput']
        figures = {'peak': peak}
        for point, part in points(rate).items():
            figures[f'rate {point}'] = offered = peak * part if part else rate
            times, cpu_s, seconds = case.cpu_seconds(lambda: times_at(case, program, offered))
            figures[f'busy {point}'] = cpu_s and 100 * cpu_s / (seconds - LATE_MS / 1000)
            figures |= zip(names(point), quantiles(times))
        return figures
    return dataclasses.replace(scenario, load=load, metrics=metrics)


def times_at(case, program, rate):
    """The times of all requests, in us."""
    command = [program, case.port, f'{rate:.1f}', CONNECTIONS, 'spare', WARM_UP_S, case.options.dur, GIVE_UP_MS, LATE_MS, '/small']
    cpu = case.options.cpus[1]
    idle, start = idle_seconds(cpu), time.monotonic()
    child = Child('open_loop', command, cpu, case.directory)
    try:
        if child.wait(case.options.dur + 60): raise Failure(f'open_loop failed\n{child.tail()}')
        found = json.loads(child.text())[0]
    finally: child.stop()
    late_s = LATE_MS / 1000                            # At the end, without load.
    busy = 1 - (idle_seconds(cpu) - idle - late_s) / (time.monotonic() - start - late_s)
    if busy > FULL: case.notes.append(f'at {rate:,.0f}/s the CPU of the load was busy: latency is not the proxy\'s alone')
    times, due = found['times_us'], found['due']
    if found['broken'] or set(found['statuses']) - {'200'} or not times:
        raise Failure(f'open_loop: {due} requests, statuses {found["statuses"]}, {found["broken"]} broken')
    missing = due - len(times)
    if missing: case.notes.append(f'{missing} of {due} at {rate:,.0f}/s had no response after a second')
    return times + [LATE_MS * 1000] * missing


def quantiles(times):
    times = sorted(times)
    return [times[min(len(times) - 1, int(len(times) * part))] for part in QUANTILES.values()]
