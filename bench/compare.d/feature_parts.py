"""How each proxy is configured for the features of features.py: parts of its configuration, for configurations.py."""
import re

from features import PROBE, RULES_OF, Features, routes
from machine import LOCAL

LOG = 'access.log'                                     # In the proxy's directory; haproxy's is its output.
ADMIN = 'admin.sock'                                   # There, too: where metrics are read.
METRICS = {'nginx': '/', 'envoy': '/stats/prometheus', 'sluice': '/metrics'}
SPANS_SENT = {'envoy': 'envoy_tracing_opentelemetry_spans_sent', 'sluice': 'sluice_http_trace_spans_exported_total'}
SPANS = '/v1/traces'                                   # Of the origin, which is the collector, too.
JSON_KEYS = ('time', 'client', 'listener', 'protocol', 'method', 'authority', 'path', 'status', 'bytes_in', 'bytes_out',
             'duration', 'upstream_duration', 'upstream', 'endpoint', 'user_agent')


def json_line(values):
    """A template with the keys that all proxies log, for a proxy without a format of its own."""
    return '{' + ','.join(f'"{key}":"{value}"' for key, value in zip(JSON_KEYS, values, strict=True)) + '}'


# ---- nginx

NGINX_TEXT = ("'[$time_iso8601] \"$request\" $status $request_completion $request_length $bytes_sent $request_time "
              "$upstream_header_time $remote_addr:$remote_port $server_name $upstream_addr \"$host\" "
              "\"$http_user_agent\"'")
NGINX_JSON = "escape=json '" + json_line((
    '$time_iso8601', '$remote_addr', '$server_name', '$server_protocol', '$request_method', '$host', '$request_uri',
    '$status', '$request_length', '$bytes_sent', '$request_time', '$upstream_header_time', '$proxy_host',
    '$upstream_addr', '$http_user_agent')) + "'"


def nginx_servers(features, listen):
    """The content of its http block after settings that all rows have. Lines of the log are written together."""
    text = ('  proxy_set_header Connection ""; proxy_headers_hash_max_size 4096; server_names_hash_max_size 4096;\n'
            f'  log_format text {NGINX_TEXT};\n  log_format json {NGINX_JSON};\n')
    if features.headers:
        (_, in_requests, from_requests), (_, in_responses, from_responses) = RULES_OF
        text += ''.join(f'  proxy_set_header {name} "{value}";\n' for name, value in in_requests.items())
        text += ''.join(f'  proxy_set_header {name} "";\n' for name in from_requests)
        text += ''.join(f'  add_header {name} "{value}";\n' for name, value in in_responses.items())
        text += ''.join(f'  proxy_hide_header {name};\n' for name in from_responses)
    log = f'access_log {LOG} {features.log} buffer=64k flush=1s;' if features.log else ''
    forward = 'proxy_pass http://origin;'

    def server(name, locations, listen=re.sub(r'backlog=\d+', '', listen)):
        return f'  server {{ {listen} server_name {name}; {log}\n{locations}  }}\n'

    def location(route): return f'    location {"= " * route.is_exact}{route.path} {{ {forward} }}\n'
    nowhere = '    location / { return 404; }\n'
    otherwise = f'    location = {PROBE} {{ {forward} }}\n{nowhere}'
    if features.observed: text += f'  server {{ listen unix:{ADMIN}; stub_status; }}\n'
    if not features.routes: return text + server('_', f'    location / {{ {forward} }}\n', listen)
    if features.routes == 'paths': return text + server('_', ''.join(map(location, routes())) + otherwise, listen)
    by_host = {}
    for route in routes(): by_host.setdefault(route.host, []).append(location(route))
    return text + server('_', otherwise, listen) + ''.join(
        server(host, ''.join(locations) + nowhere) for host, locations in by_host.items())


# ---- haproxy

HAPROXY_JSON = json_line((
    '%tr', '%ci', '%f', '%HV', '%HM', '%[var(txn.host),json]', '%[var(txn.path),json]', '%ST', '%U', '%B', '%Ta', '%Tr',
    '%b', '%si:%sp', '%[var(txn.agent),json]'))


def haproxy(features):
    """Two parts of the file: for the section that listens; and for the beginning of the section with the server."""
    lines, section = [], ''
    if features.log: lines += ['log stdout format raw daemon', 'option httplog']
    if features.log == 'json':
        kept = (('host', 'req.hdr(host)'), ('path', 'pathq'), ('agent', 'req.hdr(user-agent)'))
        lines += [f'http-request set-var(txn.{name}) {of}' for name, of in kept]
        lines.append(f"log-format '{HAPROXY_JSON}'")
    if features.headers:
        for message, added, removed in RULES_OF:
            lines += [f'http-{message} set-header {name} {value}' for name, value in added.items()]
            lines += [f'http-{message} del-header {name}' for name in removed]
    if features.routes:
        key = 'base' if features.routes == 'hosts' else 'path'
        lines += [f'http-request set-var(txn.to) str(origin) if {{ path {PROBE} }}',
                  f'http-request set-var(txn.to) {key},map_str(exact.map) unless {{ var(txn.to) -m found }}',
                  f'http-request set-var(txn.to) {key},map_beg(prefix.map) unless {{ var(txn.to) -m found }}',
                  'http-request deny deny_status 404 unless { var(txn.to) -m found }', 'use_backend %[var(txn.to)]']
        section = 'backend origin\n  mode http\n  http-reuse always\n'
    return ''.join(f'  {line}\n' for line in lines), section


