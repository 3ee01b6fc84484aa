"""The loads that run while a subject's CPU time is measured: programs that are run to their end, and their output.

Each load fails unless every response was right: its status, and the bytes of its body.
"""
import json, random, re, socket

from idle import Http1
from machine import LOCAL, Failure
from origins import BODIES, BODY
from tls import CIPHER

HANDSHAKES_PER_S = 1000                                # What a client on one CPU can do beside the origin.
# Connections to the origin, at most, for each simultaneous request.
REUSE = 3


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


def per_request(requests, cpu_s, seconds):
    return {'cpu': cpu_s and cpu_s / requests * 1e6, 'throughput': requests / seconds,
            'busy': cpu_s and 100 * cpu_s / seconds}


# ---- wrk

def wrk(case, connections, path, answer_bytes, *flags):
    """Returns its output, the number of responses, the proxy's CPU seconds, and the duration in seconds."""
    command = ['wrk', '-t1', f'-c{connections}', f'-d{case.options.dur}s', '--latency', '--timeout', '10s', *flags]
    text, cpu_s, seconds = case.cpu_seconds(lambda: case.tool(*command, case.url(path)))
    requests = int(parse(r'(\d+) requests in', text, 'wrk'))
    bad = re.search(r'Socket errors.*|Non-2xx.*', text)
    if bad or not requests: raise Failure(f'wrk: {requests} requests. {bad[0] if bad else "None was answered."}')
    read = size_bytes(parse(r'requests in \S+ (\S+) read', text, 'wrk'))
    if answer_bytes and not 0.97 < read / requests / answer_bytes < 1.03:
        raise Failure(f'wrk: {requests} answers of {read / requests:.0f} bytes, instead of {answer_bytes}')
    return text, requests, cpu_s, seconds


def wrk_load(connections, *flags):
    def load(case):
        with Http1(case) as probe: answer_bytes = probe.request()
        text, requests, cpu_s, seconds = wrk(case, connections, '/small', answer_bytes, *flags)
        p50, p99 = (duration_us(parse(rf'(?m)^\s+{percent}%\s+(\S+)', text, 'wrk')) for percent in (50, 99))
        return per_request(requests, cpu_s, seconds) | {'p50': p50, 'p99': p99}
    return load


def download_load(case): return large_bodies(case, '/large', BODIES['/large'])


def upload_load(case):
    script = case.directory / 'upload.lua'
    script.write_text(f'wrk.method = "POST"\nwrk.body = string.rep("x", {BODIES["/large"]})\n')
    return large_bodies(case, '/upload', None, '-s', script)


def large_bodies(case, path, answer_bytes, *flags):
    # A single connection would wait between two bodies.
    _, requests, cpu_s, seconds = wrk(case, 4, path, answer_bytes, *flags)
    gigabytes = requests * BODIES['/large'] / 1e9
    return {'cpu': cpu_s and cpu_s / gigabytes, 'throughput': gigabytes / seconds}


def duration_us(text):
    unit = text.lstrip('0123456789.')
    return float(text[:len(text) - len(unit)]) * {'us': 1, 'ms': 1e3, 's': 1e6, 'm': 60e6}[unit]


def size_bytes(text):
    unit = text.lstrip('0123456789.')
    return float(text[:len(text) - len(unit)]) * {'B': 1, 'KB': 1 << 10, 'MB': 1 << 20, 'GB': 1 << 30}[unit]


# ---- h2load

FIELDS = [flag for i in range(4) for flag in ('-H', f'x-token-{i}: {random.Random(i).randbytes(2048).hex()}')]


def handshake_load(case):
    """A fresh client for each connection: wrk would resume its sessions."""
    count, step_ms = case.options.dur * HANDSHAKES_PER_S, 10
    command = ['h2load', '--h1', f'--tls13-ciphers={CIPHER}', '-t1', '-n', count, '-c', count,
               '-r', HANDSHAKES_PER_S * step_ms // 1000, f'--rate-period={step_ms}ms', case.url('/small')]
    text, cpu_s, _ = case.cpu_seconds(lambda: case.tool(*command))
    good = int(parse(r'status codes: (\d+) 2xx', text, 'h2load'))
    if good != count: raise Failure(f'h2load: {good} of {count} requests were answered with 2xx')
    return {'cpu': cpu_s and cpu_s / count * 1e6}


def h2load(protocol, streams, path, *flags):
    """32 connections with `streams` requests at once on each."""
    def load(case):
        connections, before = 32, origin_connections(case)
        command = ['h2load', '-t1', f'-c{connections}', f'-m{streams}', f'-D{case.options.dur}',
                   f'--tls13-ciphers={CIPHER}', *flags, case.url(path)]
        text, cpu_s, seconds = case.cpu_seconds(lambda: case.tool(*command))
        if case.is_tls: parse(f'(TLSv1.3)\nCipher: {CIPHER}', text, 'h2load')
        parse(f'Application protocol: ({protocol})\n', text, 'h2load')
        requests = responses(text, BODIES.get(path, len(BODY)), connections * streams)
        opened = origin_connections(case) - before
        if opened > REUSE * connections * streams: case.notes.append(f'{opened} connections to the origin')
        return per_request(requests, cpu_s, seconds)
    return load


def responses(text, size, unfinished):
    """The number of responses, if all were right; `unfinished` were in progress when the time was over."""
    done, heads = (int(parse(rf'(\d+) {word}', text, 'h2load')) for word in ('succeeded', '2xx'))
    data = int(parse(r'\((\d+)\) data', text, 'h2load'))
    bad = re.search(r'[1-9]\d* (failed|errored|timeout|[345]xx)', text)
    most = done + unfinished
    if bad or not done or not done <= heads <= most or not done * size <= data <= most * size:
        raise Failure(f'h2load: not {done} answers with 2xx and {size} bytes\n{text[-1000:]}')
    return done


def origin_connections(case):
    """The number of connections made so far."""
    with socket.socket(socket.AF_UNIX) as status:
        status.connect(f'{case.directory}/origin.sock')
        status.sendall(b'GET /status HTTP/1.0\r\n\r\n')
        text = b''.join(iter(lambda: status.recv(4096), b'')).decode()
    return int(parse(r'requests\s+(\d+)', text, 'nginx'))
