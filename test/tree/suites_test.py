"""The rules for files of expected results (tools/suites.d/*.expected), and that those in the tree follow them."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tools/suites.d"
sys.path.insert(0, str(FOLDER))
from nginx_translate import NotTranslated, Translation, duration, parse as parse_nginx, size  # noqa: E402
from suite import FAIL, NOT_RUN, PASS, ExpectationError, Result, compare, parse  # noqa: E402

REASON = "RFC 8446 section 5.1"


def problems(results, text, whole=True):
    return compare({case: Result(outcome) for case, outcome in results.items()}, parse(text, "file"), whole).problems


class SuitesTest(unittest.TestCase):

    def test_expected_results(self):
        self.assertEqual([], problems({"a: b": PASS, "a: c": FAIL, "d": NOT_RUN},
                                      f"# why\n\na: c | fail | {REASON}\nd | not-run | {REASON}"))

    def test_unexpected_failure(self):
        self.assertEqual(["a: b: fail"], problems({"a: b": FAIL}, ""))
        self.assertEqual(["a: b: not-run"], problems({"a: b": NOT_RUN}, ""))

    def test_different_outcome(self):
        self.assertEqual(["a: b: fail"], problems({"a: b": FAIL}, f"a: b | not-run | {REASON}"))

    def test_different_failure(self):
        lines = parse(f"a: * | fail: no end | {REASON}", "file")
        self.assertEqual([], compare({"a: b": Result(FAIL, "there was no end")}, lines, True).problems)
        self.assertEqual(["a: b: fail: a reset"], compare({"a: b": Result(FAIL, "a reset")}, lines, True).problems)

    def test_different_reason_not_to_run(self):
        lines = parse(f"a | not-run: no cache | {REASON}", "file")
        self.assertEqual([], compare({"a": Result(NOT_RUN, "there is no cache")}, lines, True).problems)
        self.assertEqual(["a: not-run: no sockets"], compare({"a": Result(NOT_RUN, "no sockets")}, lines, True).problems)

    def test_passing_test_must_be_removed(self):
        self.assertEqual(["a: b: passes, but file:1 expects `fail`: strike it off"],
                         problems({"a: b": PASS}, f"a: b | fail | {REASON}"))
        # Also if it is one of many.
        self.assertEqual(1, len(problems({"a: b": PASS, "a: c": FAIL}, f"a: * | fail | {REASON}")))

    def test_missing_test_must_be_removed(self):
        text = f"a: c | fail | {REASON}"
        self.assertEqual(["file:1: there is no case `a: c`"], problems({"a: b": PASS}, text))
        self.assertEqual([], problems({"a: b": PASS}, text, whole=False))

    def test_only_the_star_is_special(self):
        self.assertEqual([], problems({"a: [b]? (c)": FAIL}, f"a: [b]? * | fail | {REASON}"))
        self.assertEqual(["a: b: fail"], problems({"a: b": FAIL}, f"a: [b] | fail | {REASON}", whole=False))

    def test_invalid_lines(self):
        for line, why in ((f"a: b | fail", "expected `case"), ("a: b | fail | ", "expected `case"),
                          (f"a: b | pass | {REASON}", "the outcome is"), ("a: b | fail | nobody needs it", "names no section"),
                          (f"a: b | failed: x | {REASON}", "the outcome is")):
            with self.subTest(line), self.assertRaisesRegex(ExpectationError, f"file:1: .*{why}"):
                parse(line, "file")

    def test_files_of_the_tree(self):
        files = sorted(FOLDER.glob("*.expected"))
        self.assertTrue(files)
        for path in files:
            with self.subTest(path.name):
                self.assertTrue((FOLDER / f"{path.stem}.py").is_file(), "of no suite")
                for line in parse(path.read_text(encoding="utf-8"), path.name):
                    for word in line.reason.split():
                        if word.startswith("docs/"):
                            name = word.split("#")[0].strip(",.;:()")
                            self.assertTrue((ROOT / name).is_file(), f"{line.where}: there is no {name}")


SERVERS = """
http {
    upstream u { server 127.0.0.1:8081 weight=2; server 127.0.0.1:8082 backup; }
    server {
        listen 127.0.0.1:8080;
        client_max_body_size 2k;   # of one server
        location / { proxy_pass http://u; proxy_set_header Host "a b"; }
        location = /x { return 204; add_header X-Was "${http_x_foo} 5%"; }
        location ~ \\.gif$ { PLACE }
        location /t { proxy_pass http://127.0.0.1:8083/y/; }
    }
}
"""


class NginxTranslateTest(unittest.TestCase):
    """How tools/suites.d/nginx_translate.py reads nginx.conf. Whether Sluice accepts its output is shown by the suite
    itself."""

    def routes(self, place="return 200;"):
        made = Translation(SERVERS.replace("PLACE", place), "/prefix")
        return made, made.config["listeners"][0]["http"]["routes"]

    def test_words(self):
        found = parse_nginx("a 'b \\' c' \"d;\" e${f}g{h}; # i;\nj { k; }")
        self.assertEqual(["a", ["b ' c", "d;"], "j", ["k"]],
                         [found[0].name, found[0].arguments[:2], found[-1].name, [inner.name for inner in found[-1].block]])

    def test_units(self):
        self.assertEqual(["1500ms", "0", "61000ms"], [duration("1s500ms"), duration("0"), duration("1m1s")])
        self.assertEqual([2048, 5, 1 << 20], [size("2k"), size("5"), size("1M")])
        for text in ("1x", "-1", ""):
            with self.assertRaises(NotTranslated):
                size(text)

    def test_order_of_locations(self):
        _, routes = self.routes()
        self.assertEqual([{"exact": "/x"}, {"regex": ".*\\.gif"}, {"regex": "/t.*"}], [route["match"]["path"] for route in routes[:-1]])
        self.assertNotIn("match", routes[-1])

    def test_routes(self):
        made, routes = self.routes()
        self.assertEqual({"status": 204, "body": "", "content_type": "text/plain"}, routes[0]["respond"])
        self.assertEqual([{"name": "X-Was", "add": "%{header:x-foo} 5%%"}], routes[0]["response_headers"])
        self.assertEqual({"regex": "/t(.*)", "substitution": "/y/\\1", "host": "127.0.0.1:8083"}, routes[2]["rewrite"])
        self.assertEqual(("a b", 2048), (routes[3]["rewrite"]["host"], routes[3]["max_body"]))
        endpoints = next(upstream for upstream in made.config["upstreams"] if upstream["name"] == routes[3]["forward"])["endpoints"]
        self.assertEqual([(2, 0), (1, 1)], [(endpoint["weight"], endpoint["priority"]) for endpoint in endpoints])

    def test_untranslated_directives(self):
        made, routes = self.routes("slice 1k; return 200;")
        self.assertEqual({"status": 501, "body": "not translated: slice"}, routes[1]["respond"])
        self.assertEqual(["not translated: location ~ \\.gif$: slice"], made.notes)
        with self.assertRaisesRegex(NotTranslated, "ssi"):
            Translation(SERVERS.replace("upstream u", "ssi on; upstream u").replace("PLACE", "return 200;"), "/prefix")


if __name__ == "__main__":
    unittest.main(verbosity=2)
