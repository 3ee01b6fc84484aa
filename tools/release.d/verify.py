"""What a user checks of a release, with the public key alone."""
import base64, binascii, hashlib, json, re, subprocess, tempfile
from pathlib import Path

from components import Failure
from signing import PAYLOAD_TYPE, encoded, key_name

SUMS = 'SHA256SUMS'
ED25519_PREFIX = bytes.fromhex('302a300506032b6570032100')  # Of a public key in DER.


class Refused(Exception):
    """A file is not what was signed."""


def checksums(folder):
    """As sha256sum prints them."""
    files = sorted(path for path in folder.iterdir() if not path.name.startswith(SUMS))
    return ''.join(f'{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n' for path in files)


def folder(where, public_key):
    """-> lines for people."""
    if not (where / SUMS).is_file(): raise Failure(f'{where}: has no {SUMS}; expected a folder made by tools/release')
    try: done = subprocess.run(['minisign', '-V', '-q', '-p', str(public_key), '-m', str(where / SUMS)], capture_output=True, text=True,
                               check=False)
    except FileNotFoundError as error: raise Failure('minisign is missing; run: apt-get install minisign') from error
    if done.returncode: raise Refused(f'{where / SUMS}: not signed by {public_key}: {(done.stderr or done.stdout).strip()}')
    listed = (where / SUMS).read_text(encoding='utf-8')
    present = checksums(where)
    if listed != present:
        signed, found = (dict(reversed(line.split('  ', 1)) for line in text.splitlines()) for text in (listed, present))
        name = min((name for name in signed.keys() | found.keys() if signed.get(name) != found.get(name)), default=SUMS)
        raise Refused(f'{where / name}: ' + ('missing' if name not in found else f'not in {SUMS}' if name not in signed
                                             else 'not the file that was signed'))
    envelopes = sorted(where.glob('*.intoto.jsonl'))
    if len(envelopes) != 1: raise Refused(f'{where}: has {len(envelopes)} files *.intoto.jsonl, expected one')
    statement = opened(envelopes[0], public_key)
    compare(statement, where, envelopes[0])
    definition, builder = statement['predicate']['buildDefinition'], statement['predicate']['runDetails']['builder']['id']
    return [f'{len(listed.splitlines())} files are what {key_name(raw_key(public_key)[0])} signed',
            f'built by {builder} from {definition["resolvedDependencies"][0]["uri"]}',
            f'commit {definition["resolvedDependencies"][0]["digest"]["gitCommit"]}']


def raw_key(file):
    """A public key of minisign -> its name and its 32 bytes."""
    try: blob = base64.b64decode(file.read_text(encoding='utf-8').splitlines()[1], validate=True)
    except (IndexError, UnicodeDecodeError, binascii.Error): blob = b''
    if blob[:2] != b'Ed' or len(blob) != 42: raise Failure(f'{file}: not a public key of minisign')
    return blob[2:10], blob[10:]


def opened(file, public_key):
    """The statement in an envelope, if that key signed it."""
    name, key = raw_key(public_key)
    try:
        envelope = json.loads(file.read_text(encoding='utf-8'))
        payload = base64.b64decode(envelope['payload'], validate=True)
        signatures = [base64.b64decode(row['sig'], validate=True) for row in envelope['signatures'] if row['keyid'] == key_name(name)]
        kind = envelope['payloadType']
    except (ValueError, KeyError, TypeError) as error: raise Refused(f'{file}: not a DSSE envelope: {error}') from error
    if kind != PAYLOAD_TYPE: raise Refused(f'{file}: an envelope of {kind}, expected {PAYLOAD_TYPE}')
    if not any(is_signed(encoded(payload), signature, key) for signature in signatures):
        raise Refused(f'{file}: not signed by {public_key}')
    return json.loads(payload)


def is_signed(content, signature, key):
    der = base64.b64encode(ED25519_PREFIX + key).decode()
    with tempfile.TemporaryDirectory() as name:
        for part, data in (('content', content), ('signature', signature),
                           ('key', f'-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n'.encode())):
            Path(name, part).write_bytes(data)
        done = subprocess.run(['openssl', 'pkeyutl', '-verify', '-pubin', '-inkey', 'key', '-rawin', '-in', 'content', '-sigfile',
                               'signature'], cwd=name, capture_output=True, check=False)
    return done.returncode == 0


def compare(statement, where, file):
    """The provenance is of these files, of all of them."""
    if (statement.get('_type'), statement.get('predicateType')) != ('https://in-toto.io/Statement/v1', 'https://slsa.dev/provenance/v1'):
        raise Refused(f'{file}: not SLSA v1 provenance')
    subjects = {subject['name']: subject['digest']['sha256'] for subject in statement['subject']}
    present = {name: digest for digest, name in re.findall(r'(?m)^(\w+)  (.*)$', checksums(where)) if name != file.name}
    if subjects != present:
        raise Refused(f'{file}: its subjects are not the files here: {", ".join(sorted(set(subjects) ^ set(present))) or "other bytes"}')
