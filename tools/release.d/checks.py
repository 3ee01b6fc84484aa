"""Whether the tree is the version that is asked for."""
import re, shutil

from components import Failure, output_of


def tree(root, version, is_draft):
    """-> the commit."""
    if not re.fullmatch(r'\d+\.\d+\.\d+', version): raise Failure(f'{version}: not a version; expected three numbers, as 1.2.3')
    header = (root / 'include/sluice/version.h').read_text(encoding='utf-8')
    of_header = '.'.join(re.findall(r'#define SLUICE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)', header))
    if of_header != version: raise Failure(f'include/sluice/version.h has {of_header}, not {version}; change one of them')
    top = re.search(r'(?m)^## (\S+) \((\S+)\)$', (root / 'CHANGELOG.md').read_text(encoding='utf-8'))
    if not top or top[1] != version: raise Failure(f'CHANGELOG.md: the first heading is not `## {version} (DATE)`')
    if not is_draft and not re.fullmatch(r'\d{4}-\d\d-\d\d', top[2]):
        raise Failure(f'CHANGELOG.md: {version} has no date but ({top[2]}); write the day of the release, or use --draft')
    changes = output_of('git', 'status', '--porcelain', where=root)
    if changes: raise Failure(f'the tree has changes that are not committed, {changes.split()[-1]} among them; commit them')
    commit = output_of('git', 'rev-parse', 'HEAD', where=root).strip()
    tags = output_of('git', 'tag', '--points-at', 'HEAD', where=root).split()
    if not is_draft and f'v{version}' not in tags:
        raise Failure(f'the commit {commit[:12]} has no tag v{version}; run: git tag -a v{version}, or use --draft')
    return commit


def options(given, folder):
    for name in ('builder', 'source'):
        if not re.fullmatch(r'[a-z][a-z0-9+.-]*:[^\s]+', getattr(given, name)):
            raise Failure(f'--{name} {getattr(given, name)}: not a URI, as https://example.org/releases')
    for file in [given.key, *given.package]:
        if not file.is_file(): raise Failure(f'{file}: no such file')
    if folder.exists(): raise Failure(f'{folder} exists; remove it, or name another folder with --output')
    for program in ('minisign', 'openssl', 'dpkg-deb'):
        if not shutil.which(program): raise Failure(f'{program} is missing; run: apt-get install minisign openssl dpkg')