def haproxy_files(kind):
    """Its maps."""
    features = kind.features or Features()

    def lines(is_exact):
        return ''.join(f'{route.host if features.routes == "hosts" else ""}{route.path} origin\n'
                       for route in routes() if route.is_exact == is_exact)
    return {'exact.map': lines(True), 'prefix.map': lines(False)} if features.routes else {}


# ---- envoy

ENVOY_JSON = dict(zip(JSON_KEYS, (
    '%START_TIME%', '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%', '%FILTER_CHAIN_NAME%', '%PROTOCOL%', '%REQ(:METHOD)%',
    '%REQ(:AUTHORITY)%', '%REQ(:PATH)%', '%RESPONSE_CODE%', '%BYTES_RECEIVED%', '%BYTES_SENT%', '%DURATION%',
    '%RESPONSE_DURATION%', '%UPSTREAM_CLUSTER%', '%UPSTREAM_HOST%', '%REQ(USER-AGENT)%'), strict=True))


def envoy_routes(features):
    """A route_config."""
    def route(match): return {'match': match, 'route': {'cluster': 'origin', 'timeout': '0s'}}
    def match(each): return route({'path' if each.is_exact else 'prefix': each.path})
    def host(name, domain, taken): return {'name': name, 'domains': [domain], 'routes': taken}
    probe, by_host = route({'path': PROBE}), {}
    for each in routes(): by_host.setdefault(each.host, []).append(match(each))
    hosts = {'': [host('all', '*', [route({'prefix': '/'})])],
             'paths': [host('all', '*', [*map(match, routes()), probe])],
             'hosts': [host(name, name, taken) for name, taken in by_host.items()] + [host('all', '*', [probe])]}
    config = {'virtual_hosts': hosts[features.routes]}
    if features.headers:
        for message, added, removed in RULES_OF:
            config[f'{message}_headers_to_add'] = [
                {'header': {'key': name, 'value': value}, 'append_action': 'OVERWRITE_IF_EXISTS_OR_ADD'}
                for name, value in added.items()]
            config[f'{message}_headers_to_remove'] = list(removed)
    return config


def envoy_log(features):
    """Of an HttpConnectionManager."""
    if not features.log: return {}
    log = {'@type': 'type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog', 'path': LOG}
    if features.log == 'json': log['log_format'] = {'json_format': ENVOY_JSON}
    return {'access_log': [{'name': 'envoy.access_loggers.file', 'typed_config': log}]}


def envoy_tracing(features, collector):
    """Of an HttpConnectionManager."""
    if not features.observed: return {}
    to = {'uri': f'http://{LOCAL}:{collector}{SPANS}', 'cluster': 'origin', 'timeout': '5s'}
    provider = {'@type': 'type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig', 'service_name': 'envoy',
                'http_service': {'http_uri': to}}
    return {'tracing': {'provider': {'name': 'envoy.tracers.opentelemetry', 'typed_config': provider},
                        'random_sampling': {'value': 1}}}


def envoy_admin(features):
    return {'admin': {'address': {'pipe': {'path': ADMIN}}}} if features.observed else {}


# ---- sluice

def sluice_http(features):
    """Of a listener's `http`. Without a log, rules and routes, everything is forwarded."""
    http = {}
    if features.log: http['access_log'] = {'file': LOG, 'format': 'json'} if features.log == 'json' else LOG
    if features.observed:
        http |= {'trace_context': 'make', 'tracing': {'to': 'origin', 'sample': 0.01, 'path': SPANS}}
    if features.headers:
        for message, added, removed in RULES_OF:
            http[f'{message}_headers'] = [{'name': name, 'set': value} for name, value in added.items()] + [
                {'name': name, 'remove': True} for name in removed]
    if not features.routes: return http | {'forward': 'origin'}

    def match(route):
        host = {'host': route.host} if features.routes == 'hosts' else {}
        return host | {'path': {'exact' if route.is_exact else 'prefix': route.path}}
    matches = [*map(match, routes()), {'path': {'exact': PROBE}}]
    return http | {'routes': [{'match': each, 'forward': 'origin'} for each in matches]}


def sluice_admin(features): return f'admin: {{ address: "unix:{ADMIN}" }}\n' if features.observed else ''
