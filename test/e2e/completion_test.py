"""The completion scripts, each in its shell, and the man page."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import harness
from harness import SLUICE, need


def script(shell):
    return subprocess.run([SLUICE, "completion", shell], capture_output=True, text=True, timeout=20, check=True).stdout


class Completion(harness.SluiceTest):

    def setUp(self):
        super().setUp()
        self.folder = self.temporary_directory()
        os.symlink(os.path.abspath(SLUICE), os.path.join(self.folder, "sluice"))
        for name in ("one.yaml", "two words.yaml"):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8"):
                pass
        self.environment = {"PATH": f"{self.folder}:{os.environ['PATH']}", "HOME": self.folder, "TERM": "dumb", "LC_ALL": "C.UTF-8"}

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def check(self, complete):
        """`complete` returns what a shell offers for a line, as a set."""
        commands = set(re.findall(r"^  sluice (\w+) ", subprocess.run([SLUICE, "help"], capture_output=True, text=True,
                                                                      timeout=20, check=True).stdout, re.MULTILINE))
        self.assertEqual(complete("sluice "), commands)
        self.assertEqual(complete("sluice ex"), {"explain"})
        self.assertLessEqual({"--config", "--workers", "--rings", "--to", "--help"}, complete("sluice run --"))
        self.assertNotIn("--print", complete("sluice run --"))
        self.assertEqual(complete("sluice run --r"), {"--rings", "--read-mode"})
        self.assertEqual(complete("sluice run --rings "), {"auto", "plain", "incremental"})
        self.assertEqual(complete("sluice completion "), {"bash", "zsh", "fish"})
        self.assertEqual(complete("sluice help "), commands)
        self.assertEqual(complete("sluice check --config o"), {"one.yaml"})

    def test_bash(self):
        path = self.write("bash.sh", script("bash"))

        def complete(line):
            words = line.split(" ")
            command = (f"source {path}; COMP_WORDS=({' '.join(word or repr('') for word in words)}); "
                       f"COMP_CWORD={len(words) - 1}; compopt() {{ :; }}; _sluice; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
            result = subprocess.run([need("bash"), "--norc", "-c", command], capture_output=True, text=True, timeout=20, check=True,
                                    cwd=self.folder, env=self.environment)
            self.assertEqual(result.stderr, "")
            return {word for word in result.stdout.splitlines() if word}

        self.check(complete)
        self.assertEqual(complete("sluice run --rings = "), {"auto", "plain", "incremental"})  # As bash splits --rings=.
        self.assertEqual(complete("sluice run --rings = pl"), {"plain"})
        self.assertEqual(complete("sluice check --config t"), {"two words.yaml"})
        self.assertEqual(complete("sluice run --workers "), set())

    def test_fish(self):
        path = self.write("sluice.fish", script("fish"))

        def complete(line):
            result = subprocess.run([need("fish"), "--no-config", "-c", f"source {path}; complete -C '{line}'"],
                                    capture_output=True, text=True, timeout=20, check=True, cwd=self.folder, env=self.environment)
            self.assertEqual(result.stderr, "")
            return {word.partition("\t")[0] for word in result.stdout.splitlines() if word}

        self.check(complete)

    def test_zsh(self):
        """In a terminal, as it completes only there."""
        zsh = need("zsh")
        self.write("_sluice", script("zsh"))
        offers = self.write(".offers", "")
        setup = self.write(".setup", f"fpath=({self.folder} $fpath); autoload -Uz compinit; compinit -u -D\n"
                           "compadd() { local -a found; builtin compadd -O found \"$@\"\n"
                           f"  (( $#found )) && print -rl -- $found >>{offers}; builtin compadd \"$@\" }}\n"
                           "bindkey '^I' complete-word; LISTMAX=1000; print READY$((1 + 1))\n")

        def complete(line):
            self.write(".offers", "")
            pid, terminal = pty.fork()
            if pid == 0:
                os.chdir(self.folder)
                os.execve(zsh, ["zsh", "-f", "-i"], self.environment)
            try:
                os.write(terminal, f"source {setup}\n".encode())
                self.read(terminal, "READY2")
                os.write(terminal, f"{line}\t".encode())
                before, size = -1, 0
                deadline = time.monotonic() + 20
                while (size != before or size == 0) and time.monotonic() < deadline:
                    before = size
                    time.sleep(0.2)
                    size = os.path.getsize(offers)
                with open(offers, encoding="utf-8") as file:
                    return {word.removesuffix("=") for word in file.read().splitlines() if word}
            finally:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(terminal)

        self.check(complete)

    def read(self, terminal, until):
        text, deadline = "", time.monotonic() + 20
        while until not in text:
            left = deadline - time.monotonic()
            self.assertGreater(left, 0, f"waited for {until}: {text!r}")
            if select.select([terminal], [], [], left)[0]:
                text += os.read(terminal, 4096).decode(errors="replace")
        return text


class Manual(harness.SluiceTest):

    def test_manual(self):
        page = subprocess.run([SLUICE, "manual"], capture_output=True, text=True, timeout=20, check=True).stdout
        result = subprocess.run([need("man"), "--warnings", "-l", "-"], input=page, capture_output=True, text=True, timeout=20,
                                check=True, env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
        self.assertEqual(result.stderr, "")
        for part in ("sluice - edge proxy", "sluice run --config FILE", "--read-mode MODE", "Exit codes"):
            self.assertIn(part, result.stdout)


if __name__ == "__main__":
    harness.main()
