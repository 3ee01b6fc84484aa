"""Each relative link of the documents, with its anchor, has a target; and the README stays short."""

import collections
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README_LINES = 120


def documents(root):
    return [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md"))]


def prose(text):
    """The text without blocks of code, whose lines are blanked, so that no shell comment is a heading."""
    lines, fence = [], None
    for line in text.splitlines():
        mark = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if fence is None and mark:
            fence = mark[1]
        elif fence is not None:
            if re.match(rf" {{0,3}}{fence}", line):
                fence = None
        elif not line.startswith("    "):
            lines.append(line)
            continue
        lines.append("")
    return "\n".join(lines)


def anchors(text):
    """The anchors of the headings, as GitHub makes them; a repeated heading has a number."""
    seen, found = collections.Counter(), set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", prose(text), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(text):
    """Targets of [text](target), ![image](target) and [name]: target. Code spans have none."""
    text = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", prose(text))
    targets = re.findall(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)", text)
    return targets + re.findall(r"^ {0,3}\[[^\]]+\]:\s+(\S+)", text, re.MULTILINE)


def broken_links(root):
    """(document, target, problem) for each broken link."""
    broken, known = [], {}
    for document in documents(root):
        for target in links(document.read_text(encoding="utf-8")):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue  # On another host.
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            name = str(document.relative_to(root))
            if not file.exists() or not file.is_relative_to(root):
                broken.append((name, target, "no such file"))
            elif anchor and file.suffix == ".md":
                if file not in known:
                    known[file] = anchors(file.read_text(encoding="utf-8"))
                if anchor not in known[file]:
                    broken.append((name, target, "no such heading"))
    return broken


class LinksTest(unittest.TestCase):

    def test_links_resolve(self):
        found = sum(len(links(document.read_text(encoding="utf-8"))) for document in documents(ROOT))
        self.assertGreater(found, 200)
        self.assertEqual(broken_links(ROOT), [])

    def test_each_page_is_in_an_index(self):
        """In docs/README.md, or in the README of a folder that is in it."""
        indices, linked = [ROOT / "docs/README.md"], set()
        for index in indices:
            found = {(index.parent / target.partition("#")[0]).resolve()
                     for target in links(index.read_text(encoding="utf-8"))} - linked
            linked |= found
            indices += sorted(page for page in found if page.name == "README.md" and page.is_relative_to(ROOT / "docs"))
        pages = set(ROOT.glob("docs/**/*.md")) - {indices[0]}
        self.assertEqual(sorted(str(page.relative_to(ROOT)) for page in pages - linked), [])

    def test_readme_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()), README_LINES)

    def test_rules(self):
        """What counts as a link and as a heading."""
        text = "# A `b` (c), d\n\n[x](y.md#z) `[no](no.md)` ![i](i.svg)\n```\n# no\n[no](no.md)\n```\n## A\n## A\n    [no](n)\n"
        self.assertEqual(links(text), ["y.md#z", "i.svg"])
        self.assertEqual(anchors(text), {"a-b-c-d", "a", "a-1"})


if __name__ == "__main__":
    unittest.main()
