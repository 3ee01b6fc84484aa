"""Guards that the includes below src and include form no cycle, neither of units nor of folders.

A unit is a header with the source file of the same name; the header of a library unit is in include, its source file in
src/pool or src/buffer. The units of a cycle cannot be understood, tested or moved one without the other, and the headers
alone may not show the cycle: a.cc includes b.h, and b.cc includes a.h. Folders may form a cycle although their units do
not.
"""

import pathlib
import re
import tempfile
import unittest

from include_direction_test import HEADERS, ROOT

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


def unit_of(header, library):
    """"net/worker.h" -> "net/worker"; "sluice/internal/free_stack.h" -> "pool/free_stack", by the floor of the header."""
    name = pathlib.PurePosixPath(header)
    folder = library.get(header) or name.parent
    return f"{folder}/{name.stem}"


def includes(root, library):
    """Unit -> the units that it includes, each with one place where it does."""
    found = {}
    for base in (root / "include", root / "src"):
        for path in sorted(base.rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            unit = unit_of(path.relative_to(base).as_posix(), library)
            edges = found.setdefault(unit, {})
            for header in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if any((root / folder / header).is_file() for folder in ("include", "src")):
                    edges.setdefault(unit_of(header, library), f"{path.relative_to(root)} includes {header}")
            edges.pop(unit, None)
    return found


def folders_of(units):
    """The same for the folders of the units."""
    found = {}
    for unit, edges in units.items():
        folder = unit.rpartition("/")[0]
        into = found.setdefault(folder, {})
        for other, where in edges.items():
            into.setdefault(other.rpartition("/")[0], where)
        into.pop(folder, None)
    return found


def find_cycle(graph):
    """The includes that make up a cycle, in their order; none if there is no cycle."""
    done = set()

    def visit(node, path):
        if node in path:
            cycle = path[path.index(node):] + [node]
            return [graph[a][b] for a, b in zip(cycle, cycle[1:])]
        if node in done:
            return []
        for other in graph.get(node, ()):
            if cycle := visit(other, path + [node]):
                return cycle
        done.add(node)
        return []

    for node in graph:
        if cycle := visit(node, []):
            return cycle
    return []


class Includes(unittest.TestCase):
    def expect_no_cycle(self, graph):
        cycle = find_cycle(graph)
        self.assertFalse(cycle, "a cycle of includes:\n  " + "\n  ".join(cycle))

    def test_units_form_no_cycle(self):
        self.expect_no_cycle(includes(ROOT, HEADERS))

    def test_folders_form_no_cycle(self):
        self.expect_no_cycle(folders_of(includes(ROOT, HEADERS)))


class Finder(unittest.TestCase):
    """The cycles that should be found are found, and no others."""

    library = {"sluice/a.h": "pool", "sluice/b.h": "pool"}

    def cycle_of(self, files, fold=lambda units: units):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, headers in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text("".join(f'#include "{header}"\n' for header in headers), encoding="utf-8")
            return find_cycle(fold(includes(root, self.library)))

    def test_no_cycle(self):
        self.assertEqual([], self.cycle_of({"src/net/a.h": ["net/b.h", "vector"], "src/net/a.cc": ["net/a.h", "net/c.h"],
                                            "src/net/b.h": ["net/c.h"], "src/net/c.h": []}))

    def test_by_source_files(self):
        self.assertEqual(["src/net/a.cc includes net/b.h", "src/net/b.cc includes net/a.h"],
                         self.cycle_of({"src/net/a.h": [], "src/net/a.cc": ["net/a.h", "net/b.h"],
                                        "src/net/b.h": [], "src/net/b.cc": ["net/b.h", "net/a.h"]}))

    def test_of_three_behind_a_start(self):
        self.assertEqual(["src/net/b.h includes net/c.h", "src/net/c.h includes net/d.h", "src/net/d.h includes net/b.h"],
                         self.cycle_of({"src/net/a.h": ["net/b.h"], "src/net/b.h": ["net/c.h"],
                                        "src/net/c.h": ["net/d.h"], "src/net/d.h": ["net/b.h"]}))

    def test_headers_of_the_library_are_one_with_their_sources(self):
        self.assertEqual(["src/pool/a.cc includes sluice/b.h", "include/sluice/b.h includes sluice/a.h"],
                         self.cycle_of({"include/sluice/a.h": [], "src/pool/a.cc": ["sluice/a.h", "sluice/b.h"],
                                        "include/sluice/b.h": ["sluice/a.h"]}))

    def test_of_folders(self):
        files = {"src/net/a.h": ["log/b.h"], "src/log/b.h": [], "src/log/c.h": ["net/d.h"], "src/net/d.h": []}
        self.assertEqual([], self.cycle_of(files))
        self.assertEqual(["src/log/c.h includes net/d.h", "src/net/a.h includes log/b.h"],
                         self.cycle_of(files, fold=folders_of))


if __name__ == "__main__":
    unittest.main()
