"""The suite of HAProxy's tests: how configurations are translated, and that expected failures hide no others."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/suites.d"))
sys.dont_write_bytecode = True
import haproxy_script as vtc  # noqa: E402
from haproxy_configuration import MARK, Translation  # noqa: E402
from haproxy_lines import Unsupported, true, words  # noqa: E402

PROXY = """
defaults
  mode http
listen web
  bind 127.0.0.1:80
  server a 127.0.0.1:81
"""


def routes(rules, behind=""):
    return Translation(PROXY + rules + behind, {}).result()["listeners"][0]["http"]["routes"]


class LinesTest(unittest.TestCase):

    def test_words(self):
        self.assertEqual(["a", "b c", "d e", "f#", ""], words(r"""a "b c" d\ e 'f#' "" # g""", {}))
        self.assertEqual(["5s", "1s", "${x}"], words('"${t-5s}" "${u-5s}" \'${x}\'', {"u": "1s"}))

    def test_conditions(self):
        for text, holds in (("feature(OPENSSL)", True), ("!feature(OPENSSL)", False), ("feature(LUA) || feature(THREAD)", True),
                            ("(feature(LUA) || feature(THREAD)) && feature(LUA)", False), ("version_atleast(2.2-dev0)", True),
                            ("version_atleast(99.0)", False)):
            with self.subTest(text):
                self.assertEqual(holds, true(text, {}))
        with self.assertRaisesRegex(Unsupported, "strange"):
            true("strange(1)", {})

    def test_untaken_branches(self):
        text = PROXY + ".if feature(LUA)\n  strange line\n.else\n  retries 1\n.endif\n"
        self.assertEqual(2, Translation(text, {}).result()["upstreams"][0]["connect_attempts"])


class RulesTest(unittest.TestCase):

    def test_condition_is_a_route_before_the_others(self):
        first, second = routes("  http-request deny deny_status 404 if { path /a }\n")
        self.assertEqual({"path": {"exact": "/a"}}, first["match"])
        self.assertEqual(404, first["respond"]["status"])
        self.assertEqual("web", second["forward"])

    def test_rules_continue_in_both_branches(self):
        found = routes("  http-request set-header x 1 if { path /a } !{ method POST }\n"
                       "  http-request deny if { hdr(y) -m found }\n")
        ways = [(route.get("match"), "x" if route.get("request_headers") else "", "forward" in route) for route in found]
        path, post, field = {"path": {"exact": "/a"}}, {"method": ["POST"]}, {"headers": [{"name": "y"}]}
        self.assertEqual([({**path, **post, **field}, "", False), ({**path, **post}, "", True), ({**path, **field}, "", False),
                          (path, "x", True), (field, "", False), (None, "", True)], ways)

    def test_two_paths_are_distinct(self):
        found = routes("  http-request deny deny_status 400 if { path /a }\n  http-request deny deny_status 404 if { path /b }\n")
        self.assertEqual(["/a", "/b", None], [route.get("match", {}).get("path", {}).get("exact") for route in found])

    def test_untranslated_rules_are_not_dropped(self):
        first, second = routes("  http-request tarpit if { path /a }\n")
        self.assertEqual([{"name": MARK, "set": "http-request tarpit"}], first["response_headers"])
        self.assertEqual("web", second["forward"])
        for rule in ("  http-request deny if { strange }\n", "  option strange\n", "  http-response lua.x\n",
                     "  balance strange\n  server b 127.0.0.1:82\n", "  server b 127.0.0.1:82 track x/y\n"):
            with self.subTest(rule):
                (only,) = routes(rule)
                self.assertIn(MARK, only["respond"]["body"])
        self.assertIn(MARK, routes("  http-request set-header x %[strange]\n")[0]["request_headers"][0]["set"])

    def test_checks_of_unused_servers(self):
        found = Translation(PROXY + "backend b\n  server c 127.0.0.1:83 check inter 100ms\n", {}).result()["upstreams"]
        self.assertEqual(["100ms"], [upstream["health_check"]["interval"] for upstream in found if upstream["name"] == "b"])

    def test_frontends_without_response_are_not_started(self):
        for text in (PROXY.replace("mode http", "mode tcp\n  tcp-request content reject if { strange }"),
                     "global\n  strange x\n" + PROXY, PROXY.replace("127.0.0.1:80\n", "127.0.0.1:80 strange\n"),
                     PROXY + "peers p\n"):
            with self.subTest(text), self.assertRaises(Unsupported):
                Translation(text, {}).result()


LOG = """\
**   c1    Starting client
**   c1    === expect resp.status == 200
---- c1    EXPECT resp.status (503) == "200" failed
"""


class ScriptsTest(unittest.TestCase):

    def test_commands(self):
        first, second = vtc.commands('# a\nserver s1 {\n  stream 1 {\n }\n} \\\n -start\nclient c1 -connect "a b" {}')
        self.assertEqual(["server", "s1", "{\n  stream 1 {\n }\n}", "-start"], first.words)
        self.assertEqual((5, "client"), (len(second.words), second.name))

    def test_first_failure(self):
        failed = vtc.failure(LOG)
        self.assertEqual(("c1", 1, "expect resp.status == 200"), (failed.who, failed.run, failed.line))
        self.assertTrue(failed.of_an_expectation)
        self.assertIsNone(vtc.failure(LOG.replace("----", "****")))
        self.assertEqual(2, vtc.failure(LOG.split("\n", maxsplit=1)[0] + "\n" + LOG).run)

    def test_expectation_is_left_out(self):
        self.assertEqual("{\n rxresp\n rxresp\n}",
                         vtc.without("{\n rxresp\n expect resp.status == 200\n rxresp\n}", vtc.failure(LOG)))

    def test_unknown_command_ends_the_specification(self):
        failed = vtc.failure("**   s1    === rxreq\n**   s1    === rxreq\n---- s1    HTTP rx failed\n")
        self.assertEqual("{\n rxreq\n txresp\n}", vtc.without("{\n rxreq\n txresp\n rxreq\n txresp\n}", failed))
        self.assertIsNone(vtc.without("{\n delay 1\n}", failed))

    def test_marks(self):
        self.assertEqual({"c1": "http-request tarpit"},
                         vtc.marks(f"**   c1    Starting client\n****  c1    http[ 3] |{MARK}: http-request tarpit\\r\n", MARK))


if __name__ == "__main__":
    unittest.main(verbosity=2)
