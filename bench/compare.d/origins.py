"""The servers behind the proxies, on the load's CPU: (case, port) -> command."""
import sys
from pathlib import Path

from configurations import UPSTREAM_IDLE, nginx_head, nginx_http
from feature_parts import SPANS
from features import PROBE, REMOVED_FROM_REQUESTS, SENT_BY_ORIGIN, SET_IN_REQUESTS
from machine import LOCAL, find_program

BODY = ' '.join(['hello world'] * 10) + '\n'           # Of /small: 120 bytes.
BODIES = {'/medium': 65536, '/large': 1 << 20}         # Files of zeros.
ARRIVED = r'^(6[5-7]|104[89]|105\d)\d\d\d$'          # The bytes of such an upload, with its head.
PROBED = (*list(SET_IN_REQUESTS)[::12], *list(REMOVED_FROM_REQUESTS)[::4])   # The fields that are checked.
TUNNEL = Path(__file__).with_name('tunnel_origin.py')


def http_origin(case, port):
    gone = ' '.join(f'add_header {name} {value};' for name, value in SENT_BY_ORIGIN.items())
    probed = ','.join('$http_' + name.replace('-', '_') for name in PROBED)
    config, http2 = case.directory / 'origin.conf', ' http2' if case.scenario.kind.h2_origin else ''
    # Unless it forwards, here to itself, it would respond to an upload before all of it has arrived.
    config.write_text(nginx_head(port, case.options.connections) + f'''http {{
{nginx_http('origin')}
  sendfile on; tcp_nopush on; open_file_cache max=10; client_body_buffer_size {2 * max(BODIES.values())};
  http2_max_concurrent_streams 1024;
  upstream itself {{ server unix:origin.sock; keepalive {UPSTREAM_IDLE}; }}
  server {{
    listen {LOCAL}:{port} backlog=4096{http2}; listen unix:origin.sock; root {case.directory};
    location = /small {{ return 200 "{BODY}"; }}
    location /svc/ {{ {gone} return 200 "{BODY}"; }}
    location = {SPANS} {{ return 200; }}
    location = {PROBE} {{ return 200 "{probed}"; }}
    location = /upload {{
      proxy_pass http://itself/arrived; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_method GET; proxy_pass_request_body off; proxy_set_header Content-Length "";
      proxy_set_header Arrived $request_length;
    }}
    location = /arrived {{ if ($http_arrived !~ "{ARRIVED}") {{ return 400; }} return 200 "{BODY}"; }}
    location = /status {{ stub_status; }}
  }}
}}
''')
    for path, size in BODIES.items(): Path(f'{case.directory}{path}').write_bytes(bytes(size))
    return [find_program('nginx', 'apt install nginx'), '-e', 'stderr', '-p', '.', '-c', config]


def iperf3_origin(_case, port): return ['iperf3', '-s', '-B', LOCAL, '-p', port]


def tunnel_origin(_case, port): return [sys.executable, TUNNEL, LOCAL, port]
