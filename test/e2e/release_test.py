"""tools/release: a small release in a repository of its own, signed with a temporary key. The files are checked by minisign, sha256sum, and
the libraries of in-toto and of DSSE."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import harness
from harness import ROOT, SLUICE, require

PYTHON = ROOT / ".deps/python"
try:
    sys.path.insert(0, str(PYTHON))
    from google.protobuf import json_format
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey
except ImportError:
    Statement = None

BUILDER, SOURCE = "https://example.org/builders/1", "https://example.org/sluice"


def run(*command, where=None, code=0, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120, cwd=where,
                          stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    if done.returncode != code:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def commit(tree, message):
    run("git", "add", "-A", where=tree)
    run("git", "-c", "user.name=Someone", "-c", "user.email=someone@localhost", "-c", "commit.gpgsign=false", "commit", "-q", "-m", message,
        where=tree, GIT_COMMITTER_DATE="1700000000 +0000")


class Release(unittest.TestCase):
    """One release for all tests; each changes a copy."""

    @classmethod
    def setUpClass(cls):
        for program in ("minisign", "openssl", "dpkg-deb", "git"):
            require(shutil.which(program), f"missing: {program}; run tools/deps")
        directory = tempfile.TemporaryDirectory(prefix="sluice-e2e-")
        cls.addClassCleanup(directory.cleanup)
        cls.folder = pathlib.Path(directory.name)
        cls.tree = cls.folder / "tree"
        for name in ("tools", "include", "CHANGELOG.md", "LICENSE"):
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            (cls.tree / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, cls.tree / name)
        cls.version = run(SLUICE, "version").split()[-1]
        changes = cls.tree / "CHANGELOG.md"
        text = changes.read_text(encoding="utf-8")
        changes.write_text(text.replace(f"## {cls.version} (unreleased)", f"## {cls.version} (2023-11-14)"), encoding="utf-8")
        run("git", "init", "-q", where=cls.tree)
        commit(cls.tree, "A release")
        run("git", "tag", f"v{cls.version}", where=cls.tree)
        cls.package = cls.make_package()
        cls.secret, cls.public = cls.folder / "release.key", cls.folder / "release.pub"
        run("minisign", "-G", "-W", "-s", cls.secret, "-p", cls.public)
        cls.made = cls.folder / "made"
        cls.release(cls.made)

    @classmethod
    def make_package(cls):
        root = cls.folder / "root"
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN/control").write_text(f"Package: sluice\nVersion: {cls.version}-1+deb0\nArchitecture: amd64\n"
                                             "Maintainer: Someone <someone@localhost>\nDescription: a test\n", encoding="utf-8")
        (root / "usr/bin").mkdir(parents=True)
        shutil.copy2(SLUICE, root / "usr/bin/sluice")
        package = cls.folder / f"sluice_{cls.version}-1+deb0_amd64.deb"
        run("dpkg-deb", "-Znone", "--build", "--root-owner-group", root, package)
        shutil.rmtree(root)
        return package

    @classmethod
    def release(cls, output, *options, code=0):
        return run(cls.tree / "tools/release", cls.version, "--key", cls.secret, "--builder", BUILDER, "--source", SOURCE,
                   "--package", cls.package, "--output", output, *options, code=code, SLUICE_DEPS_DIR=str(ROOT / ".deps"))

    def verify(self, folder, code=0, key=None):
        return run(self.tree / "tools/release", "verify", folder, "--public-key", key or self.public, code=code)

    def copy(self):
        folder = self.folder / self.id()
        shutil.copytree(self.made, folder)
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def envelope(self):
        return json.loads((self.made / f"sluice-{self.version}.intoto.jsonl").read_text(encoding="utf-8"))

    def statement(self):
        return json.loads(base64.b64decode(self.envelope()["payload"]))

    def test_files(self):
        stem = self.package.stem
        self.assertEqual(sorted(path.name for path in self.made.iterdir()), sorted(
            ["SHA256SUMS", "SHA256SUMS.minisig", f"sluice-{self.version}.intoto.jsonl", f"sluice-{self.version}.tar.gz", f"{stem}.deb",
             f"{stem}.spdx.json", f"{stem}.cdx.json"]))
        with tarfile.open(self.made / f"sluice-{self.version}.tar.gz") as archive:
            names = archive.getnames()
            self.assertIn(f"sluice-{self.version}/CHANGELOG.md", names)
            self.assertEqual({member.mtime for member in archive}, {1700000000})
        bill = json.loads((self.made / f"{stem}.cdx.json").read_text(encoding="utf-8"))
        self.assertEqual(bill["metadata"]["component"]["version"], self.version)

    def test_commands_of_the_documentation(self):
        """As docs/operating/supply-chain.md has them, without anything of ours."""
        run("minisign", "-V", "-p", self.public, "-m", "SHA256SUMS", where=self.made)
        run("sha256sum", "--check", "--strict", "SHA256SUMS", where=self.made)
        page = (ROOT / "docs/operating/supply-chain.md").read_text(encoding="utf-8")
        self.assertIn("minisign -V -p sluice.pub -m SHA256SUMS", page)
        self.assertIn("sha256sum --check --strict SHA256SUMS", page)

    def test_provenance_by_the_library_of_in_toto(self):
        require(Statement, "missing: the packages of tools/deps.d/python; run tools/deps")
        statement = self.statement()
        Statement.copy_from_pb(json_format.ParseDict(statement, statement_pb2.Statement())).validate()
        provenance = json_format.ParseDict(statement["predicate"], provenance_pb2.Provenance())  # Refuses what it does not know.
        self.assertEqual(statement["predicateType"], "https://slsa.dev/provenance/v1")
        self.assertEqual(provenance.run_details.builder.id, BUILDER)
        self.assertTrue(provenance.build_definition.build_type)
        self.assertLessEqual(provenance.run_details.metadata.started_on.seconds, provenance.run_details.metadata.finished_on.seconds)
        dependencies = provenance.build_definition.resolved_dependencies
        self.assertEqual(dependencies[0].uri, f"git+{SOURCE}@refs/tags/v{self.version}")
        self.assertEqual(dependencies[0].digest["gitCommit"], run("git", "rev-parse", "HEAD", where=self.tree).strip())
        digests = {row.name: row.digest["sha256"] for row in dependencies[1:]}
        pinned = [line.split() for line in (ROOT / "tools/deps.d/sources").read_text(encoding="utf-8").splitlines()]
        pinned = [row for row in pinned if len(row) > 5 and row[0] in digests]
        self.assertEqual(set(digests), {"abseil", "boringssl", "liburing"})
        for name, digest in digests.items():
            self.assertIn(digest, [row[5] for row in pinned if row[0] == name])

    def test_envelope_by_the_library_of_dsse(self):
        require(Statement, "missing: the packages of tools/deps.d/python; run tools/deps")
        blob = base64.b64decode(self.public.read_text(encoding="utf-8").splitlines()[1])
        row = self.envelope()
        name = row["signatures"][0]["keyid"]
        self.assertIn(name, self.public.read_text(encoding="utf-8"))
        key = SSlibKey(name, "ed25519", "ed25519", {"public": blob[10:].hex()})
        Envelope.from_dict(self.envelope()).verify([key], 1)
        row["payload"] = base64.b64encode(base64.b64decode(row["payload"]) + b" ").decode()
        with self.assertRaises(VerificationError):
            Envelope.from_dict(row).verify([key], 1)

    def test_subjects_are_the_files(self):
        subjects = {row["name"]: row["digest"]["sha256"] for row in self.statement()["subject"]}
        sums = dict(reversed(line.split("  ")) for line in (self.made / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
        self.assertEqual(sums.keys() - subjects.keys(), {f"sluice-{self.version}.intoto.jsonl"})
        self.assertEqual(subjects, {name: sums[name] for name in subjects})

    def test_verify(self):
        text = self.verify(self.made)
        self.assertIn(f"built by {BUILDER} from git+{SOURCE}@refs/tags/v{self.version}", text)

    def test_verify_refuses_another_file(self):
        folder = self.copy()
        with open(folder / self.package.name, "r+b") as file:
            file.seek(1000)
            file.write(b"other")
        self.assertIn(f"{self.package.name}: not the file that was signed", self.verify(folder, 1))

    def test_verify_refuses_missing_and_further_files(self):
        folder = self.copy()
        (folder / "further").write_text("", encoding="utf-8")
        self.assertIn("further: not in SHA256SUMS", self.verify(folder, 1))
        (folder / "further").unlink()
        (folder / self.package.name).unlink()
        self.assertIn(f"{self.package.name}: missing", self.verify(folder, 1))

    def test_verify_refuses_other_checksums(self):
        folder = self.copy()
        with open(folder / "SHA256SUMS", "a", encoding="utf-8") as file: file.write("\n")
        self.assertIn("SHA256SUMS: not signed by", self.verify(folder, 1))

    def test_verify_refuses_another_key(self):
        run("minisign", "-G", "-W", "-s", self.folder / "other.key", "-p", self.folder / "other.pub")
        self.assertIn("not signed by", self.verify(self.made, 1, self.folder / "other.pub"))
        self.assertIn("not a public key of minisign", self.verify_provenance(self.made, self.secret, 2))

    def verify_provenance(self, folder, key, code):
        """Of the envelope alone, as if somebody had signed new checksums."""
        script = ("import pathlib, sys; sys.path[:0] = ['tools/release.d', 'tools/sbom.d']; import verify\n"
                  "from components import Failure\n"
                  "folder, key = map(pathlib.Path, sys.argv[1:])\n"
                  "file, = folder.glob('*.intoto.jsonl')\n"
                  "try: verify.compare(verify.opened(file, key), folder, file)\n"
                  "except verify.Refused as refused: sys.exit(print(refused) or 1)\n"
                  "except Failure as failure: sys.exit(print(failure) or 2)\n")
        return run(sys.executable, "-B", "-c", script, folder, key, where=self.tree, code=code)

    def test_provenance_alone(self):
        folder = self.copy()
        self.verify_provenance(folder, self.public, 0)
        (folder / f"sluice-{self.version}.tar.gz").write_bytes(b"other")
        self.assertIn("its subjects are not the files here", self.verify_provenance(folder, self.public, 1))
        envelope = self.envelope()
        statement = base64.b64decode(envelope["payload"]).replace(BUILDER.encode(), b"https://example.org/other")
        envelope["payload"] = base64.b64encode(statement).decode()
        (folder / f"sluice-{self.version}.intoto.jsonl").write_text(json.dumps(envelope), encoding="utf-8")
        self.assertIn("not signed by", self.verify_provenance(folder, self.public, 1))

    def test_same_bytes_each_time(self):
        """But for times, and what is signed with them."""
        second = self.folder / "second"
        self.release(second)
        for path in self.made.iterdir():
            if not path.name.startswith("SHA256SUMS") and path.suffix != ".jsonl":
                self.assertEqual(path.read_bytes(), (second / path.name).read_bytes(), path.name)

    def test_refusals(self):
        self.assertIn("exists; remove it", self.release(self.made, code=2))
        other = self.folder / "other"
        self.assertIn("--builder nobody: not a URI", self.release(other, "--builder", "nobody", code=2))
        self.assertIn("no such file", self.release(other, "--package", self.folder / "none.deb", code=2))
        self.assertFalse(other.exists())

    def test_trees_that_are_no_release(self):
        original = self.tree
        tree = self.folder / "not-ready"
        shutil.copytree(original, tree)
        type(self).tree = tree
        self.addCleanup(setattr, type(self), "tree", original)
        output = self.folder / "not-made"
        changes = tree / "CHANGELOG.md"
        text = changes.read_text(encoding="utf-8")
        changes.write_text(text.replace("(2023-11-14)", "(unreleased)"), encoding="utf-8")
        self.assertIn(f"CHANGELOG.md: {self.version} has no date", self.release(output, code=2))
        self.assertIn("changes that are not committed, CHANGELOG.md among them", self.release(output, "--draft", code=2))
        commit(tree, "Not yet")
        changes.write_text(text, encoding="utf-8")
        commit(tree, "Untagged")
        self.assertIn(f"has no tag v{self.version}", self.release(output, code=2))
        self.release(output, "--draft")
        header = tree / "include/sluice/version.h"
        header.write_text(header.read_text(encoding="utf-8").replace("_MAJOR ", "_MAJOR 9"), encoding="utf-8")
        self.assertIn(f"not {self.version}; change one of them", self.release(output, code=2))


if __name__ == "__main__":
    harness.main()
