"""What a program consists of: itself, the libraries inside it, and the shared libraries that it loads."""
import datetime, hashlib, os, re, subprocess
from dataclasses import dataclass
from pathlib import Path

# By name of tools/deps.d/sources: SPDX license expression. The project is read from the row of its own release.
LICENSES = {'abseil': 'Apache-2.0', 'boringssl': 'Apache-2.0', 'liburing': 'MIT OR LGPL-2.1-only'}
OWN_LICENSE = 'Apache-2.0'


class Failure(Exception):
    """For the user."""


@dataclass(frozen=True)
class Component:
    name: str
    version: str
    purl: str                                          # A package URL, as vulnerability databases use them.
    is_linked: bool                                    # Inside the program; otherwise a shared library.
    license: str = ''                                  # Empty: not known here.
    sha256: str = ''                                   # Of the archive it was built from.
    origin: str = ''                                   # In words.
    repository: str = ''
    ecosystem: str = ''                                # Of OSV, with the name and the version there.
    source: str = ''
    source_version: str = ''


@dataclass(frozen=True)
class Product:
    version: str
    sha256: str
    time: str                                          # RFC 3339.
    components: tuple


def output_of(*command, where=None):
    try: done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, cwd=where)
    except OSError as error: raise Failure(f'{command[0]}: {error.strerror}') from error
    if done.returncode: raise Failure(f'{" ".join(map(str, command))} failed: {done.stderr.strip()}')
    return done.stdout


def collect(root, binary):
    version = output_of(binary.resolve(), 'version').split()[-1]
    components = sorted([*linked(root), *shared(binary)], key=lambda component: component.name)
    return Product(version, hashlib.sha256(binary.read_bytes()).hexdigest(), time_of(root), tuple(components))


def time_of(root):
    seconds = os.environ.get('SOURCE_DATE_EPOCH') or output_of('git', 'log', '-1', '--format=%ct', where=root)
    return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')


# ---- Inside the program

def linked(root):
    rows = [line.split('#')[0].split() for line in (root / 'tools/deps.d/sources').read_text(encoding='utf-8').splitlines()]
    deps = Path(os.environ.get('SLUICE_DEPS_DIR') or root / '.deps')
    for row in rows:
        if not row or row[1] != 'program' or row[3] != 'release': continue
        library, _, version, _, url, sha256, _ = row
        owner, tag = re.fullmatch(r'https://github\.com/([^/]+/[^/]+)/(?:archive/refs/tags|releases/download)/(.+)', url).groups()
        tag = tag.removesuffix('.tar.gz') if '/archive/' in url else tag.partition('/')[0]
        origin = f'the archive {url}'
        built = deps / f'{library}-{version}' / '.sluice-deps'
        if built.exists():                             # Not from the project's own archive.
            way, package, sha256 = built.read_text(encoding='utf-8').split()[3:6]
            origin = f'the {way} {package}'
        yield Component(library, version, f'pkg:github/{owner}@{escaped(tag)}', True, LICENSES.get(library, ''), sha256, origin,
                        f'https://github.com/{owner}')


# ---- Shared libraries

def shared(binary):
    """With the Debian package of each, whose version is asked for once for all."""
    paths = {os.path.realpath(path) for path in re.findall(r'(?m)(?:=> |^\s*)(/\S+) \(0x', output_of('ldd', binary))}
    of_package, release = packages_of(paths), debian_release()
    form = '${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n'
    for row in output_of('dpkg-query', '-W', '-f', form, *sorted(set(of_package.values()))).splitlines() if of_package else ():
        name, version, architecture, source, source_version = row.split('\t')
        purl = f'pkg:deb/debian/{name}@{escaped(version)}?arch={architecture}&distro=debian-{release}'
        yield Component(name, version, purl, False, origin=f'the Debian package {name}', ecosystem=f'Debian:{release}',
                        source=source, source_version=source_version)
    for path in sorted(paths - of_package.keys()):
        name = Path(path).name
        yield Component(name, 'unknown', f'pkg:generic/{name}', False, origin='a file of no package')


def escaped(version): return re.sub(r'[^A-Za-z0-9._~-]', lambda match: f'%{ord(match[0]):02X}', version)


def packages_of(paths):
    """Path -> Debian package, with its architecture. /lib may be a link to /usr/lib, and dpkg knows each file by one of the
    names only; it lists what it knows, and fails for the rest."""
    names = {name: path for path in paths for name in (path, path.removeprefix('/usr'))}
    try: found = subprocess.run(['dpkg-query', '-S', *names], capture_output=True, text=True, check=False).stdout
    except OSError: return {}
    return {names[name]: package for package, _, name in (line.partition(': ') for line in found.splitlines()) if name in names}


def debian_release():
    try: text = Path('/etc/os-release').read_text(encoding='utf-8')
    except OSError: return 'unknown'
    found = re.search(r'(?m)^VERSION_ID="?([^"\n]+)', text)
    return found[1] if found else 'unknown'
