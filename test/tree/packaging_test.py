"""The files for packages agree with each other. tools/check-package installs the package and tries the service."""

import configparser
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"


def source(path):
    return (ROOT / path).read_text(encoding="utf-8")


def installed_files():
    """Absolute paths that cmake/Package.cmake gives to files of the tree, with these files."""
    rows = re.findall(r'install\(FILES "\$\{packaging\}/(\S+)" DESTINATION (/\S+)(?: RENAME (\S+))? COMPONENT service\)',
                      source("cmake/Package.cmake"))
    return {f"{folder}/{name or pathlib.PurePath(file).name}": PACKAGING / file for file, folder, name in rows}


class PackagingTest(unittest.TestCase):

    def unit(self):
        # Options may be repeated there, and `%` has no meaning for this parser.
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str
        parser.read_string(source("packaging/systemd/sluice.service"))
        return parser["Service"]

    def test_installed_files_are_there(self):
        files = installed_files()
        self.assertGreaterEqual(len(files), 4)
        for target, file in files.items():
            self.assertTrue(file.is_file(), target)

    def test_configuration_files(self):
        """All that the package puts below /etc stays as the administrator has changed it."""
        listed = source("packaging/debian/conffiles").split()
        self.assertEqual(sorted(listed), sorted(path for path in installed_files() if path.startswith("/etc/")))

    def test_scripts(self):
        for name in ("postinst", "prerm", "postrm"):
            path = PACKAGING / "debian" / name
            with self.subTest(name):
                self.assertEqual(path.stat().st_mode & 0o777, 0o755)
                self.assertIn("set -e\n", path.read_text(encoding="utf-8"))
                self.assertIn(f"/{name}", source("cmake/Package.cmake"))
                subprocess.run(["sh", "-n", path], check=True)

    def test_unit(self):
        service = self.unit()
        configuration = "/etc/sluice/sluice.yaml"
        self.assertIn(configuration, installed_files())
        for key in ("ExecStart", "ExecStartPre"):
            self.assertTrue(service[key].startswith("/usr/bin/sluice ") and service[key].endswith(configuration), service[key])
        self.assertEqual(service["ExecReload"], "/usr/bin/sluice reload --pid $MAINPID")
        # Its folders are those of the package's scripts.
        self.assertEqual((service["User"], f"/var/log/{service['LogsDirectory']}"), ("sluice", "/var/log/sluice"))
        for call in ("io_uring_setup", "io_uring_enter", "io_uring_register"):
            self.assertIn(call, service["SystemCallFilter"].split())

    def test_time_to_stop(self):
        """systemd must not kill a process that drains: shutdown_timeout, and the 5 s that sockets have to close after it."""
        default = re.search(r"^\| `shutdown_timeout` \|.*?\b(\d+)s\b", source("docs/reference/configuration.md"), re.MULTILINE)
        self.assertGreater(int(self.unit()["TimeoutStopSec"]), int(default[1]) + 4)


if __name__ == "__main__":
    unittest.main()
