"""Checks the source tree: includes point down the layers, headers are guarded, and no file grows too long.

The layers, and which of them each may include, are in the table of docs/internals/architecture.md.
"""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def floors(table):
    """Folder of src -> the folders that it may include, from the rows "| `folder` | nothing, a list, or all above
    |"."""
    rows = {}
    for folder, may in re.findall(r"^\| `([\w/]+)` \| ([^|]+) \|", table, re.M):
        rows[folder] = set(rows) if may == "all above" else set(re.findall(r"`([\w/]+)`", may))
    return rows


FLOORS = floors((ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8"))

# Layer -> headers that it must not include, by the beginnings of their names, and why.
FORBIDDEN = {
    "pool": [("absl/", "the buffer library needs only the standard library")],
    "buffer": [("absl/", "the buffer library needs only the standard library")],
    "alts_like": [
        (header, "record layers never see a socket")
        for header in ("sys/socket.h", "sys/epoll.h", "netinet/", "arpa/", "linux/io_uring.h", "liburing")
    ],
}

MAX_LINES = 700
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
GUARD = re.compile(r"^\s*#\s*pragma\s+once\b|^\s*#\s*ifndef\s+\w+\s*\n\s*#\s*define\s+\w+", re.MULTILINE)


def problems_of_include(floor, kind, header, src):
    folder = str(pathlib.PurePosixPath(header).parent)
    if folder in FLOORS or folder.split("/")[0] in {each.split("/")[0] for each in FLOORS}:
        if folder != floor and folder not in FLOORS[floor]:
            yield f"{floor} must not know about {folder} (includes {header})"
        if not (src / header).is_file():
            yield f"includes {header}, which does not exist"
    elif kind == '"' and header.split("/")[0] != "absl":
        yield f'includes "{header}": headers of the project are named from src/ on, others in <>'
    for start, why in FORBIDDEN.get(floor, []):
        if header.startswith(start):
            yield f"{floor} must not include {header}: {why}"


def problems(src):
    """All problems below the folder src, one line each."""
    found = []
    for path in sorted(p for p in src.rglob("*") if p.suffix in (".h", ".cc")):
        name = path.relative_to(src)
        floor = name.parent.as_posix()
        if floor not in FLOORS:
            found.append(f"{name}: the folder is no floor of docs/internals/architecture.md")
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if len(lines) > MAX_LINES:
            found.append(f"{name}: {len(lines)} lines, more than {MAX_LINES}: which second idea does it hold?")
        if path.suffix == ".h" and not GUARD.search(text):
            found.append(f"{name}: no include guard")
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match:
                found += [f"{name}:{number}: {what}" for what in problems_of_include(floor, *match.groups(), src)]
    return found


class SourceTree(unittest.TestCase):
    def test_sources_follow_the_rules(self):
        self.assertEqual([], problems(ROOT / "src"))

    def test_the_table_has_each_folder(self):
        folders = {p.parent.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*.cc")}
        self.assertEqual(folders, set(FLOORS))


class Checker(unittest.TestCase):
    """The checker finds the problems that it should find."""

    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            src = pathlib.Path(folder)
            for name, text in files.items():
                (src / name).parent.mkdir(parents=True, exist_ok=True)
                (src / name).write_text(text, encoding="utf-8")
            return problems(src)

    def expect(self, files, *words):
        found = self.check(files)
        self.assertEqual(len(words), len(found), found)
        for word, line in zip(words, found):
            self.assertIn(word, line)

    good = {"pool/a.h": "#pragma once\n#include <cstddef>\n", "buffer/b.h": "#pragma once\n"}

    def test_good_tree_passes(self):
        uses = '#include "absl/status/status.h"\n#include "buffer/b.h"\n#include "pool/a.h"\n'
        self.expect({**self.good, "net/n.cc": uses, "proxy/l4/p.cc": uses + '#include "net/n.h"\n#include "proxy/common/c.h"\n',
                     "proxy/common/c.h": "#pragma once\n",
                     "net/n.h": "#ifndef N_H_\n#define N_H_\n#endif\n"})

    def test_upward_and_sideways_includes(self):
        self.expect({**self.good, "pool/a.cc": '#include "buffer/b.h"\n'}, "pool must not know about buffer")
        self.expect({**self.good, "alts_like/r.cc": '#include "net/n.h"\n', "net/n.h": "#pragma once\n"},
                    "alts_like must not know about net")
        self.expect({**self.good, "net/n.cc": "#include <proxy/l4/p.h>\n", "proxy/l4/p.h": "#pragma once\n"},
                    "net must not know about proxy/l4")
        self.expect({"proxy/tls/t.cc": '#include "proxy/l4/p.h"\n', "proxy/l4/p.h": "#pragma once\n"},
                    "proxy/tls must not know about proxy/l4")

    def test_forbidden_headers(self):
        self.expect({"pool/a.cc": '#include "absl/strings/str_cat.h"\n'}, "only the standard library")
        self.expect({"buffer/b.cc": "#include <absl/status/status.h>\n"}, "only the standard library")
        self.expect({"alts_like/r.cc": "#include <sys/socket.h>\n# include <liburing.h>\n"}, "a socket", "a socket")

    def test_names_and_guards(self):
        self.expect({**self.good, "pool/a.cc": '#include "a.h"\n'}, "from src/ on")
        self.expect({"buffer/b.cc": '#include "pool/gone.h"\n'}, "does not exist")
        self.expect({"pool/a.h": "#include <cstddef>\n"}, "no include guard")
        self.expect({"misc/m.h": "#pragma once\n", "proxy/m.h": "#pragma once\n"}, "no floor", "no floor")

    def test_length(self):
        self.expect({"pool/a.cc": "\n" * 701}, "701 lines")
        self.expect({"pool/a.cc": "\n" * 700})


if __name__ == "__main__":
    unittest.main()
