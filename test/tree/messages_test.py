"""docs/reference/messages.md has an entry with a meaning for each message of the source, and for no other; tools/messages finds
the messages of a file."""

import importlib.machinery
import importlib.util
import pathlib
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADER = importlib.machinery.SourceFileLoader("messages", str(ROOT / "tools/messages"))
messages = importlib.util.module_from_spec(importlib.util.spec_from_loader("messages", LOADER))
LOADER.exec_module(messages)

PLANTED = r'''
// "no message of a comment"
#include "no message/of a directive.h"
namespace sluice {
absl::Status Planted::check(std::string_view name) {
  if (name.find("not a message") == 0) return absl::OkStatus();
  if (name.empty()) {
    return absl::InvalidArgumentError("expected a name, "
                                      "got nothing");
  }
  log_line(LogLevel::kInfo, absl::StrCat("planted \"", name, "\": ", count, " of them", all ? "" : ", not all"));
  switch (kind) {
    case Kind::kA:
      return fail(kind == 1 ? "the first of two" : "the second of two");
    default:
      throw Refused{mark, absl::StrFormat("a format of %d and %s", 1, words("inside a value"))};
  }
  error_ = std::string("the peer is ") + (known ? "known" : name_of(peer));
  absl::StrAppend(&text, "and ", more, " appended");
  std::fprintf(stderr, "sluice: %s was printed\n", name);
  return {503, kUnavailable, "one of several values"};
}
}  // namespace sluice
'''
FOUND = [
    "expected a name, got nothing",
    'planted "…": … of them<|, not all>',
    "the first of two",
    "the second of two",
    "a format of … and …",
    "inside a value",
    "the peer is <known|…>",
    "and … appended",
    "sluice: … was printed",
    "one of several values",
]

PAGE = """# Messages

## Start, reload and shutdown

In front of all.

    expected a name, got nothing
    gone with others

A meaning
of two lines.

    gone alone

Another meaning.
"""


class MessagesTest(unittest.TestCase):
    maxDiff = None

    def test_each_message_has_a_meaning(self):
        page = messages.Page((ROOT / messages.PAGE).read_text(encoding="utf-8"))
        problems = list(messages.problems(page, messages.messages_in(ROOT)))
        self.assertEqual(problems, [], "see tools/messages --write")

    def test_page_has_the_form_of_write(self):
        text = (ROOT / messages.PAGE).read_text(encoding="utf-8")
        self.assertEqual(messages.Page(text).text(), text)


class ToolTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "src/proxy/server/planted.cc"
        file.parent.mkdir(parents=True)
        file.write_text(PLANTED, encoding="utf-8")
        self.source = messages.messages_in(pathlib.Path(folder.name))

    def test_finds_planted_messages(self):
        self.assertEqual(list(self.source), FOUND)
        line = PLANTED.split("expected a name")[0].count("\n") + 1
        self.assertEqual(self.source[FOUND[0]], [("src/proxy/server/planted.cc", line)])

    def test_reports_what_is_missing_and_what_is_gone(self):
        problems = list(messages.problems(messages.Page(PAGE), self.source))
        for message in FOUND[1:]:
            self.assertTrue(any(p.startswith("no entry for") and p.endswith(message) for p in problems), message)
        self.assertEqual([p for p in problems if not p.startswith("no entry for")],
                         ["the source no longer has: gone with others", "the source no longer has: gone alone"])
        twice = messages.Page(PAGE.replace("gone with others", FOUND[0]))
        self.assertIn(f"more than one entry for: {FOUND[0]}", messages.problems(twice, self.source))

    def test_write(self):
        page = messages.Page(PAGE)
        self.assertEqual(page.text(), PAGE)
        page.update(self.source)
        self.assertEqual(list(messages.problems(page, self.source)), [f"no meaning of: {message}" for message in FOUND[1:]])
        text = page.text()
        self.assertIn("\n    expected a name, got nothing\n\nA meaning\nof two lines.\n", text)
        self.assertNotIn("gone", text)
        self.assertNotIn("Another meaning", text)
        self.assertEqual(messages.Page(text).text(), text)


if __name__ == "__main__":
    unittest.main()
