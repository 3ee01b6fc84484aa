"""What an operator changes on the page of the admin listener, in a browser with real traffic: drains, weights, and endpoints that
come and go, each after a confirmation; the last warnings and errors; and what pages of other sites try in the same browser.

Environment variable:
  SLUICE_SCREENSHOTS  a folder for the pictures of the documents: SLUICE_SCREENSHOTS=docs/operating
"""

import http.server
import json
import threading
import time

from admin_page_test import PageTest, SCREENSHOTS, Traffic
from admin_test import TOKEN
from origins import Origin, refused_address
from reload_test import Http1, listener, server, upstream
import harness

ENTER, ESCAPE, TAB, SPACE = ("Enter", 13, "\r"), ("Escape", 27), ("Tab", 9), (" ", 32, " ")


class ChangesTest(PageTest):

    def two(self, **options):
        """A proxy with traffic to two origins, and the page of their upstream."""
        self.a, self.b = self.keep(Origin(server("a"))), self.keep(Origin(server("b")))
        proxy, config = self.start_with(listener("web", http={"forward": "app.1"}),
                                        upstreams=[upstream("app.1", self.a, self.b, balance="round_robin")], **options)
        self.keep(Traffic(proxy.address("web"), 0.02))
        return proxy, config

    def browse_upstream(self, proxy, **size):
        browser = self.browse(proxy, **size)
        self.show_upstream(browser)
        return browser

    def show_upstream(self, browser):
        browser.run("location.hash = '#upstream/app.1'")
        browser.wait_for("!document.getElementById('upstream-detail').hidden")

    @staticmethod
    def text(browser, name):
        return browser.run(f"document.getElementById({json.dumps(name)}).textContent")

    def focused(self, browser):
        return browser.run("document.activeElement.getAttribute('aria-label') || document.activeElement.id")

    def focus_button(self, browser, label):
        script = f"[...document.querySelectorAll('#upstream-endpoints button')].find(each => each.getAttribute('aria-label') === {json.dumps(label)})"
        browser.wait_for(f"!!{script}")
        browser.run(f"{script}.focus()")

    def ask(self, browser, label):
        """Opens the dialog as somebody does who has only a keyboard."""
        self.focus_button(browser, label)
        browser.press(*ENTER)
        browser.wait_for("document.getElementById('dialog').open")

    def confirm(self, browser):
        """By Tab to the button, and Enter."""
        for _ in range(5):
            if self.focused(browser) == "dialog-confirm":
                break
            browser.press(*TAB)
        self.assertEqual(self.focused(browser), "dialog-confirm")
        browser.press(*ENTER)

    def wait_for_result(self, browser, text):
        browser.wait_for(f"document.getElementById('change-result').textContent.includes({json.dumps(text)})")
        self.assertFalse(browser.run("document.getElementById('dialog').open"))

    def address(self, proxy, origin):
        """As /upstreams has it."""
        address = getattr(origin, "address", origin)
        found = [row for each in self.json(proxy, "/upstreams")["upstreams"][0]["endpoints"] for row in each["addresses"]
                 if row["address"] == address]
        return found[0] if found else None


