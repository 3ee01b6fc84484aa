"""Access control, tested with curl: passwords as htpasswd writes them, tokens signed by openssl, and CORS; compared
with nginx where it has the same feature."""

import base64
import json
import re
import signal
import subprocess
import time

import harness
from harness import need, wait_until
from http_peers_support import KINDS, HttpTest, words
from origins import free_port
from programs import Nginx

HTTP1 = KINDS[0]
ECHO = """return 200 "$request_uri auth=$http_authorization user=$http_x_user roles=$http_x_roles";"""


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """A key pair made by openssl, as a JWK and for signing tokens."""

    def __init__(self, folder, algorithm, kid):
        self.algorithm, self.kid, self.path = algorithm, kid, f"{folder}/{kid}.pem"
        kind = ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"] if algorithm == "RS256" else [
            "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        self._openssl("genpkey", "-algorithm", *kind, "-out", self.path)

    @staticmethod
    def _openssl(*arguments, data=None):
        return subprocess.run([need("openssl"), *arguments], input=data, capture_output=True, check=True, timeout=60).stdout

    def jwk(self):
        common = {"kid": self.kid, "alg": self.algorithm, "use": "sig"}
        if self.algorithm == "RS256":
            modulus = self._openssl("rsa", "-in", self.path, "-noout", "-modulus").decode().strip().split("=")[1]
            return {"kty": "RSA", "n": base64url(bytes.fromhex(modulus)), "e": "AQAB", **common}
        point = self._openssl("pkey", "-in", self.path, "-pubout", "-outform", "DER")[-64:]
        return {"kty": "EC", "crv": "P-256", "x": base64url(point[:32]), "y": base64url(point[32:]), **common}

    def sign(self, text):
        signature = self._openssl("dgst", "-sha256", "-sign", self.path, data=text)
        if self.algorithm == "RS256":
            return signature
        # From ASN.1 to two numbers of 32 bytes.
        numbers, at = b"", 2
        for _ in range(2):
            size = signature[at + 1]
            numbers += signature[at + 2:at + 2 + size].lstrip(b"\0").rjust(32, b"\0")
            at += 2 + size
        return numbers

    def token(self, header=None, **claims):
        claims = {"sub": "me", "iss": "https://issuer.example", "aud": "api", "exp": int(time.time()) + 300, **claims}
        header = {"alg": self.algorithm, "kid": self.kid, **(header or {})}
        text = ".".join(base64url(json.dumps(part).encode()) for part in (header, claims)).encode()
        return f"{text.decode()}.{base64url(self.sign(text))}"


