"""Which entries of an OSV database (the schema of ossf.github.io/osv-schema, version 1) apply to a component."""
import json, re, subprocess, zipfile

from components import Failure


def entries(path):
    """Of a folder or a zip."""
    if path.is_dir():
        for file in sorted(path.rglob('*.json')): yield file.name, file.read_bytes()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith('.json'): yield name, archive.read(name)
    else: raise Failure(f'{path}: expected a folder or a zip of OSV entries')


def debian_before(one, other):
    """'0' is before all versions, as OSV has it."""
    if one == '0' or other == '0': return one == '0' and other != '0'
    return subprocess.run(['dpkg', '--compare-versions', one, 'lt', other], check=False, stderr=subprocess.DEVNULL).returncode == 0


def number(version):
    """The parts of a version that are numbers: of v1.2.3, release/v1.2.3 and lib-1.2.3 the same three."""
    found = re.search(r'\d+(?:[._]\d+)*', version)
    return tuple(int(part) for part in re.split(r'[._]', found[0])) if found else None


def number_before(one, other): return (number(one) or ()) < (number(other) or ())


def in_range(version, events, before):
    """Whether a version is affected, by the events of a range: introduced, and then fixed or last_affected."""
    affected = False
    for event in events:
        if 'introduced' in event and not before(version, event['introduced']): affected = True
        if 'fixed' in event and not before(version, event['fixed']): affected = False
        if 'last_affected' in event and before(event['last_affected'], version): affected = False
    return affected


def by_package(component, affected):
    package = affected.get('package', {})
    named = (package.get('ecosystem'), package.get('name'))
    if not component.ecosystem or named != (component.ecosystem, component.source): return None
    if component.source_version in affected.get('versions', ()): return 'yes'
    ranges = [each for each in affected.get('ranges', ()) if each.get('type') == 'ECOSYSTEM']
    hit = any(in_range(component.source_version, each.get('events', ()), debian_before) for each in ranges)
    return 'yes' if hit else 'no' if ranges or affected.get('versions') else 'unknown'


def by_repository(component, affected):
    """Commits cannot be compared here, so an entry that has nothing else is undecided."""
    def plain(url): return re.sub(r'(\.git)?/*$', '', url.lower())
    ranges, versions = affected.get('ranges', ()), affected.get('versions', ())
    if not component.repository or plain(component.repository) not in (plain(each.get('repo', '')) for each in ranges): return None
    if any(number(version) == number(component.version) for version in versions): return 'yes'
    semantic = [each for each in ranges if each.get('type') == 'SEMVER']
    if any(in_range(component.version, each.get('events', ()), number_before) for each in semantic): return 'yes'
    return 'no' if semantic or versions else 'unknown'


def applies(component, entry):
    """'yes', 'unknown', or 'no'."""
    found = {of(component, affected) for affected in entry.get('affected', ()) for of in (by_package, by_repository)}
    return 'yes' if 'yes' in found else 'unknown' if 'unknown' in found else 'no'


def reviewed(path):
    """(ID, component) -> reason."""
    rows = {}
    for line in path.read_text(encoding='utf-8').splitlines() if path.exists() else ():
        if not line.strip() or line.startswith('#'): continue
        parts = [part.strip() for part in line.split('|')]
        if len(parts) != 3 or not all(parts): raise Failure(f'{path}: expected ID | component | reason: {line}')
        rows[parts[0], parts[1]] = parts[2]
    return rows


def check(product, path, accepted):
    """Prints what applies. Returns the exit code."""
    known, count, found = reviewed(accepted), 0, []
    for name, text in entries(path):
        try: entry = json.loads(text)
        except ValueError as error: raise Failure(f'{path}: {name}: {error}') from error
        count += 1
        if entry.get('withdrawn'): continue
        for component in product.components:
            result = applies(component, entry)
            if result == 'no': continue
            reason = known.get((entry['id'], component.name))
            summary = entry.get('summary') or entry.get('details', '').split('\n')[0]
            verdict = 'applies' if result == 'yes' else 'cannot be decided by version; review it'
            if reason: verdict = f'accepted: {reason}'
            print(f'{entry["id"]} | {component.name} {component.version} | {verdict} | {summary[:100]}')
            if not reason: found.append(entry['id'])
    if count == 0: raise Failure(f'{path}: no OSV entry')
    print(f'{count} entries, {len(product.components)} components: {len(found)} to mend or to review')
    return 1 if found else 0
