"""Support for the TLS rows: one certificate for all proxies, and clients that use TLS 1.3 with AES-128-GCM."""
import functools, ssl
from pathlib import Path

from machine import Failure, find_program, output_of

CERTIFICATE = '../server.pem'                          # Key and certificate; a proxy runs one directory further down.
CLIENT = 'client.cnf'                                  # OpenSSL's defaults, set by $OPENSSL_CONF.
CIPHER = 'TLS_AES_128_GCM_SHA256'

# Otherwise, proxies that let the client choose would use another cipher than those that do not.
CLIENT_DEFAULTS = f'''openssl_conf = top
[top]
ssl_conf = ssl
[ssl]
system_default = defaults
[defaults]
MinProtocol = TLSv1.3
Ciphersuites = {CIPHER}
Groups = X25519
'''


def make_files(directory):
    key, chain = Path(directory, 'key.pem'), Path(directory, 'chain.pem')
    said = output_of(find_program('openssl', 'apt install openssl'), 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                     'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', chain, '-days', '2',
                     '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost')
    if not chain.exists(): raise Failure(f'openssl made no certificate:\n{said}')
    Path(directory, 'server.pem').write_text(key.read_text() + chain.read_text())
    Path(directory, CLIENT).write_text(CLIENT_DEFAULTS)


@functools.cache
def client_context(protocol=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol: context.set_alpn_protocols([protocol])
    return context


class InMemoryTls:
    """A client's socket whose records pass through memory, where they can be cut."""

    def __init__(self, plain):
        self.plain, self.incoming, self.outgoing = plain, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context().wrap_bio(self.incoming, self.outgoing)
        self.complete(self.tls.do_handshake)

    def complete(self, step):
        """The result of `step` once it needs nothing more from the other side."""
        while True:
            try: return step()
            except ssl.SSLWantReadError:
                self.send_raw(self.outgoing.read())
                arrived = self.plain.recv(65536)
                if not arrived: raise Failure('closed by the other side') from None
                self.incoming.write(arrived)

    def sealed(self, data):
        """The records for the data."""
        before = self.outgoing.read()                  # Pending output, such as the Finished.
        self.tls.write(data)
        return before + self.outgoing.read()

    def sendall(self, data): self.send_raw(self.sealed(data))

    def send_raw(self, data):
        if data: self.plain.sendall(data)

    def recv(self, size): return self.complete(lambda: self.tls.read(size))

    def setsockopt(self, *option): self.plain.setsockopt(*option)

    def close(self): self.plain.close()