class Changes(ChangesTest):

    def test_drain(self):
        """Cancelled, confirmed, and ended, with the keyboard; the requests go elsewhere, and the focus comes back."""
        proxy, config = self.two()
        a = self.a.address
        browser = self.browse_upstream(proxy)
        self.ask(browser, f"Drain {a}")
        self.assertEqual(self.text(browser, "dialog-title"), f"Drain {a} of upstream app.1?")
        self.assertRegex(self.text(browser, "dialog-text"),
                         r"^1 of 2 endpoints remains up\. It gets no new connections and requests\. What it has goes on: \d active\.$")
        self.assertEqual(self.focused(browser), "dialog-cancel", "a key that is held confirms nothing")
        self.assertIn(("dialog", f"Drain {a} of upstream app.1?"), browser.accessible())
        for _ in range(8):  # The focus stays in the dialog, or leaves to the browser's own controls.
            browser.press(*TAB)
            self.assertTrue(browser.run("document.getElementById('dialog').contains(document.activeElement) || document.activeElement === document.body"))
        browser.press(*ESCAPE)
        browser.wait_for("!document.getElementById('dialog').open")
        self.assertEqual(self.focused(browser), f"Drain {a}")
        self.ask(browser, f"Drain {a}")
        browser.press(*ENTER)  # Cancel has the focus.
        browser.wait_for("!document.getElementById('dialog').open")
        self.assertIsNone(self.address(proxy, a)["changed"])

        self.ask(browser, f"Drain {a}")
        self.confirm(browser)
        self.wait_for_result(browser, f"{a} of upstream app.1 drains. The next reload ends that.")
        self.assertEqual(self.address(proxy, a)["state"], "draining")
        row = self.wait_for_row(browser, "upstream-endpoints", Address=a, State="draining", Reason="by 127.0.0.1:", Changed="until a reload")
        self.assertEqual(row["Actions"], "EnableWeight")
        self.assertEqual(self.focused(browser), f"Enable {a}", "the same button")
        client = self.keep(Http1(proxy, "web"))
        self.assertEqual({client.get() for _ in range(8)}, {"b"})
        # The other one is the last one.
        self.ask(browser, f"Drain {self.b.address}")
        self.assertTrue(self.text(browser, "dialog-text").startswith("0 of 2 endpoints remain up. "))
        self.assertEqual(self.text(browser, "dialog-warning"), "No endpoint remains up: requests get a 503, and new connections are closed.")
        browser.press(*ESCAPE)
        self.ask(browser, f"Enable {a}")
        self.assertTrue(browser.run("document.getElementById('dialog-keep-part').hidden"))
        self.confirm(browser)
        self.wait_for_result(browser, f"{a} of upstream app.1 is enabled.")
        self.assertIsNone(self.address(proxy, a)["changed"])

        # Kept across reloads, with the space bar.
        self.ask(browser, f"Drain {a}")
        browser.run("document.getElementById('dialog-keep').focus()")
        self.assertEqual(self.text(browser, "dialog-keep-text"), "The next reload ends it.")
        browser.press(*SPACE)
        self.assertEqual(self.text(browser, "dialog-keep-text"), "Reloads keep it, as long as the upstream has the address.")
        self.confirm(browser)
        self.wait_for_result(browser, "drains. Reloads keep that.")
        proxy.reload(config)
        self.assertEqual(self.address(proxy, a)["state"], "draining")
        self.assertEqual(browser.complaints, [])
        self.assertEqual(self.value(proxy, 'sluice_admin_requests_refused_total{reason="origin"}'), 0)

    def test_weight(self):
        """Set, refused by the process, and as configured again."""
        proxy, _ = self.two()
        a = self.a.address
        browser = self.browse_upstream(proxy)
        self.ask(browser, f"Weight {a}")
        self.assertEqual(self.focused(browser), "dialog-weight")
        self.assertEqual(self.text(browser, "dialog-text"), "Its weight is 1, and 1 in the configuration. The new one applies at once to new "
                         "connections and requests: all endpoints that are up have 2 together.")
        # The process says what is wrong, the dialog stays, and what was typed, too.
        browser.type("5000")
        browser.press(*ENTER)
        browser.wait_for("document.getElementById('dialog-error').textContent !== ''")
        self.assertEqual(self.text(browser, "dialog-error"),
                         'Nothing has changed: 400, weight: expected a number from 1 to 1000, or configured, got "5000"')
        self.assertTrue(browser.run("document.getElementById('dialog').open"))
        self.assertEqual(browser.run("document.getElementById('dialog-weight').value"), "5000")
        browser.run("document.getElementById('dialog-weight').select()")
        browser.type("9")
        browser.press(*ENTER)
        self.wait_for_result(browser, f"{a} of upstream app.1 has weight 9. The next reload ends that.")
        self.assertEqual(self.address(proxy, a)["weight"], 9)
        self.wait_for_row(browser, "upstream-endpoints", Address=a, Weight="9")
        self.assertEqual(self.focused(browser), f"Weight {a}")
        self.ask(browser, f"Weight {a}")
        self.assertIn("Its weight is 9, and 1 in the configuration.", self.text(browser, "dialog-text"))
        browser.type("1")
        browser.press(*ENTER)
        self.wait_for_result(browser, "has its configured weight.")
        self.assertIsNone(self.address(proxy, a)["changed"])
        # The only complaint is the one of the browser about the 400.
        self.assertTrue(all("400" in each for each in browser.complaints), browser.complaints)

    def test_add_and_remove(self):
        proxy, _ = self.two()
        third = self.keep(Origin(server("c")))
        browser = self.browse_upstream(proxy)
        browser.run("document.getElementById('add-address').focus()")
        browser.type("a.name:80")
        browser.press(*ENTER)
        browser.wait_for("document.getElementById('dialog').open")
        self.confirm(browser)
        browser.wait_for("document.getElementById('dialog-error').textContent.includes('names are for the configuration')")
        browser.press(*ESCAPE)
        browser.run("document.getElementById('add-address').select()")
        browser.type(third.address)
        browser.press(*ENTER)
        browser.wait_for("document.getElementById('dialog').open")
        self.assertEqual(self.text(browser, "dialog-title"), f"Add {third.address} to upstream app.1?")
        self.confirm(browser)
        self.wait_for_result(browser, f"{third.address} of upstream app.1 is added. The next reload ends that.")
        self.wait_for_row(browser, "upstream-endpoints", Address=third.address, State="up", Endpoint="added")
        client = self.keep(Http1(proxy, "web"))
        self.assertEqual({client.get() for _ in range(9)}, {"a", "b", "c"})
        # Only what was added can be removed here. The confirmation is about what has happened meanwhile, too.
        self.assertEqual([row["Actions"] for row in self.table(browser, "upstream-endpoints")], ["DrainWeight"] * 2 + ["DrainWeightRemove"])
        self.ask(browser, f"Remove {third.address}")
        self.assertIn("2 of 3 endpoints remain up.", self.text(browser, "dialog-text"))
        self.get(proxy, f"/upstreams/app.1/endpoints/{third.address}", "-X", "DELETE")
        browser.wait_for("document.getElementById('dialog-warning').textContent === 'The upstream does not have it any more.'")
        self.confirm(browser)
        browser.wait_for("document.getElementById('dialog-error').textContent.includes('Nothing has changed: 404, upstream app.1 has no endpoint')")
        browser.press(*ESCAPE)
        # What another operator has removed comes back.
        self.get(proxy, f"/upstreams/app.1/endpoints/{self.a.address}", "-X", "DELETE")
        self.ask(browser, f"Bring back {self.a.address}")
        self.confirm(browser)
        self.wait_for_result(browser, f"{self.a.address} of upstream app.1 is back.")
        self.assertEqual(self.address(proxy, self.a)["state"], "up")
        self.get(proxy, f"/upstreams/app.1/endpoints/{third.address}", "-d", "add=true")
        self.ask(browser, f"Remove {third.address}")
        self.confirm(browser)
        self.wait_for_result(browser, f"{third.address} of upstream app.1 is removed.")
        browser.wait_for("document.activeElement.id === 'upstream-endpoints-title'", what="a place for the focus, as the row is gone")

    def test_rows_stay(self):
        """No row moves under the pointer when an endpoint fails or drains; the process that is gone is an error."""
        proxy, _ = self.two()
        browser = self.browse_upstream(proxy)
        addresses = [self.a.address, self.b.address]
        self.assertEqual([row["Address"] for row in self.table(browser, "upstream-endpoints")], addresses)
        self.get(proxy, f"/upstreams/app.1/endpoints/{self.b.address}", "-d", "state=draining")
        self.wait_for_row(browser, "upstream-endpoints", Address=self.b.address, State="draining")
        self.assertEqual([row["Address"] for row in self.table(browser, "upstream-endpoints")], addresses)
        self.assertEqual(self.table(browser, "endpoints")[0]["Address"], self.b.address, "first of all")
        self.ask(browser, f"Drain {self.a.address}")
        self.assertTrue(self.text(browser, "dialog-text").startswith("0 of 2"))
        proxy.signal(9)
        proxy.wait()
        proxy.checked = True
        self.confirm(browser)
        browser.wait_for("document.getElementById('dialog-error').textContent.includes('Whether it has changed is not known')")

    def test_token(self):
        """With the token of the tab, which is in no address; a token that has changed meanwhile changes nothing."""
        file = self.temporary_directory() + "/token"
        with open(file, "w", encoding="ascii") as out:
            out.write(TOKEN)
        proxy, config = self.two(admin={"token_file": file})
        browser = self.browse(proxy)
        browser.wait_for("document.activeElement.id === 'token'")
        browser.type(TOKEN)
        browser.press(*ENTER)
        browser.wait_for("!document.getElementById('figures').hidden")
        self.show_upstream(browser)
        self.ask(browser, f"Drain {self.a.address}")
        self.confirm(browser)
        self.wait_for_result(browser, "drains. The next reload ends that.")
        self.assertEqual(browser.run("[document.cookie, localStorage.length, location.search, location.hash].join('')"), "0#upstream/app.1")
        self.assertFalse(browser.run(f"performance.getEntriesByType('resource').some(each => each.name.includes({json.dumps(TOKEN)}))"))
        self.ask(browser, f"Weight {self.a.address}")
        with open(file, "w", encoding="ascii") as out:
            out.write(TOKEN[::-1])
        proxy.reload(config)
        browser.wait_for("document.activeElement.id === 'token' && !document.getElementById('dialog').open")


