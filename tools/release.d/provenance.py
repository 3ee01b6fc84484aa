"""How the files came to be: an in-toto statement with SLSA provenance, https://slsa.dev/spec/v1.0/provenance."""
import datetime, hashlib, json, os, shutil, uuid

from components import Failure, debian_release, escaped, linked, output_of, packages_of

BUILD_TYPE = 'urn:sluice:tools-release:v1'             # docs/operating/supply-chain.md describes it.


def now(): return datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')


def statement(root, version, commit, folder, options, started):
    """The text of the statement. All files of the folder are its subjects."""
    built_here = not options.package
    subjects = [{'name': path.name, 'digest': {'sha256': hashlib.sha256(path.read_bytes()).hexdigest()}}
                for path in sorted(folder.iterdir())]
    reference = 'HEAD' if options.draft else f'refs/tags/v{version}'
    repository = options.source if options.source.startswith('git+') else f'git+{options.source}'
    dependencies = [{'uri': f'{repository}@{reference}', 'digest': {'gitCommit': commit}}, *libraries(root)]
    if built_here: dependencies += tools(root)
    return json.dumps({
        '_type': 'https://in-toto.io/Statement/v1',
        'subject': subjects,
        'predicateType': 'https://slsa.dev/provenance/v1',
        'predicate': {
            'buildDefinition': {
                'buildType': BUILD_TYPE,
                'externalParameters': {'source': repository, 'ref': reference, 'version': version},
                'internalParameters': {'packages': 'built by this run' if built_here else 'built before, on other machines'},
                'resolvedDependencies': dependencies,
            },
            'runDetails': {
                'builder': {'id': options.builder},
                'metadata': {'invocationId': f'urn:uuid:{uuid.uuid4()}', 'startedOn': started, 'finishedOn': now()},
            },
        },
    }, separators=(',', ':'))


def libraries(root):
    for component in linked(root):
        yield {'name': component.name, 'uri': component.purl, 'digest': {'sha256': component.sha256},
               'annotations': {'origin': component.origin}}


def tools(root):
    """Debian packages that build the program, with the compiler itself. Debian has no checksum of a package that is installed."""
    rows = [line.split('#')[0].split() for line in (root / 'tools/deps.d/packages').read_text(encoding='utf-8').splitlines()]
    names = {name for row in rows for name in row}
    programs = {os.path.realpath(path) for path in map(shutil.which, ('c++', 'cc', 'ld', 'ar', 'cmake', 'dpkg-deb')) if path}
    names |= set(packages_of(programs).values())
    try: listed = output_of('dpkg-query', '-W', '-f', '${Package}\t${Version}\t${Architecture}\n', *sorted(names))
    except Failure: return                             # Not all are here, or it is another system.
    for row in listed.splitlines():
        name, version, architecture = row.split('\t')
        yield {'name': name, 'uri': f'pkg:deb/debian/{name}@{escaped(version)}?arch={architecture}&distro=debian-{debian_release()}'}
