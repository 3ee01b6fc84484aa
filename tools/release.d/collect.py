"""The files of a release."""
import gzip, json, re, shutil, subprocess, tempfile
from pathlib import Path

from components import Failure, collect as components_of, output_of
import cyclonedx, spdx


def source(root, version, commit, folder):
    """`git archive` gives all files the time of the commit, and gzip gets none: the same bytes each time."""
    done = subprocess.run(['git', 'archive', '--format=tar', f'--prefix=sluice-{version}/', commit], cwd=root, capture_output=True,
                          check=False)
    if done.returncode: raise Failure(f'git archive failed: {done.stderr.decode(errors="replace").strip()}')
    (folder / f'sluice-{version}.tar.gz').write_bytes(gzip.compress(done.stdout, 9, mtime=0))


def build(root):
    if subprocess.run([root / 'tools/package'], check=False).returncode: raise Failure('tools/package failed')
    return sorted((root / 'build/package/package').glob('*.deb'))


def package(root, version, file, folder):
    """Copies it, and adds what it consists of."""
    of_package = output_of('dpkg-deb', '-f', file, 'Version').strip()
    if not re.match(re.escape(version) + r'(-|$)', of_package): raise Failure(f'{file}: a package of {of_package}, not of {version}')
    shutil.copyfile(file, folder / file.name)
    bills = [file.with_suffix(f'.{kind}.json') for kind in ('spdx', 'cdx')]
    if all(bill.is_file() for bill in bills):
        for bill in bills: shutil.copyfile(bill, folder / bill.name)
        return
    with tempfile.TemporaryDirectory() as name:
        output_of('dpkg-deb', '-x', file, name)
        program = Path(name, 'usr/bin/sluice')
        try: product = components_of(root, program)
        except Failure as failure:
            raise Failure(f'{file}: its program does not run here ({failure}); run there: dpkg-deb -x {file.name} . && '
                          f'tools/sbom --binary usr/bin/sluice --output ., and put the files here as {bills[0]} and {bills[1]}') from failure
        if product.version != version: raise Failure(f'{file}: its program says {product.version}, not {version}')
        for bill, document in zip(bills, (spdx.document(product), cyclonedx.document(product))):
            (folder / bill.name).write_text(json.dumps(document, indent=1) + '\n', encoding='utf-8')