class Shown(ChangesTest):

    def test_last_errors(self):
        """Warnings and errors of the log, escaped, and those of an upstream with the upstream."""
        hostile = "<img/src=x/onerror=document.title='hacked'>"
        gone = f"unix:{self.temporary_directory()}/{hostile.replace('/', ' ')}"
        proxy, config = self.start_with(listener("web", http={"forward": "app.1"}),
                                        upstreams=[upstream("app.1", gone, fail_timeout="60s"), upstream("other", refused_address())])
        browser = self.browse_figures(proxy)
        self.assertEqual(self.table(browser, "log"), [{"Time (UTC)": "There was none since the process began."}])
        for _ in range(2):
            self.keep(Http1(proxy, "web")).get()
        row = self.wait_for_row(browser, "log", Level="warning")
        self.assertIn(hostile.replace("/", " "), row["Message"])
        self.assertTrue(row["About"].startswith("upstream app.1, endpoint unix:"), row)
        self.assertRegex(row["Time (UTC)"], r"^\d\d:\d\d:\d\d$")
        proxy.reload({**config, "listeners": [listener("web", tcp={"forward": "nobody"})]}, succeeds=False)
        self.wait_for_row(browser, "log", Level="error", Message="nobody")
        self.assertEqual(self.table(browser, "log")[-1]["Message"], row["Message"], "the newest first")
        self.assertRegex(browser.run("document.getElementById('attention').innerText"), r"Error of \d+ s ago: reload: .*nobody")
        page = self.json(proxy, "/errors")
        self.assertIn(f"{page['errors']} error", self.text(browser, "log-caption"))
        self.assertEqual([each["text"] for each in page["lines"]], [each["Message"] for each in self.table(browser, "log")])
        self.show_upstream(browser)
        self.assertEqual({each["Level"] for each in self.table(browser, "upstream-log")}, {"warning"})
        browser.run("location.hash = '#upstream/other'")
        browser.wait_for(f"{json.dumps('There is none among those that are kept.')} === document.querySelector('#upstream-log td').textContent")
        self.assertEqual(browser.run("document.images.length"), 0)
        self.assertEqual(browser.complaints, [])

    def test_accessible(self):
        """On a phone, in the dark, and with a screen reader: the upstream, its dialog with a warning, and a result."""
        proxy, _ = self.two()
        browser = self.browse_upstream(proxy)
        self.ask(browser, f"Drain {self.a.address}")
        self.confirm(browser)
        self.wait_for_result(browser, "drains")
        self.assertEqual(browser.run("document.getElementById('change-result').getAttribute('role')"), "status")
        self.assertEqual(browser.run("document.getElementById('dialog-error').getAttribute('role')"), "alert")
        self.wait_for_row(browser, "upstream-endpoints", State="draining", Actions="Enable")
        self.focus_button(browser, f"Drain {self.b.address}")
        seen = browser.accessible()
        for label in (f"Enable {self.a.address}", f"Weight {self.a.address}", f"Drain {self.b.address}"):
            self.assertIn(("button", label), seen)
        self.assertIn(("form", "Add an endpoint"), seen)
        for role in ("textbox", "spinbutton", "checkbox", "button", "table", "region", "dialog"):
            self.assertEqual([each for each in seen if each[0] == role and not each[1]], [], "without a name")
        browser.press(*ENTER)
        browser.wait_for("document.getElementById('dialog').open")
        browser.run("document.getElementById('dialog-error').textContent = 'Nothing has changed: 409, an error of the process'")
        for scheme, width in (("light", 360), ("dark", 360), ("dark", 1100), ("light", 1100)):
            browser.color_scheme(scheme)
            browser.size(width, 740, mobile=width < 500)
            self.assertEqual(browser.run("document.documentElement.scrollWidth"), width, "it scrolls to the side")
            self.assertEqual(self.contrasts(browser), [])
            edges = browser.run("(each => [each.left, each.top, each.right, each.bottom])(document.getElementById('dialog').getBoundingClientRect())")
            self.assertTrue(0 <= edges[0] and 0 <= edges[1] and edges[2] <= width and edges[3] <= 740, edges)
            for button in ("dialog-cancel", "dialog-confirm"):
                self.assertGreaterEqual(browser.run(f"document.getElementById('{button}').offsetHeight"), 32 if width > 500 else 36)
        seen = browser.accessible()
        self.assertIn(("checkbox", "Keep it across reloads"), seen)
        self.assertEqual([each for each in seen if each[0] == "button"], [("button", "Cancel"), ("button", "Drain")], "the rest is inert")


