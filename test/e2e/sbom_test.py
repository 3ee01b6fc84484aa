"""The bill of materials, checked by the libraries of the two formats, and against what the program loads; and the comparison with
known vulnerabilities."""

import json
import os
import pathlib
import re
import subprocess
import sys
import warnings

import harness
from harness import ROOT, SLUICE, require

PYTHON = ROOT / ".deps/python"
try:
    sys.path.insert(0, str(PYTHON))
    import jsonschema
    from spdx_tools.spdx.parser.json import json_parser as spdx_parser
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
except ImportError:
    spdx_parser = None

TOOL = ROOT / "tools/sbom"


def cyclonedx_validator():
    """By the project's own schema, whose parts refer to each other by URL."""
    folder = PYTHON / "cyclonedx/schema/_res"
    schemas = [json.loads(pathlib.Path(folder, f"{name}.SNAPSHOT.schema.json").read_text(encoding="utf-8"))
               for name in ("bom-1.6", "spdx", "jsf-0.82", "cryptography-defs")]
    base = schemas[0]["$id"].rpartition("/")[0]
    store = {schema["$id"]: schema for schema in schemas}
    for schema in schemas:
        store[base + "/" + schema["$id"].rpartition("/")[2].replace(".schema", ".SNAPSHOT.schema")] = schema
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        resolver = jsonschema.RefResolver(schemas[0]["$id"], schemas[0], store=store)
        return jsonschema.Draft7Validator(schemas[0], resolver=resolver)


class Sbom(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.temporary_directory())
        self.environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}

    def run_tool(self, *arguments, code=0):
        done = subprocess.run([TOOL, "--binary", SLUICE, *map(str, arguments)], capture_output=True, text=True, check=False,
                              timeout=60, env=self.environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def documents(self):
        self.run_tool("--output", self.folder)
        return [json.loads((self.folder / f"sluice.{kind}.json").read_text(encoding="utf-8")) for kind in ("spdx", "cdx")]

    def test_formats(self):
        require(spdx_parser, "missing: the packages of tools/deps.d/python; run tools/deps")
        documents = self.documents()
        messages = validate_full_spdx_document(spdx_parser.JsonLikeDictParser().parse(documents[0]))
        self.assertEqual([str(message) for message in messages], [])
        validator = cyclonedx_validator()
        self.assertEqual([error.message for error in validator.iter_errors(documents[1])], [])
        documents[1]["components"][0]["type"] = "nothing"
        self.assertNotEqual(list(validator.iter_errors(documents[1])), [])

    def test_content(self):
        spdx, cyclonedx = self.documents()
        listed = {package["name"]: package["versionInfo"] for package in spdx["packages"]}
        self.assertEqual({component["name"]: component["version"] for component in cyclonedx["components"]} |
                         {"sluice": cyclonedx["metadata"]["component"]["version"]}, listed)
        rows = [line.split() for line in (ROOT / "tools/deps.d/sources").read_text(encoding="utf-8").splitlines()]
        rows = [row for row in rows if len(row) > 3 and row[1] == "program" and row[3] == "release"]
        self.assertEqual({row[0] for row in rows}, {"abseil", "boringssl", "liburing"})
        for row in rows:
            self.assertEqual(listed.get(row[0]), row[2])
        names = {component["name"]: component["purl"] for component in cyclonedx["components"]}
        self.assertEqual(names["liburing"], f"pkg:github/axboe/liburing@liburing-{listed['liburing']}")
        self.assertEqual(names["boringssl"], f"pkg:github/google/boringssl@{listed['boringssl']}")
        loaded = subprocess.run(["ldd", SLUICE], capture_output=True, text=True, check=True).stdout
        links = [relation["relationshipType"] for relation in spdx["relationships"]]
        self.assertEqual(links.count("STATIC_LINK"), len(rows))
        if pathlib.Path("/usr/bin/dpkg-query").exists():
            for library in re.findall(r"=> (/\S+)", loaded):
                name = subprocess.run(["dpkg-query", "-S", os.path.realpath(library)], capture_output=True, text=True,
                                      check=False).stdout
                if name:
                    self.assertIn(name.split(":")[0], listed)

    def test_same_bytes_each_time(self):
        first, second = self.documents(), self.documents()
        self.assertEqual(first, second)
        self.assertEqual(first[0]["creationInfo"]["created"], "2023-11-14T22:13:20Z")

    def osv(self, code, **entries):
        folder = self.folder / f"osv-{'-'.join(entries)}"
        folder.mkdir()
        for name, affected in entries.items():
            entry = {"id": name, "summary": "a test", "affected": [affected]}
            (folder / f"{name}.json").write_text(json.dumps(entry), encoding="utf-8")
        return self.run_tool("--osv", folder, code=code)

    @staticmethod
    def repository(url, **more):
        return {"ranges": [{"type": "GIT", "repo": url, "events": [{"introduced": "0"}, {"fixed": "0" * 40}]}], **more}

    def test_entries_of_a_repository(self):
        url = "https://github.com/google/boringssl.git"
        self.assertIn("1 entries", self.osv(0, other=self.repository("https://github.com/someone/else", versions=["0.20260526.0"])))
        self.osv(0, old=self.repository(url, versions=["0.20200101.0", "0.20250101.0"]))
        version = {package["name"]: package["versionInfo"] for package in self.documents()[0]["packages"]}["boringssl"]
        text = self.osv(1, hit=self.repository(url, versions=["0.20200101.0", version]))
        self.assertIn(f"hit | boringssl {version} | applies | a test", text)
        self.assertIn("cannot be decided by version", self.osv(1, commits=self.repository(url)))
        accepted = self.folder / "accepted"
        accepted.write_text("hit | boringssl | that function is not called\n", encoding="utf-8")
        text = self.run_tool("--osv", self.folder / "osv-hit", "--accepted", accepted)
        self.assertIn("accepted: that function is not called", text)

    def test_entries_of_debian(self):
        packages = {package["name"]: package for package in self.documents()[0]["packages"]}
        require("libc6" in packages, "missing: a Debian system")
        release = re.search(r"distro=debian-(\S+)", packages["libc6"]["externalRefs"][0]["referenceLocator"])[1]

        def glibc(*events, ecosystem=f"Debian:{release}"):
            return {"package": {"ecosystem": ecosystem, "name": "glibc"}, "ranges": [{"type": "ECOSYSTEM", "events": list(events)}]}
        self.osv(0, fixed=glibc({"introduced": "0"}, {"fixed": "2.0-1"}))
        self.osv(0, later=glibc({"introduced": "99:0"}))
        self.osv(0, foreign=glibc({"introduced": "0"}, ecosystem="Debian:6"))
        self.assertIn("open | libc6 ", self.osv(1, open=glibc({"introduced": "0"})))
        self.osv(1, unfixed=glibc({"introduced": "0"}, {"fixed": "99:1"}))

    def test_wrong_use(self):
        self.assertIn("expected a folder or a zip", self.run_tool("--osv", self.folder / "none", code=2))
        (self.folder / "empty").mkdir()
        self.assertIn("no OSV entry", self.run_tool("--osv", self.folder / "empty", code=2))
        (self.folder / "bad").mkdir()
        (self.folder / "bad/x.json").write_text("{", encoding="utf-8")
        self.assertIn("bad: x.json: ", self.run_tool("--osv", self.folder / "bad", code=2))


if __name__ == "__main__":
    harness.main()