class Access(HttpTest):

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.keep(Nginx([("127.0.0.1", self.port)],
                        f"server {{ listen 127.0.0.1:{self.port}; location / {{ {ECHO} }} }}"))

    def routes(self, *routes, **http):
        return self.through(f"127.0.0.1:{self.port}", kind=("http1", False), http={"routes": list(routes), **http})

    def users(self, *lines):
        return self.write("users", "".join(line + "\n" for line in lines).encode())

    def htpasswd(self, option, *more):
        return self.call(need("htpasswd"), "-nb" + option, *more, "bob", "hunter2").stdout.decode().strip()

    def test_passwords(self):
        """Each kind of hash that htpasswd writes. For the slow kinds, the second request takes no time."""
        lines = {"bcrypt": self.htpasswd("B", "-C", "8"), "apr1": self.htpasswd("m"), "sha": self.htpasswd("s")}
        for kind, line in lines.items():
            with self.subTest(kind):
                proxy = self.routes({"forward": "main", "auth": {"basic": {"users_file": self.users(line), "realm": "shed"}}})
                for client in KINDS:
                    with self.subTest(words(client)):
                        refused = self.curl(proxy, client, "/")
                        self.assertEqual((refused.status, refused.fields["www-authenticate"]),
                                         (401, 'Basic realm="shed", charset="UTF-8"'))
                        for _ in range(2):
                            response = self.curl(proxy, client, "/a", "-u", "bob:hunter2")
                            self.assertEqual((response.status, response.body), (200, b"/a auth= user= roles="))
                        self.assertEqual(self.curl(proxy, client, "/", "-u", "bob:hunter3").status, 401)
                        self.assertEqual(self.curl(proxy, client, "/", "-u", "eve:hunter2").status, 401)
                stats = proxy.stats()
                self.assertEqual(stats.total("http_requests_ended_total", reason="unauthorized"), 3 * len(KINDS))

    def test_passwords_compared_with_nginx(self):
        path = self.users(self.htpasswd("m"), self.htpasswd("s").replace("bob", "eve"))
        port = free_port()
        self.keep(Nginx([("127.0.0.1", port)], f"""server {{ listen 127.0.0.1:{port};
            location / {{ auth_basic shed; auth_basic_user_file {path};
                          proxy_set_header Authorization ""; proxy_pass http://127.0.0.1:{self.port}; }} }}"""))
        proxy = self.routes({"forward": "main", "auth": {"basic": {"users_file": path}}})
        for who in ("bob:hunter2", "eve:hunter2", "bob:", "bob:hunter22", "mallory:hunter2", ":hunter2", "bob:hunter2:x"):
            with self.subTest(who):
                ours = self.curl(proxy, HTTP1, "/x", "-u", who)
                theirs = self.call(need("curl"), "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-u", who,
                                   f"http://127.0.0.1:{port}/x").stdout
                self.assertEqual(ours.status, int(theirs))

    def test_tokens(self):
        signers = [Signer(self.files, "RS256", "rsa"), Signer(self.files, "ES256", "ec")]
        stranger = Signer(self.files, "ES256", "stranger")
        keys = self.write("keys.json", json.dumps({"keys": [signer.jwk() for signer in signers]}).encode())
        proxy = self.routes(
            {"match": {"path": {"prefix": "/api"}}, "forward": "main",
             "auth": {"jwt": {"jwks_file": keys, "issuer": "https://issuer.example", "audience": ["api"], "cookie": "session",
                              "leeway": "5s", "claims": [{"claim": "sub", "header": "x-user"},
                                                         {"claim": "roles", "header": "x-roles"}]}}},
            {"forward": "main"})

        def bearer(token):
            return ("-H", f"Authorization: Bearer {token}")

        for client in KINDS:
            with self.subTest(words(client)):
                for signer in signers:
                    good = signer.token(roles=["a", "b"])
                    for way in (bearer(good), ("-H", f"Cookie: session={good}")):
                        response = self.curl(proxy, client, "/api/x", *way, "-H", "X-User: root")
                        self.assertEqual((response.status, response.body), (200, b"/api/x auth= user=me roles=a,b"))
                missing = self.curl(proxy, client, "/api/x")
                self.assertEqual((missing.status, missing.fields["www-authenticate"]), (401, 'Bearer realm="sluice"'))
                self.assertEqual(self.curl(proxy, client, "/", "-H", "X-User: root").body, b"/ auth= user= roles=")
        now = int(time.time())
        rsa, ec = signers
        text = ec.token()
        for name, token, message in (
                ("expired", ec.token(exp=now - 6), "has expired"),
                ("not yet", ec.token(nbf=now + 60), "is not valid yet"),
                ("other issuer", ec.token(iss="https://evil.example"), "issuer is not accepted"),
                ("other audience", ec.token(aud=["web"]), "is for another audience"),
                ("unknown key", stranger.token(), "no key matches"),
                ("stranger's signature", stranger.token({"kid": "ec"}), "signature is invalid"),
                ("wrong alg", ec.token({"alg": "RS256"}), "no key matches"),
                ("none", ".".join((base64url(b'{"alg":"none"}'), text.split(".")[1], "x")), "no key matches"),
                ("tampered", ".".join((text.split(".")[0], base64url(b'{"sub":"root","exp":9999999999}'),
                                       text.split(".")[2])), "signature is invalid"),
                ("no token", "x", "is malformed")):
            with self.subTest(name):
                response = self.curl(proxy, HTTP1, "/api/x", *bearer(token))
                self.assertEqual(response.status, 401)
                self.assertIn(message, response.fields["www-authenticate"])
        # The key set is replaced while serving; one that cannot be read leaves the previous one in use.
        self.assertEqual(self.curl(proxy, HTTP1, "/api/x", *bearer(rsa.token())).status, 200)
        self.write("keys.json", json.dumps({"keys": [stranger.jwk()]}).encode())
        proxy.signal(signal.SIGHUP)
        wait_until(lambda: self.curl(proxy, HTTP1, "/api/x", *bearer(stranger.token())).status == 200, what="the new keys")
        self.assertEqual(self.curl(proxy, HTTP1, "/api/x", *bearer(rsa.token())).status, 401)
        self.write("keys.json", b"{}")
        proxy.signal(signal.SIGHUP)
        proxy.wait_for_output("the previous configuration and files stay in use")
        self.assertEqual(self.curl(proxy, HTTP1, "/api/x", *bearer(stranger.token())).status, 200)

    def test_cors(self):
        proxy = self.routes({"forward": "main", "cors": {"origins": ["https://*.page.example"], "methods": ["PUT"],
                                                         "headers": ["x-a"], "credentials": True, "max_age": "1h"},
                             "deny": "127.0.0.1"})
        origin = "https://a.page.example"
        for client in KINDS:
            with self.subTest(words(client)):
                preflight = self.curl(proxy, client, "/", "-X", "OPTIONS", "-H", f"Origin: {origin}",
                                      "-H", "Access-Control-Request-Method: PUT")
                self.assertEqual(preflight.status, 204)
                self.assertEqual({name: value for name, value in preflight.fields.items() if name.startswith("access")},
                                 {"access-control-allow-origin": origin, "access-control-allow-credentials": "true",
                                  "access-control-allow-methods": "PUT", "access-control-allow-headers": "x-a",
                                  "access-control-max-age": "3600"})
                # The preflight got its response before any other check.
                denied = self.curl(proxy, client, "/", "-X", "PUT", "-H", f"Origin: {origin}")
                self.assertEqual((denied.status, denied.fields["access-control-allow-origin"], denied.fields["vary"]),
                                 # The response to a failure has the format that the client accepts.
                                 (403, origin, "accept, Origin"))

    def test_regular_expressions(self):
        proxy = self.routes(
            {"match": {"path": {"regex": "/users/[0-9]+"}}, "respond": {"status": 204}},
            {"match": {"path": {"regex": "/old/.*"}}, "redirect": {"regex": "/old/([a-z]+)/(.*)", "substitution": r"/\2/\1"}},
            {"match": {"headers": [{"name": "x-env", "regex": "beta-[0-9]"}]}, "respond": {"status": 418}},
            {"forward": "main", "rewrite": {"regex": "/(.)/(.*)", "substitution": r"/\1-\2"}})
        for client in KINDS:
            with self.subTest(words(client)):
                def status(path, *more, on=client):
                    return self.curl(proxy, on, path, *more).status
                self.assertEqual((status("/users/12?x"), status("/users/%31"), status("/", "-H", "x-env: beta-7")),
                                 (204, 204, 418))
                self.assertEqual((status("/users/12x"), status("/", "-H", "x-env: beta-77")), (200, 200))
                self.assertEqual(self.curl(proxy, client, "/old/a/b/c?d").fields["location"], "/b/c/a?d")
                self.assertEqual(self.curl(proxy, client, "/v/x?y").body, b"/v-x?y auth= user= roles=")
                self.assertEqual(self.curl(proxy, client, "/").body, b"/ auth= user= roles=")

    def test_invalid_files(self):
        for text, message in ((b"bob:hunter2\n", 'line 1: user "bob": expected a hash'), (b"", "it has no users")):
            with self.subTest(text):
                path = self.write("users", text)
                with self.assertRaises(harness.ProxyError) as failed:
                    self.routes({"forward": "main", "auth": {"basic": {"users_file": path}}})
                self.assertIn(f"listeners[0].http.routes[0].auth.basic.users_file: {path}: {message}", str(failed.exception))

    def test_explain_matches_behavior(self):
        config = self.configuration(self.upstream(f"127.0.0.1:{self.port}", kind=("http1", False)), http={"routes": [
            {"match": {"path": {"prefix": "/denied"}}, "forward": "main", "deny": "127.0.0.0/8"},
            {"match": {"path": {"prefix": "/users"}}, "forward": "main",
             "auth": {"basic": {"users_file": self.users(self.htpasswd("s"))}}},
            {"match": {"path": {"regex": "/[a-z]"}}, "respond": {"status": 204}}]})
        path = self.write("explained.json", json.dumps(config).encode())
        proxy = self.start(config)
        for target in ("/denied/x", "/users", "/x", "/x1"):
            with self.subTest(target):
                output = self.call(harness.SLUICE, "explain", "--config", path, "--listener", "plain",
                                   f"http://a.test{target}").stdout.decode()
                self.assertEqual(int(re.search(r"^response +(\d+)", output, re.MULTILINE)[1]),
                                 self.curl(proxy, HTTP1, target).status)


if __name__ == "__main__":
    harness.main()
