"""The files for containers: the program under the seccomp profile, the configurations, and the manifests of Kubernetes."""

import errno
import os
import re
import signal
import subprocess

import harness
import seccomp
from harness import ROOT, SANITIZER, SLUICE
from origins import Origin, receive_all
from tls_support import TlsTest

try:
    import yaml
except ImportError:
    yaml = None

PROFILE = ROOT / "packaging/docker/seccomp.json"
MANIFESTS = ROOT / "packaging/kubernetes/sluice.yaml"


def http_origin(sock):
    data = b""
    while b"abc" not in data:
        piece = sock.recv(4096)
        if not piece:
            return
        data += piece
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")


def texts_of_configurations():
    """(place, text) of each configuration in the folder packaging."""
    for path in sorted(ROOT.glob("packaging/**/*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if "listeners" in document:
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
            elif document.get("kind") == "ConfigMap":
                yield str(path.relative_to(ROOT)), document["data"]["sluice.yaml"]


class Seccomp(TlsTest):

    def setUp(self):
        super().setUp()
        if SANITIZER:  # It uses calls that the filter forbids.
            self.skipTest("an ordinary build does this")

    def test_profile_is_enough(self):
        """TLS, an endpoint by name, an access log that rotates, a body file, reloads by command and by watch. With the error of older
        engines for other calls, too. Defect: there clone3 failed with EPERM, which glibc takes for final, and no thread started."""
        harness.require(os.uname().machine == "x86_64", "the filter of the test is for x86-64")
        for default_error in (None, errno.EPERM):
            with self.subTest(default_error=default_error):
                self.check_profile(seccomp.profile(PROFILE, default_error))

    def test_profile_is_enough_with_sandbox(self):
        self.check_profile(seccomp.profile(PROFILE), sandbox=True)

    def check_profile(self, profile, **top):
        folder = self.temporary_directory()
        log = os.path.join(folder, "access.log")
        origin = self.keep(Origin(http_origin))
        route = {"forward": "main", "buffer": {"requests": "1MiB", "responses": "1MiB"}}
        config = harness.configuration(
            [f"localhost:{origin.sockname[1]}"], workers=2, watch=True, body_file={"directory": folder}, **top,
            listener={"tls": {"certificates": [{"chain": self.server["chain"], "key": self.server["key"]}]},
                      "http": {"access_log": log, "routes": [route]}})
        del config["listeners"][0]["tcp"]
        proxy = self.start(config, before=profile)
        self.assertIn(b"200 OK", self.get(proxy))
        os.rename(log, log + ".1")
        proxy.signal(signal.SIGUSR1)
        proxy.wait_for_output("access logs reopened")
        self.assertTrue(os.path.exists(log))

        config["listeners"][0]["http"]["routes"].insert(0, {"match": {"path": {"exact": "/new"}}, "respond": {"status": 204}})
        proxy.write_configuration(config)
        proxy.wait_for_output("reload: configuration applied")
        self.assertIn(b"204", self.get(proxy, b"/new"))
        done = subprocess.run([SLUICE, "reload", "--pid", str(proxy.pid)], capture_output=True, text=True, timeout=20, check=False,
                              preexec_fn=profile)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def get(self, proxy, path=b"/"):
        with self.secure(proxy.address()) as client:
            client.sendall(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc")
            return receive_all(client)

    def test_profile_without_io_uring(self):
        """The profile does what it is for: without its rule for io_uring the program cannot start."""
        harness.require(os.uname().machine == "x86_64", "the filter of the test is for x86-64")
        text = PROFILE.read_text(encoding="utf-8")
        for call in ("io_uring_setup", "io_uring_enter", "io_uring_register"):
            path = os.path.join(self.temporary_directory(), "seccomp.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(f'"{call}"', '"read"'))
            result = subprocess.run([SLUICE, "run", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1"], capture_output=True,
                                    text=True, timeout=20, check=False, preexec_fn=seccomp.profile(path))
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"a seccomp filter forbids {call}: allow", result.stderr)


class Files(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        harness.require(yaml, "missing: python3-yaml; run tools/deps")

    def test_configurations(self):
        """Each is valid, and says so about its health, which is what probes ask for."""
        found = 0
        for place, text in texts_of_configurations():
            found += 1
            with self.subTest(place):
                path = os.path.join(self.temporary_directory(), "sluice.yaml")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text.replace("/var/log/sluice", os.path.dirname(path)))
                checked = subprocess.run([SLUICE, "check", "--config", path], capture_output=True, text=True, timeout=20,
                                         check=False)
                self.assertEqual((checked.returncode, checked.stderr), (0, ""))
                result = subprocess.run([SLUICE, "explain", "--config", path, "http://sluice:8080/healthz"], capture_output=True,
                                        text=True, timeout=20, check=False)
                self.assertRegex(result.stdout, r"(?m)^response +200\b", result.stderr)
        self.assertEqual(found, 3)

    def test_manifests(self):
        """What a schema cannot say: names that must agree, and times and memory that must be enough."""
        kinds = {each["kind"]: each for each in yaml.safe_load_all(MANIFESTS.read_text(encoding="utf-8"))}
        self.assertEqual(set(kinds), {"ConfigMap", "Deployment", "Service", "PodDisruptionBudget"})
        config = yaml.safe_load(kinds["ConfigMap"]["data"]["sluice.yaml"])
        deployment = kinds["Deployment"]["spec"]
        pod, labels = deployment["template"]["spec"], deployment["template"]["metadata"]["labels"]
        [container] = pod["containers"]
        self.assertEqual(deployment["selector"]["matchLabels"], labels)
        self.assertEqual(kinds["Service"]["spec"]["selector"], labels)
        self.assertEqual(kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(pod["volumes"][0]["configMap"]["name"], kinds["ConfigMap"]["metadata"]["name"])
        mount = container["volumeMounts"][0]
        self.assertEqual(mount["name"], pod["volumes"][0]["name"])
        self.assertEqual(container["args"], ["run", "--config", f"{mount['mountPath']}/sluice.yaml"])

        [port] = container["ports"]
        self.assertEqual(config["listeners"][0]["address"], f"0.0.0.0:{port['containerPort']}")
        self.assertEqual(kinds["Service"]["spec"]["ports"][0]["targetPort"], port["name"])
        for probe in ("readinessProbe", "livenessProbe"):
            self.assertEqual(container[probe]["httpGet"], {"path": "/healthz", "port": port["name"]})

        wait = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
        drain = int(config["shutdown_timeout"].removesuffix("s"))
        probe = container["readinessProbe"]
        self.assertGreater(wait, probe["periodSeconds"] * probe["failureThreshold"])
        self.assertGreaterEqual(pod["terminationGracePeriodSeconds"], wait + drain + 5)
        limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi"))
        budget = int(config["memory"]["worker_budget"].removesuffix("MiB")) * int(container["resources"]["limits"]["cpu"])
        self.assertGreaterEqual(limit, budget + 128)
        self.assertEqual(pod["securityContext"]["seccompProfile"]["localhostProfile"], "profiles/sluice.json")
        self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])

    def test_image(self):
        """The user of the image is that of the manifest; files that it copies are there."""
        text = (ROOT / "packaging/docker/Dockerfile").read_text(encoding="utf-8")
        pod = next(each for each in yaml.safe_load_all(MANIFESTS.read_text(encoding="utf-8"))
                   if each["kind"] == "Deployment")["spec"]["template"]["spec"]
        user = re.search(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
        context = pod["securityContext"]
        self.assertEqual([int(user[1]), int(user[2])], [context["runAsUser"], context["runAsGroup"]])
        for source in re.findall(r"^COPY (?!--from)(\S+)", text, re.MULTILINE):
            self.assertTrue((ROOT / source).exists(), source)


if __name__ == "__main__":
    harness.main()
