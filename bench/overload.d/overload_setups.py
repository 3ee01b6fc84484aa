"""The overloaded proxies: how each is configured. A function per proxy: Setup -> text of its file.

Each forwards all requests to one origin, on a port for HTTP/1.1 and on one for HTTP/2 without TLS, with one worker. All
else has its default value, except for the number of connections, and what a comment names.
"""
import json
from dataclasses import dataclass

from configurations import nginx_head
from machine import LOCAL

SMALL = ' '.join(['hello world'] * 10) + '\n'          # 120 bytes.
LARGE_FILE, LARGE_MIB = 'large', 4
LOW, NORMAL = '/low', '/normal'                        # Both have the body SMALL.


@dataclass(frozen=True)
class Setup:
    ports: tuple                                       # Of the proxy: HTTP/1.1, HTTP/2.
    origin: int
    connections: int                                   # The limit of connections.
    refuse: str = 'normal'                             # Sluice: the highest priority of requests that may be refused, or none.
    memory_limit: int = 0                              # Sluice: where there is no cgroup, in bytes.


def folders(name):
    users = ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi')
    return ' '.join(f'{user}_temp_path {name}_{user};' for user in users)


def nginx(setup):
    # Otherwise it closes the connection to the origin after each request.
    return nginx_head(setup.ports[0], setup.connections).replace('stderr;', 'stderr crit;') + f'''http {{
  access_log off; keepalive_requests 100000000; {folders('proxy')}
  upstream origin {{ server {LOCAL}:{setup.origin}; keepalive 512; keepalive_requests 100000000; }}
  proxy_http_version 1.1; proxy_set_header Connection "";
  server {{
    listen {LOCAL}:{setup.ports[0]} backlog=4096; listen {LOCAL}:{setup.ports[1]} backlog=4096 http2;
    location / {{ proxy_pass http://origin; }}
  }}
}}
'''


def haproxy(setup):
    # Its timeouts have no defaults.
    return (f'global\n  nbthread 1\n  maxconn {setup.connections // 2 - 50}\n'
            f'defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n'
            f'frontend all\n  bind {LOCAL}:{setup.ports[0]} backlog 4096\n  bind {LOCAL}:{setup.ports[1]} backlog 4096 proto h2\n'
            f'  default_backend origin\nbackend origin\n  server origin {LOCAL}:{setup.origin}\n')


def envoy(setup):
    def address(port): return {'socket_address': {'address': LOCAL, 'port_value': port}}
    def typed(what, **fields): return {'@type': 'type.googleapis.com/envoy.extensions.filters.' + what, **fields}
    cluster = {'name': 'origin', 'connect_timeout': '5s', 'load_assignment': {'cluster_name': 'origin', 'endpoints': [
        {'lb_endpoints': [{'endpoint': {'address': address(setup.origin)}}]}]}}
    manager = {'name': 'envoy.filters.network.http_connection_manager', 'typed_config': typed(
        'network.http_connection_manager.v3.HttpConnectionManager', stat_prefix='all',
        http_filters=[{'name': 'envoy.filters.http.router', 'typed_config': typed('http.router.v3.Router')}],
        route_config={'virtual_hosts': [{'name': 'all', 'domains': ['*'], 'routes': [
            {'match': {'prefix': '/'}, 'route': {'cluster': 'origin'}}]}]})}
    return json.dumps({'static_resources': {
        'listeners': [{'name': str(port), 'address': address(port), 'filter_chains': [{'filters': [manager]}]}
                      for port in setup.ports], 'clusters': [cluster]}})


def sluice(setup):
    low = {'priority': 'low'} if setup.refuse != 'none' else {}
    refuse = {'delay': {'refuse': setup.refuse}} if low else {}
    routes = [{'match': {'path': {'prefix': LOW}}, **low, 'forward': 'origin'}, {'forward': 'origin'}]
    memory = {'memory': {'limit': setup.memory_limit}} if setup.memory_limit else {}
    # As for nginx. Besides, h2load 1.52 may never end when a connection does just when its time is over (nghttp2 issue 2250).
    http = {'http1': {'max_requests': 0}, 'routes': routes}
    return json.dumps({
        'workers': 1, 'overload': {**refuse, **memory},
        'limits': {'max_connections': setup.connections},
        'listeners': [{'name': f'h{version}', 'address': f'{LOCAL}:{port}', 'http': http}
                      for version, port in enumerate(setup.ports, 1)],
        'upstreams': [{'name': 'origin', 'endpoints': [f'{LOCAL}:{setup.origin}']}]})


CONFIGURATIONS = {'sluice': sluice, 'nginx': nginx, 'haproxy': haproxy, 'envoy': envoy}


def origin(ports, connections):
    """nginx's file: in HTTP/1.1 and in HTTP/2, so that it can also be measured directly. By default it writes up to 2 MiB
    at once for a connection, so that with many readers the origin itself would let the bystander wait for seconds."""
    small = ''.join(f'location {path} {{ return 200 "{SMALL}"; }} ' for path in (LOW, NORMAL))
    return nginx_head(ports[0], connections).replace('stderr;', 'stderr crit;') + f'''http {{
  access_log off; keepalive_requests 100000000; {folders('origin')}
  server {{
    listen {LOCAL}:{ports[0]} backlog=4096; listen {LOCAL}:{ports[1]} backlog=4096 http2;
    root .; sendfile on; sendfile_max_chunk 16k; {small}
  }}
}}
'''
