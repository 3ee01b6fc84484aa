"""The load of the feature rows: a request for each route in turn; and a check that the features work."""
import contextlib, http.client, random, re, socket, threading, time
from pathlib import Path

from features import PROBE, SENT_BY_CLIENT, SENT_BY_ORIGIN, SET_IN_REQUESTS, SET_IN_RESPONSES, routes
from feature_parts import ADMIN, LOG, METRICS, SPANS_SENT
from loads import per_request, wrk
from machine import LOCAL, Failure
from origins import BODY, PROBED

SENT_WITHIN_S = 6                                      # Spans are collected for five seconds at most.
TRIED = 40                                             # Of the routes, before the load uses all of them.


def feature_load(case):
    script = case.directory / 'features.lua'
    script.write_text(wrk_script())
    with metrics_read(case):
        _, requests, cpu_s, seconds = wrk(case, 64, '/', try_features(case), '-s', script)
    case.asked = requests
    return per_request(requests, cpu_s, seconds)


@contextlib.contextmanager
def metrics_read(case):
    """Reads the proxy's metrics each second, where it has them; and checks at the end that it sent spans."""
    name, over, texts = 'sluice' if case.subject.is_sluice else case.subject.name, threading.Event(), []
    if not case.scenario.kind.features.observed or name not in METRICS:
        yield
        return

    def read():
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(case.directory / ADMIN))
            admin.sendall(f'GET {METRICS[name]} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'.encode())
            return b''.join(iter(lambda: admin.recv(65536), b'')).decode()

    def run():
        while not over.wait(1): texts.append(read())
    reader = threading.Thread(target=run)
    reader.start()
    try: yield
    finally:
        over.set()
        reader.join()
    time.sleep(SENT_WITHIN_S)
    texts.append(read())
    bad = [text for text in texts if not text.startswith('HTTP/1.1 200 ')]
    if bad: raise Failure(f'metrics: {bad[0]!r}')
    if name in SPANS_SENT and not re.search(rf'(?m)^{SPANS_SENT[name]}\S* [1-9]', texts[-1]): raise Failure('no span was sent')


def wrk_script():
    """In a random order, the first and the last as often as those in between."""
    asked = [(route.host, route.asked) for route in routes()]
    random.Random(1).shuffle(asked)
    both = ' '.join(f'["{name}"]="{value}",' for name, value in SENT_BY_CLIENT.items())
    targets = ''.join(f'{{"{host}","{path}"}},\n' for host, path in asked)
    return f'''local targets, requests, at = {{{targets}}}, {{}}, 0
local fields = {{{both}}}
function init()
  for i, target in ipairs(targets) do
    fields["Host"] = target[1]
    requests[i] = wrk.format("GET", target[2], fields)
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
'''


def try_features(case):
    """Returns the size of a response."""
    features, all_routes = case.scenario.kind.features, list(routes())
    with contextlib.closing(http.client.HTTPConnection(LOCAL, case.port, timeout=10)) as client:
        def ask(host, path):
            client.request('GET', path, headers={'Host': host, **SENT_BY_CLIENT})
            answer = client.getresponse()
            return answer, answer.read().decode()
        for route in (*all_routes[::len(all_routes) // TRIED], all_routes[-1]):
            answer, body = ask(route.host, route.asked)
            expect(body, BODY, f'the answer to {route.host}{route.asked}')
        found = {name for name, _ in answer.getheaders() if name in SET_IN_RESPONSES or name in SENT_BY_ORIGIN}
        expect(found, set(SET_IN_RESPONSES if features.headers else SENT_BY_ORIGIN), 'fields of the answer')
        sent = SET_IN_REQUESTS if features.headers else SENT_BY_CLIENT
        got = ','.join(sent.get(name, '') for name in PROBED)
        expect(ask('localhost', PROBE)[1], got, 'what the origin got')
        expect(ask('localhost', '/svc/nowhere')[0].status, 404 if features.routes else 200, 'status of another path')
    head = 'HTTP/1.1 200 OK\r\n' + ''.join(f'{name}: {value}\r\n' for name, value in answer.getheaders()) + '\r\n'
    return len(head) + len(body)


def expect(found, wanted, what):
    if found != wanted: raise Failure(f'{what}: {found!r} instead of {wanted!r}')


def expect_lines(case):
    """Checks that finished requests are in the log. Ends the proxy, which writes its buffered lines."""
    if not case.scenario.kind.features.log: return
    case.proxy.stop()
    log = case.proxy.log if case.subject.name == 'haproxy' else Path(case.directory, LOG)
    with log.open('rb') as lines: count = sum(1 for _ in lines)
    if count < case.asked: raise Failure(f'{count} lines in the log, for {case.asked} requests')
