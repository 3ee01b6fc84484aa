"""Signatures by minisign, whose key is the only one: that of a file, and that of a DSSE envelope, which is plain Ed25519."""
import base64, json, subprocess, tempfile
from pathlib import Path

from components import Failure

PAYLOAD_TYPE = 'application/vnd.in-toto+json'


def encoded(payload):
    """What the signature of an envelope is of: DSSE's pre-authentication encoding."""
    kind = PAYLOAD_TYPE.encode()
    return b'DSSEv1 %d %s %d %s' % (len(kind), kind, len(payload), payload)


def key_name(eight_bytes): return f'{int.from_bytes(eight_bytes, "little"):X}'  # As minisign prints it.


class Key:
    """A secret key. minisign reads it, and asks for its password."""

    def __init__(self, file): self.file = file

    def run(self, *arguments):
        done = subprocess.run(['minisign', *map(str, arguments), '-s', str(self.file)], stdout=subprocess.DEVNULL, check=False)
        if done.returncode: raise Failure(f'minisign failed with {self.file}; is it a secret key, and the password right?')

    def sign(self, file, comment): self.run('-S', '-m', file, '-x', f'{file}.minisig', '-t', comment, '-c', 'minisign signature of sluice')

    def public_key(self, file):
        self.run('-R', '-p', file)
        return file

    def envelope(self, statement):
        payload = statement.encode()
        with tempfile.TemporaryDirectory() as name:
            file = Path(name, 'payload')
            file.write_bytes(encoded(payload))
            self.run('-S', '-l', '-m', file, '-x', f'{file}.minisig')  # -l: of the bytes, and not of their hash.
            signature = base64.b64decode(Path(f'{file}.minisig').read_text(encoding='utf-8').splitlines()[1])
        if signature[:2] != b'Ed' or len(signature) != 74: raise Failure('minisign made a signature of another kind than Ed25519')
        return json.dumps({'payloadType': PAYLOAD_TYPE, 'payload': base64.b64encode(payload).decode(),
                           'signatures': [{'keyid': key_name(signature[2:10]), 'sig': base64.b64encode(signature[10:]).decode()}]})
