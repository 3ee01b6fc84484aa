"""What the documents say can be done can be done: configurations are accepted, commands exist, transcripts are right.

* A block of ```yaml is a configuration, and has to pass `sluice check`. One without `listeners:` is completed with a listener
  for its first upstream, one without `upstreams:` with those that it names; certificates and other files that it names are
  replaced by files of this test.
* A block of ```console is a transcript: a line that begins with `$ ` is run, in a folder where sluice.yaml is the last
  configuration before it on the page, and prints the lines below it. `...` there stands for any text, as a line of its own for
  any lines. A line that begins with `> ` goes on with the command. What ends with ` &` is waited for until it listens. Ports of 127.0.0.1 are replaced by free ones.
* Each line of indented shell, each command of a transcript and each `sluice ...`, `tools/...`, `bench/...` in the text calls a
  program that there is, with options that it has.
"""

import base64
import contextlib
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import documents
import harness
from harness import ROOT, SLUICE, need
from origins import free_port
from tls_support import TlsTest

try:
    import yaml
except ImportError:
    yaml = None

ORIGIN = os.environ.get("SLUICE_ORIGIN") or str(ROOT / "build/release/examples/origin")
# RFC 7517 appendix A.1.
KEYS = {"keys": [{"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
                  "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}


class Documents(TlsTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ocsp = cls.files.path("response.ocsp")
        cls.files.staple(cls.server, cls.ocsp)

    def stand_in(self, folder, key, name):
        """A file of this test for one that a configuration names, or None where `name` is none."""
        path = os.path.join(folder, os.path.basename(name))
        if key in ("chain", "key"):
            return self.server[key]
        if key in ("ca", "client_ca", "peer_ca"):
            return self.ca
        if key == "ocsp":
            return self.ocsp
        if key == "users_file":
            content = "alice:{SHA}" + base64.b64encode(hashlib.sha1(b"secret").digest()).decode() + "\n"
        elif key == "token_file":
            content = "0123456789abcdef0123456789abcdef\n"
        elif key == "jwks_file":
            content = json.dumps(KEYS)
        elif key in ("file", "access_log") and "/" in name:
            return path
        else:
            return None
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        return path

    def with_files(self, text, folder):
        """The text of a configuration with files that are there."""
        harness.require(yaml, "missing: python3-yaml; run tools/deps")
        for key, name in strings_of(yaml.safe_load(text)):
            if stand_in := self.stand_in(folder, key, name):
                text = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w./-])", stand_in, text)
        return text

    def write(self, folder, text):
        path = os.path.join(folder, "sluice.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_configurations(self):
        folder, found = self.temporary_directory(), 0
        for place, text in documents.configurations():
            found += 1
            with self.subTest(place):
                path = self.write(folder, self.with_files(text, folder))
                result = subprocess.run([SLUICE, "check", "--config", path], capture_output=True, text=True, timeout=20,
                                        check=False)
                warnings = [line for line in result.stderr.splitlines() if not MACHINE.search(line)]
                self.assertEqual((result.returncode, warnings), (0, []), text)
        self.assertGreater(found, 30)

    def test_transcripts(self):
        need("curl")
        self.assertTrue(os.access(ORIGIN, os.X_OK), f"{ORIGIN} is not there: tools/build release --target origin")
        found = 0
        for page in documents.pages():
            blocks = documents.blocks(page)
            if any(block.language == "console" for block in blocks):
                found += 1
                with self.subTest(str(page.relative_to(ROOT))):
                    self.run_transcripts(blocks)
        self.assertGreater(found, 2)

    def run_transcripts(self, blocks):
        folder, ports, script, expected = self.temporary_directory(), {}, [], []
        for name, program in (("sluice", SLUICE), ("origin", ORIGIN)):
            os.symlink(os.path.abspath(program), os.path.join(folder, name))
        os.symlink(ROOT / "docs", os.path.join(folder, "docs"))

        def here(text):
            return re.sub(r"\b127\.0\.0\.1:(\d{4,5})\b",
                          lambda match: f"127.0.0.1:{ports.setdefault(match[1], free_port())}", text)

        listens = set()
        for block in blocks:
            if block.language == "yaml":
                text = here(self.with_files(documents.configuration(block.text), folder))
                script.append(f"cat > sluice.yaml <<'END'\n{text}\nEND")
                listens = set(re.findall(r"\baddress: 127\.0\.0\.1:(\d+)", text))
            elif block.language == "console":
                for command, output in transcript(block.text):
                    command = here(command.replace("build/release/examples/origin", "origin"))
                    if command.endswith(" &"):
                        wanted = set(re.findall(r"(?:--listen|origin) 127\.0\.0\.1:(\d+)", command))
                        wanted |= listens if "--config" in command else set()
                        script.append(f"exec 3>&1 4>&2 >>background.log 2>&1\n{command}\nexec >&3 2>&4 3>&- 4>&-")
                        script += [f"await {port}" for port in sorted(wanted)]
                    else:
                        script.append(command)
                    script.append("mark")
                    expected.append((command, here(output)))
        result = subprocess.run(["bash", "-c", PROLOGUE + "\n".join(script)], cwd=folder, capture_output=True, text=True,
                                timeout=120, check=False, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        outputs = result.stdout.replace("\r\n", "\n").split(MARK)
        self.assertEqual(len(outputs), len(expected) + 1, result.stdout + result.stderr)
        background = pathlib.Path(folder, "background.log")
        logged = background.read_text(encoding="utf-8", errors="replace") if background.exists() else ""
        for (command, output), printed in zip(expected, outputs):
            with self.subTest(command):
                self.assertRegex(printed, pattern_of(output), f"background.log: {logged[-4000:]}")

    def test_commands(self):
        found = 0
        for command in documents.commands():
            found += 1
            with self.subTest(f"{command.place}: {' '.join(command.words)}"):
                problem = problem_of(command.words)
                self.assertIsNone(problem)
        self.assertGreater(found, 100)

    def test_rules(self):
        """What counts as wrong."""
        for good in ("sluice run --config f", "tools/build asan", "cmake --install build/release --component proxy",
                     "tools/bench compare --rows h1", "build/release/bench/iobuf_bench", "curl --compressed x"):
            self.assertIsNone(problem_of(good.split()), good)
        for bad in ("sluice start", "sluice run --conf f", "sluice check --listen f", "tools/none", "tools/build fast", "tools/suites --never",
                    "cmake --install build/release --component nobody", "bench/compare --row h1", "build/release/bench/no_bench",
                    "curl --compresed x", "python3 test/e2e/no_test.py", "cmake -DSLUICE_NOTHING=ON"):
            self.assertIsNotNone(problem_of(bad.split()), bad)
        self.assertEqual(list(documents.simple_commands("A1=b sudo x 'y z' $(w -v) && u | t # s")),
                         [["x", "y z", "SUBSTITUTED"], ["u"], ["t"]])
        self.assertRegex("a 12 b\nc\nd\n", pattern_of("a ... b\n...\nd\n"))
        self.assertNotRegex("a 12 b\nd\ne\n", pattern_of("a ... b\nd\n"))


# Warnings about this machine: examples have the addresses, the sizes and the users of others.
MACHINE = re.compile("warning: .*(no interface of this machine has|needs [0-9]+ file descriptors|there is no user)")

# ---- Transcripts

MARK = "\x1e\n"
PROLOGUE = """
mark() { printf '\\x1e\\n'; }
await() {
  for _ in $(seq 500); do (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null && return; sleep 0.02; done
  echo "nothing listens on port $1"; cat background.log
}
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
curl() { command curl -sS "$@"; }
exec 2>&1 </dev/null
"""


def transcript(text):
    """(command, output) of each."""
    found = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append([line[2:].rstrip("\n"), ""])
        elif line.startswith("> "):
            found[-1][0] += "\n" + line[2:].rstrip("\n")
        else:
            found[-1][1] += line
    return found


def pattern_of(output):
    lines = ["(.*\n)*" if line == "..." else ".*".join(re.escape(part) for part in line.split("...")) + "\n"
             for line in output.splitlines()]
    return re.compile(r"\A" + "".join(lines) + r"\Z")


def strings_of(value, key=None):
    """(key, string) of each in a configuration."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from strings_of(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_of(inner, key)
    elif isinstance(value, str):
        yield key, value


# ---- Commands

def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout


@functools.cache
def text_of(path):
    """What a script of ours prints about itself: --help, where that is Python's argparse, else all of it."""
    text = path.read_text(encoding="utf-8")
    if "argparse" in text and os.access(path, os.X_OK):
        with contextlib.suppress(subprocess.CalledProcessError):
            return output_of(path, "--help")
    return text


@functools.cache
def overview():
    return output_of(SLUICE, "help")


@functools.cache
def build_files():
    paths = [ROOT / "CMakeLists.txt", ROOT / "CMakePresets.json", *ROOT.glob("*/CMakeLists.txt"), *ROOT.glob("cmake/*.cmake")]
    return "".join(path.read_text(encoding="utf-8") for path in paths)


def options_of(words):
    return [word.partition("=")[0] for word in words if re.match("--?[A-Za-z]", word)]


def contains_word(text, word):
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None


def unknown(options, text):
    return next((f"there is no option {option}" for option in options if not contains_word(text, option)), None)


def problem_of(words):
    """What is wrong with a call of a program, or None."""
    program, arguments = words[0], words[1:]
    if program == "sluice":
        if not arguments or not contains_word(overview(), f"sluice {arguments[0]}"):
            return None if arguments in (["--version"], ["COMMAND", "--help"]) else "there is no such command of sluice"
        usage = output_of(SLUICE, "help", arguments[0]) + " --help"
        return unknown([option.strip("[]") for option in options_of(arguments)], usage)
    if program in ("python3", "bazel"):
        files = [word for word in arguments if word.endswith(".py")]
        return next((f"there is no {file}" for file in files if not (ROOT / file).is_file()), None)
    if program in ("cmake", "ctest"):
        names = [word[2:].partition("=")[0] for word in arguments if word.startswith("-DSLUICE")]
        names += [after for word, after in zip(arguments, arguments[1:]) if word in ("--preset", "--component", "--target")]
        return next((f"the build knows no {name}" for name in names if not contains_word(build_files(), name)), None)
    if program.startswith("build/"):
        return problem_of_built(program)
    if program == "curl" and shutil.which("curl"):
        return unknown([option for option in options_of(arguments) if option.startswith("--")], output_of("curl", "--help", "all"))
    if not documents.OURS.match(program):
        return None
    path = ROOT / program
    if not os.access(path, os.X_OK) or not path.is_file():
        return f"there is no {program}"
    text = text_of(path)
    if program == "tools/build":
        preset = arguments[0] if arguments else "release"
        return None if f'"name": "{preset}"' in build_files() else f"there is no preset {preset}"
    if program == "tools/bench" and arguments:
        text += text_of(ROOT / "bench/compare")
    return unknown([option for option in options_of(arguments) if option != "--help"], text)


def problem_of_built(program):
    """Of a program by its path in a folder of the build: build/PRESET/FOLDER/NAME."""
    if program == "build/release/sluice":
        return None
    folder, name = program.split("/")[-2:]
    kind = name.rpartition("_")
    there = (ROOT / folder / f"{name}.cc", ROOT / folder / "fuzz" / f"{name}.cc", ROOT / folder / kind[0])
    return None if any(path.exists() for path in there) else f"nothing is built as {program}"


if __name__ == "__main__":
    harness.main()
