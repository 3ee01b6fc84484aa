"""Where two files differ: sections and texts of programs, members of archives, files of Debian packages."""
import hashlib, re, subprocess, tempfile
from pathlib import Path

MOST = 8                                               # Lines for each kind.


def sha256(path): return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def differences(first, second):
    """Lines for people; none where the bytes are the same."""
    if sha256(first) == sha256(second): return []
    head = Path(first).read_bytes()[:8]
    lines = []
    if head.startswith(b'\x7fELF'): lines = of_sections(first, second)
    elif Path(first).suffix == '.deb': lines = of_parts(first, second, unpack_package)
    elif head == b'!<arch>\n': lines = of_parts(first, second, unpack_archive)
    return lines or [f'{first}: differs from byte {first_difference(first, second)} on']


def first_difference(first, second):
    a, b = Path(first).read_bytes(), Path(second).read_bytes()
    return next((at for at, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def output_of(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, check=True).stdout


# ---- Programs and objects

def sections(path):
    """name -> bytes. Sections without bytes are left out."""
    found, whole = {}, Path(path).read_bytes()
    for line in output_of('readelf', '-SW', path).decode().splitlines():
        match = re.match(r'\s*\[\s*\d+\]\s+(\S+)\s+(\S+)\s+[0-9a-f]+\s+([0-9a-f]+)\s+([0-9a-f]+)\s', line)
        if match and match[2] not in ('NULL', 'NOBITS'):
            found[match[1]] = whole[int(match[3], 16):int(match[3], 16) + int(match[4], 16)]
    return found


def of_sections(first, second):
    a, b = sections(first), sections(second)
    changed = [name for name in sorted(a | b) if a.get(name) != b.get(name)]
    lines = [f'section {name}: {len(a.get(name, b""))} and {len(b.get(name, b""))} bytes' for name in changed]
    found = [line for name in changed if not name.startswith('.gnu.lto_')  # Those are compressed.
             for line in of_texts(name, texts(a.get(name, b'')), texts(b.get(name, b'')))]
    return lines[:MOST] + found


def texts(content): return {text.decode() for text in re.findall(rb'[\x20-\x7e]{6,}', content)}


def of_texts(name, a, b):
    found = [(text, 'first') for text in sorted(a - b)] + [(text, 'second') for text in sorted(b - a)]
    paths_first = sorted(found, key=lambda pair: '/' not in pair[0])
    return [f'  only in {which}, {name}: {text[:150]}' for text, which in paths_first[:MOST]]


# ---- Archives and packages

def unpack_archive(path, folder):
    subprocess.run(['ar', 'x', '--output', str(folder), str(path)], check=True)


def unpack_package(path, folder):
    (folder / 'parts').mkdir()
    subprocess.run(['ar', 'x', '--output', str(folder / 'parts'), str(path)], check=True)
    for part in sorted((folder / 'parts').glob('*.tar*')):
        name = part.name.partition('.')[0]
        (folder / name).mkdir()
        (folder / f'{name}.list').write_bytes(output_of('tar', '--full-time', '--numeric-owner', '-tvf', part))
        subprocess.run(['tar', '-xf', str(part), '-C', str(folder / name)], check=True)


def of_parts(first, second, unpack):
    with tempfile.TemporaryDirectory() as name:
        a, b = Path(name, 'a'), Path(name, 'b')
        for path, folder in ((first, a), (second, b)):
            folder.mkdir()
            unpack(Path(path).resolve(), folder)
        files = [{path.relative_to(folder) for path in folder.rglob('*') if path.is_file()} for folder in (a, b)]
        lines = [f'only in one of them: {path}' for path in sorted(files[0] ^ files[1])]
        for path in sorted(files[0] & files[1]):
            if sha256(a / path) == sha256(b / path): continue
            lines.append(f'{path} differs')
            if path.suffix == '.list':
                rows = [(folder / path).read_text(encoding='utf-8').splitlines() for folder in (a, b)]
                lines += [f'  first {x!r}, second {y!r}' for x, y in zip(*rows) if x != y][:MOST]
            elif not path.name.endswith(('.xz', '.gz', '.zst')):
                lines += [f'  {line}' for line in differences(a / path, b / path)]
        return lines
