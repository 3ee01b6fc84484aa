"""Checks the source tree: includes point down the layers, headers are guarded, and no file grows too long.

The floors, which of them each may include, and the floor of each header of the buffer library stand in the tables of
docs/internals/architecture.md.
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


def headers(table):
    """Header of the library -> its floor, by the rows "| headers of `floor` | public ones | those in internal/ |"."""
    rows = {}
    for floor, public, internal in re.findall(r"^\| headers of `(\w+)` \| ([^|]+) \| ([^|]+) \|", table, re.M):
        for folder, names in (("sluice/", public), ("sluice/internal/", internal)):
            rows.update(dict.fromkeys((folder + name for name in re.findall(r"`(\w+\.h)`", names)), floor))
    return rows


ARCHITECTURE = (ROOT / "docs/internals/architecture.md").read_text(encoding="utf-8")
FLOORS = floors(ARCHITECTURE)
HEADERS = headers(ARCHITECTURE)
LIBRARY = set(HEADERS.values())
# The one internal header of the library that the floors above it share: the checks of the whole project.
SHARED = "sluice/internal/check.h"

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


def problems_of_include(name, floor, kind, header, root, library):
    folder = str(pathlib.PurePosixPath(header).parent)
    if header.startswith("sluice/"):
        if header not in library:
            yield f"includes {header}, which does not exist"
        elif library[header] != floor and library[header] not in FLOORS[floor]:
            yield f"{floor} must not know about {library[header]} (includes {header})"
        elif folder == "sluice/internal" and header != SHARED and floor not in LIBRARY:
            yield f"includes {header}, which is internal to the buffer library"
    elif folder in FLOORS or folder.split("/")[0] in {each.split("/")[0] for each in FLOORS}:
        if folder != floor and folder not in FLOORS[floor]:
            yield f"{floor} must not know about {folder} (includes {header})"
        if not (root / "src" / header).is_file():
            yield f"includes {header}, which does not exist"
        if name.startswith("include/"):
            yield f"includes {header}, which is not installed"
    elif kind == '"' and header.split("/")[0] != "absl":
        yield f'includes "{header}": headers of the project are named from src/ or include/ on, others in <>'
    for start, why in FORBIDDEN.get(floor, []):
        if header.startswith(start):
            yield f"{floor} must not include {header}: {why}"


def problems(root, library):
    """All that is wrong below the folders src and include, one line each; `library` has the floors of its headers."""
    found = []
    paths = [p for folder in ("include", "src") for p in (root / folder).rglob("*") if p.suffix in (".h", ".cc")]
    for path in sorted(paths):
        name = path.relative_to(root).as_posix()
        if name.startswith("include/"):
            floor = library.get(name.removeprefix("include/"))
        else:
            floor = path.parent.relative_to(root / "src").as_posix()
        if floor not in FLOORS:
            found.append(f"{name}: docs/internals/architecture.md has no floor for it")
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
                found += [f"{name}:{number}: {what}"
                          for what in problems_of_include(name, floor, *match.groups(), root, library)]
    return found


class SourceTree(unittest.TestCase):
    def test_sources_keep_the_rules(self):
        self.assertEqual([], problems(ROOT, HEADERS))

    def test_the_table_has_each_folder(self):
        folders = {p.parent.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*.cc")}
        self.assertEqual(folders, set(FLOORS))

    def test_the_table_has_each_header(self):
        """As those that are not in it are found above, none is there that is gone."""
        self.assertEqual([], [header for header in HEADERS if not (ROOT / "include" / header).is_file()])

    def test_each_internal_header_is_needed(self):
        """A header is installed because users include it, or because such a header needs it."""
        needed = {header for path in (ROOT / "include").rglob("*.h")
                  for header in re.findall(r'^#include "(.*)"', path.read_text(encoding="utf-8"), re.M)}
        self.assertEqual([], [header for header in HEADERS if "/internal/" in header and header not in needed])


class Checker(unittest.TestCase):
    """The checker finds the problems that it should find."""

    library = {"sluice/a.h": "pool", "sluice/b.h": "buffer", "sluice/internal/i.h": "pool", SHARED: "pool"}

    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return problems(root, self.library)

    def expect(self, files, *words):
        found = self.check(files)
        self.assertEqual(len(words), len(found), found)
        for word, line in zip(words, found):
            self.assertIn(word, line)

    def test_a_good_tree_passes(self):
        uses = f'#include "absl/status/status.h"\n#include "sluice/b.h"\n#include "sluice/a.h"\n#include "{SHARED}"\n'
        self.expect({"include/sluice/a.h": "#pragma once\n#include <cstddef>\n#include \"sluice/internal/i.h\"\n",
                     "include/sluice/b.h": "#pragma once\n#include \"sluice/a.h\"\n",
                     "src/pool/r.h": "#pragma once\n",
                     "src/pool/a.cc": '#include "sluice/a.h"\n#include "pool/r.h"\n',
                     "src/net/n.cc": uses, "src/net/n.h": "#ifndef N_H_\n#define N_H_\n#endif\n",
                     "src/proxy/l4/p.cc": uses + '#include "net/n.h"\n#include "proxy/common/c.h"\n',
                     "src/proxy/common/c.h": "#pragma once\n"})

    def test_upward_and_sideways_includes(self):
        self.expect({"src/pool/a.cc": '#include "sluice/b.h"\n'}, "pool must not know about buffer")
        self.expect({"include/sluice/a.h": '#pragma once\n#include <sluice/b.h>\n'}, "pool must not know about buffer")
        self.expect({"src/alts_like/r.cc": '#include "net/n.h"\n', "src/net/n.h": "#pragma once\n"},
                    "alts_like must not know about net")
        self.expect({"src/net/n.cc": "#include <proxy/l4/p.h>\n", "src/proxy/l4/p.h": "#pragma once\n"},
                    "net must not know about proxy/l4")
        self.expect({"src/proxy/tls/t.cc": '#include "proxy/l4/p.h"\n', "src/proxy/l4/p.h": "#pragma once\n"},
                    "proxy/tls must not know about proxy/l4")

    def test_headers_of_the_library(self):
        self.expect({"src/net/n.cc": '#include "sluice/internal/i.h"\n'}, "is internal to the buffer library")
        self.expect({"include/sluice/b.h": '#pragma once\n#include "pool/r.h"\n', "src/pool/r.h": "#pragma once\n"},
                    "is not installed")
        self.expect({"include/sluice/new.h": "#pragma once\n"}, "has no floor")

    def test_forbidden_headers(self):
        self.expect({"src/pool/a.cc": '#include "absl/strings/str_cat.h"\n'}, "only the standard library")
        self.expect({"include/sluice/b.h": "#pragma once\n#include <absl/status/status.h>\n"}, "only the standard library")
        self.expect({"src/alts_like/r.cc": "#include <sys/socket.h>\n# include <liburing.h>\n"}, "a socket", "a socket")

    def test_names_and_guards(self):
        self.expect({"src/pool/a.cc": '#include "a.h"\n'}, "from src/ or include/ on")
        self.expect({"src/buffer/b.cc": '#include "pool/gone.h"\n#include "sluice/gone.h"\n'}, "not exist", "not exist")
        self.expect({"src/pool/r.h": "#include <cstddef>\n", "include/sluice/a.h": "#include <cstddef>\n"},
                    "no include guard", "no include guard")
        self.expect({"src/misc/m.h": "#pragma once\n", "src/proxy/m.h": "#pragma once\n"}, "no floor", "no floor")

    def test_length(self):
        self.expect({"src/pool/a.cc": "\n" * 701}, "701 lines")
        self.expect({"src/pool/a.cc": "\n" * 700})


if __name__ == "__main__":
    unittest.main()