class OtherSites(ChangesTest):
    """A page of another site in the operator's browser."""

    ATTACK = """<!DOCTYPE html><title>other</title><form id=f method=post action="%(target)s" target=t enctype="text/plain">
      <input name="state" value="draining"></form><iframe name=t></iframe>
      <img src="%(admin)s/profile?seconds=60"><script src="%(admin)s/config"></script>"""

    def attacker(self):
        """A site of the same machine, so that a browser takes it for the same site, but for another origin."""
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = test.page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        return site.server_address[1]

    def test_browser(self):
        proxy, _ = self.two()
        port = int(self.address_of(proxy).rsplit(":", 1)[1])
        target = f"http://127.0.0.1:{port}/upstreams/app.1/endpoints/{self.a.address}"
        self.page = self.ATTACK % {"target": target, "admin": f"http://127.0.0.1:{port}"}
        site = self.attacker()

        def refused():
            return self.value(proxy, 'sluice_admin_requests_refused_total{reason="origin"}')
        for host in ("127.0.0.1", "localhost"):
            browser = self.browse(proxy)
            before = refused()
            browser.open(f"http://{host}:{site}/")
            harness.wait_until(lambda: refused() >= before + 2, what="the image and the script")
            before = refused()
            browser.run("document.getElementById('f').submit()")
            harness.wait_until(lambda: refused() == before + 1, what="the form")
            for options in ("{method: 'POST', mode: 'no-cors', body: 'state=draining'}", "{method: 'POST', body: 'state=draining'}",
                            "{method: 'PUT', body: 'state=draining'}", "{method: 'DELETE'}",
                            "{method: 'POST', body: 'state=draining', headers: {Authorization: 'Bearer x'}}", "{}"):
                before = refused()
                done = browser.run(f"fetch({json.dumps(target)}, {options}).then(each => each.type, error => error.name)")
                self.assertIn(done, ("TypeError", "opaque"), options)
                self.assertGreaterEqual(refused(), before + (0 if "PUT" in options or "DELETE" in options else 1), options)
        self.assertEqual([each["addresses"][0]["changed"] for each in self.json(proxy, "/upstreams")["upstreams"][0]["endpoints"]], [None, None])
        self.assertEqual(self.value(proxy, "sluice_admin_endpoint_changes_total"), 0)
        # A link leads to the page.
        browser.run(f"location.href = 'http://127.0.0.1:{port}/'")
        browser.wait_for("!document.getElementById('figures')?.hidden")

    def test_curl(self):
        """What browsers would send, also by a port that is forwarded to a Unix socket, and preflights."""
        folder = self.temporary_directory()
        proxy, _ = self.start_with(listener("web", http={"forward": "app.1"}), admin={"address": ["127.0.0.1:0", f"unix:{folder}/admin.sock"]},
                                   upstreams=[upstream("app.1", refused_address())])
        origin = self.json(proxy, "/upstreams")["upstreams"][0]["endpoints"][0]["endpoint"]
        page, tcp = f"/upstreams/app.1/endpoints/{origin}", "127.0.0.1:" + next(
            each for each in proxy.stderr().split("admin listener on ")[1].split("\n")[0].split(", ") if each.startswith("127")).split(":")[1]
        for address in (tcp, f"unix:{folder}/admin.sock"):
            own = "http://localhost" if address.startswith("unix") else f"http://{address}"
            for fields in (("Origin: http://evil.example",), ("Origin: null",), ("Sec-Fetch-Site: cross-site",),
                           (f"Origin: {own}", "Sec-Fetch-Site: same-site"), ("Host: evil.example:9901", "Origin: http://evil.example:9901"),
                           ("Host: evil.example:9901",)):
                options = [part for each in fields for part in ("-H", each)]
                status, _, body = self.curl(address, page, "-d", "state=draining", *options)
                self.assertEqual(status, 403, fields)
                self.assertIn("requests must name an IP address or localhost" if fields[0].startswith("Host") else "the page of another site", body)
                status, got, _ = self.curl(address, page, "-X", "OPTIONS", "-H", "Access-Control-Request-Method: PUT", *options)
                self.assertEqual(status, 403, fields)
                self.assertFalse([name for name in got if name.startswith("access-control-")])
            self.assertEqual(self.curl(address, page, "-d", "weight=3", "-H", f"Origin: {own}", "-H", "Sec-Fetch-Site: same-origin")[0], 200)
            self.assertEqual(self.curl(address, page, "-d", "weight=configured")[0], 200, "no browser")
        self.assertEqual(self.curl(tcp, page, "-X", "OPTIONS", "-H", f"Origin: http://{tcp}")[0], 405)
        metrics = self.curl(tcp, "/metrics")[2]
        self.assertIn('sluice_admin_requests_refused_total{reason="origin"} 16\n', metrics)
        self.assertIn('sluice_admin_requests_refused_total{reason="host"} 8\n', metrics)
        self.assertIn("sluice_admin_endpoint_changes_total 4\n", metrics)


class Pictures(ChangesTest):

    def pictures(self):
        good = [self.keep(Origin(server("good"))) for _ in range(3)]
        proxy, _ = self.start_with(listener("web", http={"forward": "api"}), upstreams=[
            upstream("api", *good, refused_address(), health_check={"interval": "1s", "http": {"path": "/"}})])
        for pause in (0.003, 0.01, 0.02):
            self.keep(Traffic(proxy.address("web"), pause))
        browser = self.browse(proxy, width=1080, height=760)
        browser.color_scheme("light")
        browser.run("location.hash = '#upstream/api'")
        browser.wait_for("!document.getElementById('upstream-detail').hidden")
        self.wait_for_row(browser, "upstream-endpoints", State="unhealthy")
        time.sleep(12)
        self.ask(browser, f"Drain {good[1].address}")
        self.save_picture(browser, "page-drain.png")
        self.confirm(browser)
        self.wait_for_result(browser, "drains")
        self.wait_for_row(browser, "upstream-endpoints", State="draining")
        browser.color_scheme("dark")
        browser.size(390, 760, mobile=True)
        self.save_picture(browser, "page-phone.png")

    if SCREENSHOTS:
        test_pictures = pictures


if __name__ == "__main__":
    harness.main()
