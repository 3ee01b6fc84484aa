"""The page of the admin listener in a browser: figures of real traffic, an endpoint that dies, a process that drains and ends,
tokens, hostile names, what a browser refuses by the policy (nothing), and that it can be used by all.

Environment variable:
  SLUICE_SCREENSHOTS  a folder for the pictures of the documents: SLUICE_SCREENSHOTS=docs/operating. Those of changes are made by
                      admin_page_changes_test.py
"""

import contextlib
import http.client
import json
import os
import signal
import threading
import time

import harness
from admin_test import AdminTest, TOKEN
from browser import Browser
from origins import Origin, connect, echo, free_port, refused_address
from reload_test import Http1, listener, respond, server, upstream

READ_TABLE = """(id => {
  const table = document.getElementById(id), heads = [...table.tHead.rows[0].cells].map(cell => cell.textContent.trim());
  return [...table.tBodies[0].rows].map(row => Object.fromEntries([...row.cells].map((cell, i) => [heads[i], cell.textContent])));
})"""
SCREENSHOTS = os.environ.get("SLUICE_SCREENSHOTS")
MAX_SCREENSHOT_BYTES = 150 * 1024


class Traffic(threading.Thread):
    """Requests on one connection after the other, until it is stopped."""

    def __init__(self, address, pause, path="/some/path"):
        super().__init__(daemon=True)
        self.address, self.pause, self.path, self.ended = address, pause, path, threading.Event()
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(*self.address, timeout=10 * harness.SLOWNESS)
        while not self.ended.wait(self.pause):
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("GET", self.path)
                connection.getresponse().read()
                continue
            connection.close()
        connection.close()

    def close(self):
        self.ended.set()
        self.join(20 * harness.SLOWNESS)


class PageTest(AdminTest):

    def browse(self, proxy, **size):
        browser = Browser(**size)
        self.addCleanup(browser.close)
        browser.open(f"http://{self.address_of(proxy)}/")
        return browser

    def browse_figures(self, proxy, **size):
        browser = self.browse(proxy, **size)
        browser.wait_for("!document.getElementById('figures').hidden")
        return browser

    def table(self, browser, name):
        return browser.run(f"{READ_TABLE}({json.dumps(name)})")

    def wait_for_row(self, browser, name, seconds=30, **wanted):
        """The first row of a table in which each of the cells has the text."""
        script = (f"{READ_TABLE}({json.dumps(name)}).find(row => Object.entries({json.dumps(wanted)})"
                  ".every(([key, text]) => row[key]?.includes(text)))")
        return browser.wait_for(script, seconds, f"{wanted} in {name}")

    def wait_for_update(self, browser):
        """Until the page shows what it has requested after now."""
        before = browser.run("samples.at(-1)?.timeMs ?? 0")
        browser.wait_for(f"(samples.at(-1)?.timeMs ?? 0) > {before} && !running")
        before = browser.run("samples.at(-1).timeMs")
        browser.wait_for(f"samples.at(-1).timeMs > {before} && !running")

    def state(self, browser):
        return browser.run("document.getElementById('state').textContent")

    def save_picture(self, browser, name):
        picture = browser.screenshot()
        self.assertLessEqual(len(picture), MAX_SCREENSHOT_BYTES)
        with open(os.path.join(SCREENSHOTS, name), "wb") as file:
            file.write(picture)

    def contrasts(self, browser):
        """Texts with less contrast than WCAG 2.2 AA asks for."""
        return browser.run("""(() => {
          const parse = text => text.match(/[\\d.]+/g).map(Number);
          const light = rgb => [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => {
            const value = rgb[i] / 255;
            return sum + share * (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
          }, 0);
          const back = element => {
            for (; element; element = element.parentElement) {
              const rgb = parse(getComputedStyle(element).backgroundColor);
              if (rgb.length === 3 || rgb[3] > 0.99) return rgb;
            }
            return [255, 255, 255];
          };
          const bad = [];
          for (const element of document.querySelectorAll('body *')) {
            if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()) || !element.checkVisibility()) continue;
            const [a, b] = [light(parse(getComputedStyle(element).color)), light(back(element))];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (ratio < 4.5) bad.push(`${element.tagName} ${element.textContent.slice(0, 40)} ${ratio.toFixed(2)}`);
          }
          return bad;
        })()""")


class Response(AdminTest):

    def test_fields(self):
        """Browsers get the page, others the list as before."""
        proxy, _ = self.start_with()
        address = self.address_of(proxy)
        for accept in ("text/html", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "TEXT/HTML;q=0.9"):
            status, fields, body = self.curl(address, "/", "-H", "Accept: " + accept)
            self.assertEqual((status, fields["content-type"]), (200, "text/html; charset=utf-8"))
            self.assertIn("</html>", body)
            policy = dict(each.strip().split(" ", 1) for each in fields["content-security-policy"].split(";"))
            self.assertEqual(policy["default-src"], "'none'")
            self.assertEqual(policy["connect-src"], "'self'")
            self.assertEqual(policy["frame-ancestors"], "'none'")
            for part in "script-src", "style-src":
                self.assertRegex(policy[part], "^'sha256-[a-z0-9+/]{43}='$")
            self.assertEqual(fields["cache-control"], "no-store")
            self.assertEqual(fields["x-content-type-options"], "nosniff")
            self.assertEqual(fields["referrer-policy"], "no-referrer")
            self.assertNotIn("set-cookie", fields)
        for accept in ("*/*", "application/json", "text/*", "x/text/html"):
            status, fields, body = self.curl(address, "/", "-H", "Accept: " + accept)
            self.assertEqual((status, fields["content-type"]), (200, "text/plain; charset=utf-8"))
            self.assertNotIn("content-security-policy", fields)
            self.assertRegex(body, "^/  ")
        self.assertRegex(self.sluice("--address", address, "/"), "^/  ")
        self.assertEqual(self.curl(address, "/", "-I", "-H", "Accept: text/html")[2], "")
        self.assertEqual(self.curl(address, "/", "-X", "POST", "-H", "Accept: text/html")[0], 405)

    def test_only_the_page_is_public(self):
        """With a token, browsers get the page without it, and nothing else."""
        file = self.temporary_directory() + "/token"
        with open(file, "w", encoding="ascii") as out:
            out.write(TOKEN)
        proxy, _ = self.start_with(admin={"token_file": file})
        address, html = self.address_of(proxy), ("-H", "Accept: text/html")
        self.assertEqual(self.curl(address, "/", *html)[0], 200)
        self.assertEqual(self.curl(address, "/")[0], 401)
        self.assertEqual(self.curl(address, "/", "-X", "POST", *html)[0], 401)
        for page in ("/metrics", "/config", "/upstreams", "/healthz", "/nope", "//", "/index.html"):
            self.assertEqual(self.curl(address, page, *html)[0], 401, page)


class Figures(PageTest):

    def test_traffic(self):
        """What the page shows of an ordinary proxy with traffic, and what the pages themselves have."""
        good, tcp = self.keep(Origin(server("good"))), self.keep(Origin(echo))
        proxy, _ = self.start_with(
            listener("web", http={"routes": [{"match": {"path": {"exact": "/none"}}, "forward": "dead"}, {"forward": "app"}]}),
            listener("raw", tcp={"forward": "raw"}),
            upstreams=[upstream("app", good), upstream("raw", tcp), upstream("dead", refused_address(), connect_attempts=1)])
        self.keep(Traffic(proxy.address("web"), 0.02))
        sockets = [self.keep(connect(proxy.address("raw"))) for _ in range(3)]
        for each in sockets:
            each.sendall(b"x")
            each.recv(1)
        browser = self.browse_figures(proxy)
        row = browser.wait_for(f"{READ_TABLE}('listeners').find(row => row.Listener === 'web' && Number(row['Requests/s']) > 1)")
        self.assertEqual((row["Protocol"], row["Connections"], row["HTTP/1.1"], row["HTTP/2"]), ("HTTP", "1", "1", "0"))
        row = self.wait_for_row(browser, "listeners", Listener="raw")
        self.assertEqual((row["Protocol"], row["Connections"], row["Requests/s"]), ("TCP", "3", ""))
        row = browser.wait_for(f"{READ_TABLE}('upstreams').find(row => row.Upstream === 'app' && Number(row['Requests/s']) > 1)")
        self.assertEqual(row["Addresses up"], "1 of 1")
        self.assertEqual(self.table(browser, "errors")[0], {"Reason": "No request or connection has ended with an error."})

        # Errors, with their reason.
        client = self.keep(Http1(proxy, "web"))
        for _ in range(3):
            client.get("/none")
        row = self.wait_for_row(browser, "errors", Reason="no_endpoint")
        self.assertEqual((row["What ended"], row["Listener"], row["Whose error"]), ("requests", "web", "endpoint"))
        self.assertEqual((row["Last 5 min"], row["Since the start"]), ("3", "3"))
        browser.wait_for(f"{READ_TABLE}('errors').some(row => row.Reason === 'no_endpoint' && row['Per second'] !== '0')")
        self.assertIn("requests per second of web end with no_endpoint", browser.run("document.getElementById('attention').innerText"))

        # Memory is what /memory says.
        memory = self.json(proxy, "/memory")
        shown = {row["What"]: row for row in self.table(browser, "memory")}
        self.assertEqual(shown["Budget of all workers"]["Bytes"], f"{memory['pools']['budget_bytes'] >> 20} MiB")
        self.assertRegex(shown["Resident"]["Bytes"], r"^[\d.]+ MiB$")
        self.assertIn("... with data under way, for each of 5 connections", shown)
        self.assertEqual(len(self.table(browser, "tiers")), len(self.json(proxy, "/pools")["workers"][0]["tiers"]))
        self.assertEqual([row["State"] for row in self.table(browser, "workers")], ["responds"] * 2)

        # Who it is.
        facts = browser.run("document.getElementById('facts').textContent")
        generations = self.json(proxy, "/generations")
        self.assertRegex(facts, rf"^version {generations['version']} · process {proxy.pid} · up (\d+ min )?\d+ s · configuration 1$")
        row = self.table(browser, "configurations")[0]
        self.assertEqual((row["Generation"], row["State"]), ("1", "current: 2 listeners, 3 upstreams"))
        self.assertTrue(generations["current"]["hash"].startswith(row["Hash"]))
        # Each chart has a line of at least two points.
        browser.wait_for("[...document.querySelectorAll('svg .line')].every(line => /M.*L/.test(line.getAttribute('d')))")
        self.assertEqual(browser.run("document.querySelectorAll('svg .line').length"), 5)
        self.assertEqual(browser.run("document.cookie"), "")
        self.assertEqual(browser.complaints, [])

    def test_endpoint_dies(self):
        """The reason is shown, first of all endpoints, and it goes away when the endpoint is back."""
        port = free_port()
        dying = Origin(server("dying"), address=("127.0.0.1", port))
        good = self.keep(Origin(server("good")))
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}), upstreams=[
            upstream("app", good, dying, health_check={"interval": "100ms", "http": {"path": "/"}})])
        browser = self.browse_figures(proxy)
        self.assertEqual(self.state(browser), "Ready")
        self.assertIn("Nothing: all endpoints are up", browser.run("document.getElementById('attention').innerText"))
        dying.close()
        row = self.wait_for_row(browser, "endpoints", State="unhealthy")
        self.assertEqual(row["Address"], f"127.0.0.1:{port}")
        self.assertRegex(row["Reason"], r"^its health checks have failed for \d+\.\ds$")
        self.assertRegex(row["Failed checks"], r"^[\d,]+ of [\d,]+$")
        self.assertEqual(self.table(browser, "endpoints")[0]["State"], "unhealthy")
        self.assertEqual(self.table(browser, "upstreams")[0]["Addresses up"], "1 of 2")
        self.assertEqual(self.state(browser), "Ready, 1 notice")
        self.assertEqual(browser.run("document.title"), "(1) Sluice")
        self.assertIn(f"Endpoint 127.0.0.1:{port} of app is unhealthy", browser.run("document.getElementById('attention').innerText"))
        # The filters.
        browser.run("document.getElementById('only-bad').click()")
        self.assertEqual(len(self.table(browser, "endpoints")), 1)
        browser.run("document.getElementById('only-bad').click(); document.getElementById('filter').focus()")
        browser.type("no such name")
        self.assertEqual(self.table(browser, "endpoints"), [{"Address": "There is no such endpoint."}])
        browser.run("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))")
        self.assertEqual(len(self.table(browser, "endpoints")), 2)
        self.keep(Origin(server("back"), address=("127.0.0.1", port)))
        browser.wait_for("document.getElementById('state').textContent === 'Ready'")
        self.assertEqual(browser.complaints, [])

    def test_limits(self):
        proxy, _ = self.start_with(listener("main", max_connections=1, http=respond("hello")))
        browser = self.browse_figures(proxy)
        self.assertEqual(self.table(browser, "limits"), [{"Counter": "No limit was met."}])
        self.keep(Http1(proxy)).get()
        for _ in range(2):
            with contextlib.suppress(OSError), contextlib.closing(connect(proxy.address())) as refused:
                self.assertEqual(refused.recv(1), b"")
        row = self.wait_for_row(browser, "limits", Counter="sluice_refused_total")
        self.assertEqual((row["Where"], row["Last 5 min"], row["Since the start"]), ("main, listener", "2", "2"))
        self.assertGreater(len(row["Meaning"]), 10)
        self.assertIn("2 in the last minutes, at main, listener", browser.run("document.getElementById('attention').innerText"))

    def test_configurations(self):
        """A reload, and an upgrade: the page continues with the new process."""
        proxy, config = self.start_with()
        browser = self.browse_figures(proxy)
        config["listeners"].append(listener("second", http=respond("other")))
        proxy.reload(config)
        self.wait_for_row(browser, "configurations", Generation="2", State="current: 2 listeners, 0 upstreams")
        self.assertIn("1 reload was applied, 0 were refused", browser.run("document.getElementById('reloads').textContent"))
        proxy.upgrade()
        browser.wait_for(f"document.getElementById('facts').textContent.includes('process {proxy.pid} ')")
        self.wait_for_row(browser, "configurations", Generation="1")
        browser.wait_for("!document.body.classList.contains('stale') && samples.length > 2")
        # The counters have begun at zero again.
        self.assertEqual(browser.run("samples.filter(each => each.charts.requests < 0 || each.charts.cpu < 0).length"), 0)

    def test_drain_and_end(self):
        proxy, _ = self.start_with(shutdown_delay="8s")
        browser = self.browse_figures(proxy)
        proxy.signal(signal.SIGTERM)
        browser.wait_for("document.getElementById('state').textContent.startsWith('Not ready: draining')")
        self.assertIn("Not ready: draining; the phase is delaying", browser.run("document.getElementById('attention').innerText"))
        proxy.wait()
        proxy.checked = True
        browser.wait_for("document.getElementById('state').textContent === 'No response'")
        self.assertTrue(browser.run("document.body.classList.contains('stale')"))
        self.assertIn("The last request failed", browser.run("document.getElementById('updated').textContent"))

    def test_many_endpoints(self):
        """No more rows than people read, and those that are not up are among them."""
        addresses = [f"127.0.0.1:{port}" for port in range(1, 601)]
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}), upstreams=[
            upstream("many", *addresses), upstream("app", refused_address(), fail_timeout="60s")])
        self.keep(Http1(proxy)).get()
        browser = self.browse_figures(proxy)
        rows = self.table(browser, "endpoints")
        self.assertEqual((len(rows), rows[0]["Upstream"], rows[0]["State"]), (200, "app", "down"))
        self.assertRegex(rows[0]["Failed connections"], r"^refused \d+$")
        self.assertEqual(browser.run("document.getElementById('endpoint-count').textContent"), "the first 200 of 601")


class Browsers(PageTest):

    def test_hostile_names(self):
        """Names and values are text, whatever they hold."""
        hostile = "<img/src=x/onerror=document.title='hacked'>"
        folder = self.temporary_directory()
        gone = f"unix:{folder}/{hostile.replace('/', ' ')}\"}}\\"
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}),
                                   upstreams=[upstream("app", gone, fail_timeout="60s")])
        self.keep(Http1(proxy)).get()
        browser = self.browse_figures(proxy)
        row = self.wait_for_row(browser, "endpoints", State="down")
        self.assertEqual(row["Address"], gone)
        self.assertRegex(row["Failed connections"], r"\d$", "the counters have the same name")
        # Names of listeners and upstreams are letters and digits, so far.
        browser.run("document.getElementById('pause').click()")
        browser.wait_for("!running")
        browser.run("""loadAll().then(pages => {
          const change = text => text.replaceAll(/\\b(main|app|down|no_endpoint|serving)\\b/g, %s);
          for (const page of Object.values(pages)) {
            page.text = change(page.text);
            if (page.json) page.json = JSON.parse(page.text);
          }
          pages['/readyz'].ok = false;
          show(pages);
        })""" % json.dumps(hostile))
        self.assertEqual(self.table(browser, "listeners")[0]["Listener"], hostile)
        self.assertEqual(self.table(browser, "upstreams")[0]["Upstream"], hostile)
        self.assertEqual(self.table(browser, "endpoints")[0]["State"], hostile)
        self.assertEqual(self.table(browser, "errors")[0]["Reason"], hostile)
        self.assertIn(f"of {hostile} is {hostile}", browser.run("document.getElementById('attention').innerText"))
        self.assertEqual(browser.run("document.images.length"), 0)
        self.assertIn("Sluice", browser.run("document.title"))
        browser.run("""(name => {
          showLatency({json: {upstreams: [{name, [name]: {count: 1, p99_ms: name}}]}});
          showConnections({json: {connections: [{peer: name, listener: name, protocol: name, state: name, upstream: name}]}});
        })(%s)""" % json.dumps(hostile))
        self.assertEqual(self.table(browser, "latency")[0]["What"], hostile)
        self.assertEqual(self.table(browser, "connections")[0]["State"], hostile)
        self.assertEqual(browser.run("document.images.length"), 0)
        self.assertEqual(browser.complaints, [])

    def test_policy(self):
        """The browser keeps scripts, HTML, images and requests of others out."""
        proxy, _ = self.start_with()
        browser = self.browse_figures(proxy)
        self.assertEqual(browser.complaints, [])
        for attempt in ("document.createElement('script').src = '/metrics'", "document.body.innerHTML = '<p>x</p>'", "setTimeout('1')"):
            self.assertTrue(browser.run(f"(() => {{ try {{ {attempt}; }} catch (error) {{ return true; }} }})()"), attempt)
        self.assertEqual(browser.run(f"fetch('http://127.0.0.1:{free_port()}/').then(() => 'sent', error => error.name)"), "TypeError")
        harness.wait_until(lambda: browser.run("1") and len(browser.complaints) >= 4, what="complaints")
        self.assertTrue(all("Security Policy" in each or "TrustedScript" in each or "TrustedHTML" in each or
                            "trusted" in each.lower() for each in browser.complaints), browser.complaints)

    def test_token(self):
        """It is asked for, kept for the tab, and sent with each request."""
        file = self.temporary_directory() + "/token"
        with open(file, "w", encoding="ascii") as out:
            out.write(TOKEN)
        proxy, config = self.start_with(admin={"token_file": file})
        browser = self.browse(proxy)
        browser.wait_for("document.activeElement.id === 'token'")
        self.assertEqual(self.state(browser), "Needs a token")
        self.assertTrue(browser.run("document.getElementById('figures').hidden"))
        browser.type("wrong-token-0123456789")
        browser.press("Enter", 13, "\r")
        browser.wait_for("document.getElementById('login-error').textContent === 'The admin listener refuses this token.'")
        browser.wait_for("document.activeElement.id === 'token'")
        browser.type(TOKEN)
        browser.press("Enter", 13, "\r")
        browser.wait_for("!document.getElementById('figures').hidden")
        self.wait_for_update(browser)
        self.assertEqual(self.table(browser, "listeners")[0]["Listener"], "main")
        self.assertEqual(browser.run("[document.cookie, localStorage.length, location.search, location.hash].join('')"), "0")
        # The same tab has it after it loads the page again.
        browser.open(f"http://{self.address_of(proxy)}/")
        browser.wait_for("!document.getElementById('figures').hidden")
        # Another token: the page asks again.
        with open(file, "w", encoding="ascii") as out:
            out.write(TOKEN[::-1])
        proxy.reload(config)
        browser.wait_for("!document.getElementById('login').hidden && document.getElementById('figures').hidden")
        self.assertTrue(all("401" in each for each in browser.complaints), browser.complaints)

    def test_hidden_tab(self):
        """Nothing is requested while the tab is hidden or the page is paused."""
        proxy, _ = self.start_with()
        browser = self.browse_figures(proxy)

        def requests():
            return self.value(proxy, "sluice_admin_requests_total")
        for stop, go in ((lambda: browser.hide(True), lambda: browser.hide(False)),
                         (lambda: browser.run("document.getElementById('pause').click()"),) * 2):
            stop()
            browser.wait_for("!running")
            before = requests()
            time.sleep(5)
            self.assertEqual(requests(), before + 1)
            go()
            self.wait_for_update(browser)
        self.assertEqual(browser.run("document.getElementById('pause').getAttribute('aria-pressed')"), "false")

    def test_accessible(self):
        """Tables have names and headers, controls have labels, the keyboard gets everywhere, and a phone shows it."""
        proxy, _ = self.start_with(listener("main", http={"forward": "app"}), upstreams=[upstream("app", refused_address())])
        browser = self.browse_figures(proxy)
        self.keep(Http1(proxy)).get()
        self.wait_for_row(browser, "endpoints", State="down")
        seen = browser.accessible()
        roles = [role for role, _ in seen]
        for role in ("table", "textbox", "searchbox", "checkbox", "button", "image", "region", "meter"):
            self.assertEqual([each for each in seen if each[0] == role and not each[1]], [], "without a name")
        self.assertGreaterEqual(roles.count("table"), 9)
        self.assertGreaterEqual(roles.count("columnheader"), 50)
        self.assertGreaterEqual(roles.count("rowheader"), 20)
        self.assertEqual((roles.count("main"), roles.count("banner"), roles.count("status")), (1, 1, 2))
        # Live regions change with the state and with what an operator does, not with each figure.
        self.assertEqual(browser.run("[...document.querySelectorAll('[aria-live=polite], [role=status], [role=alert]')].map(each => each.id)"),
                         ["state", "login-error", "change-result", "profile-state", "dialog-error"])
        reached = []
        for _ in range(30):
            browser.press("Tab", 9)
            reached.append(browser.run("document.activeElement.id || document.activeElement.getAttribute('aria-labelledby') || document.activeElement.href"))
        for name in ("pause", "filter", "only-bad", "listeners-title", "errors-title", "endpoints-title", "limits-title"):
            self.assertIn(name, reached)
        self.assertTrue(reached[0].endswith("#main"), "the first one skips to the figures")
        # The place stays while figures change.
        browser.run("document.getElementById('filter').focus()")
        self.wait_for_update(browser)
        self.assertEqual(browser.run("document.activeElement.id"), "filter")
        light = browser.run("getComputedStyle(document.body).backgroundColor")
        for scheme, width, height in (("light", 360, 700), ("dark", 360, 700), ("dark", 1100, 800)):
            browser.color_scheme(scheme)
            browser.size(width, height, mobile=width < 500)
            self.assertEqual(browser.run("document.documentElement.scrollWidth"), width, "it scrolls to the side")
            self.assertEqual(browser.run("getComputedStyle(document.body).backgroundColor") == light, scheme == "light")
        self.assertEqual(self.contrasts(browser), [])
        browser.color_scheme("light")
        self.assertEqual(self.contrasts(browser), [])
        self.assertEqual(browser.complaints, [])

    def test_optional_pages(self):
        """Percentiles and connections are shown if the process has pages for them, and are no error if it does not."""
        proxy, _ = self.start_with()
        client = self.keep(Http1(proxy))
        client.get()
        browser = self.browse_figures(proxy)
        names = self.get(proxy, "/").split()
        for page in ("latency", "connections"):
            self.assertEqual(browser.run(f"document.getElementById('{page}-section').hidden"), "/" + page not in names)
        if "/latency" in names:
            self.wait_for_row(browser, "latency", Where="listener main", What="request duration", Count="1")
        if "/connections" in names:
            self.wait_for_row(browser, "connections", Client="127.0.0.1, port ", Listener="main", Protocol="http1", State="idle")
        browser.run("document.getElementById('pause').click()")
        browser.wait_for("!running")
        browser.run("""
          const times = (count, p99_ms) => ({count, mean_ms: 1.23456, p50_ms: 1, p90_ms: 2, p99_ms});
          showLatency({json: {listeners: [{name: 'web', request_duration: times(12345, 3), tls_handshake: times(0, null),
                                           routes: [{name: 'slow', request_duration: times(5, 400)}]}],
                              upstreams: [{name: 'app', connect: times(1, 30)}]}});
          showConnections({json: {connections: [{peer: '1.2.3.4', peer_port: 5, listener: 'web', protocol: 'http2', tls: 'TLSv1.3',
            state: 'request', memory_bytes: 65536, queued_bytes: 0, streams: 2, bytes_in: 100, bytes_out: null, age_s: 3700, idle_s: 1,
            upstream: 'app', endpoint: '5.6.7.8:9'}]}});""")
        self.assertEqual([list(row.values()) for row in self.table(browser, "latency")], [
            ["route slow of web", "request duration", "5", "1.23", "1", "2", "400"],
            ["upstream app", "connect", "1", "1.23", "1", "2", "30"],
            ["listener web", "request duration", "12,345", "1.23", "1", "2", "3"]])
        self.assertEqual([list(row.values()) for row in self.table(browser, "connections")], [
            ["1.2.3.4, port 5", "web", "http2, TLSv1.3", "request", "64 KiB", "0 B", "2", "100 B", "", "1 h 1 min", "1 s", "5.6.7.8:9 of app"]])
        browser.run("showLatency(undefined); showConnections({json: null})")
        self.assertTrue(browser.run("document.getElementById('latency-section').hidden && document.getElementById('connections-section').hidden"))
        self.assertEqual(browser.complaints, [])


class Detail(PageTest):
    """From a row of a table to one upstream, or one connection, and back."""

    READ_FACTS = """(id => Object.fromEntries([...document.querySelectorAll(`#${id} dt`)].map(
        term => [term.textContent, term.nextElementSibling.textContent])))"""

    def facts(self, browser, name):
        return browser.run(f"{self.READ_FACTS}({json.dumps(name)})")

    def follow(self, browser, href):
        """As somebody does who has only a keyboard."""
        browser.wait_for(f"[...document.querySelectorAll('#figures a')].some(each => each.getAttribute('href') === {json.dumps(href)})")
        browser.run(f"[...document.querySelectorAll('#figures a')].find(each => each.getAttribute('href') === {json.dumps(href)}).focus()")
        browser.press("Enter", 13, "\r")
        browser.wait_for("!document.getElementById('detail').hidden")

    def test_upstream(self):
        good, dead = self.keep(Origin(server("good"))), refused_address()
        proxy, _ = self.start_with(listener("web", http={"forward": "app.1"}),
                                   upstreams=[upstream("app.1", good, dead, fail_timeout="1m"), upstream("other", good)])
        self.keep(Traffic(proxy.address("web"), 0.02))
        browser = self.browse_figures(proxy)
        self.wait_for_row(browser, "endpoints", Address=dead, State="down")
        self.follow(browser, "#upstream/app.1")
        self.assertTrue(browser.run("document.getElementById('figures').hidden"))
        self.assertEqual(browser.run("document.activeElement.id"), "detail-title")
        self.assertEqual(browser.run("document.getElementById('detail-title').textContent"), "Upstream app.1")
        rows = self.table(browser, "upstream-endpoints")
        self.assertEqual([row["State"] for row in rows], ["down", "up"])
        self.assertIn("connections to it have failed", rows[0]["Reason"])
        self.assertIn("refused ", rows[0]["Failed connections"])
        self.assertGreater(int(rows[0]["Failed in a row"]), 0)
        self.assertEqual(rows[1]["Address"], good.address)
        facts = self.facts(browser, "upstream-facts")
        self.assertEqual((facts["Protocol"], facts["Addresses up"]), ("auto", "1 of 2"))
        self.assertIn("response", [row["What"] for row in self.table(browser, "upstream-latency")])
        # The counters are its own, and go on.
        script = f"Number({READ_TABLE}('upstream-counters').find(row => row.Counter === 'sluice_upstream_requests_total')?.Value.replace(',', '') ?? 0)"
        before = browser.wait_for(script)
        browser.wait_for(f"{script} > {before}")
        self.assertFalse(any("other" in row["Where"] for row in self.table(browser, "upstream-counters")))
        # An operator's change is seen.
        self.get(proxy, f"/upstreams/app.1/endpoints/{good.address}", "-d", "state=draining")
        self.wait_for_row(browser, "upstream-endpoints", State="draining", Changed="127.0.0.1:")
        # Only what leads somewhere is a link.
        self.assertEqual(browser.run("[...new Set([...document.querySelectorAll('td a, th a')].map(each => each.getAttribute('href')[0]))]"), ["#"])
        self.assertEqual(browser.run("document.querySelectorAll('#upstream-endpoints a').length"), 0)
        # Back, to where one was.
        browser.run("document.getElementById('detail-back').focus()")
        browser.press("Enter", 13, "\r")
        browser.wait_for("!document.getElementById('figures').hidden && document.getElementById('detail').hidden")
        self.assertEqual(browser.run("document.activeElement.getAttribute('href')"), "#upstream/app.1")
        # What there is not.
        browser.run("location.hash = '#upstream/nope'")
        browser.wait_for("document.getElementById('detail-text').textContent === 'There is no upstream of this name.'")
        for width in 360, 1100:
            browser.size(width, 700, mobile=width < 500)
            browser.run("location.hash = '#upstream/app.1'")
            browser.wait_for("!document.getElementById('upstream-detail').hidden")
            self.assertEqual(browser.run("document.documentElement.scrollWidth"), width, "it scrolls to the side")
        self.assertEqual(browser.complaints, [])

    def test_connection(self):
        proxy, _ = self.start_with(listener("raw", tcp={"forward": "raw"}), upstreams=[upstream("raw", self.keep(Origin(echo)))])
        sockets = [self.keep(connect(proxy.address("raw"))) for _ in range(3)]
        for each in sockets:
            each.sendall(b"x" * 1000)
            each.recv(1)
        browser = self.browse_figures(proxy)
        table = self.json(proxy, "/connections")["connections"]
        row = next(each for each in table if each["peer_port"] == sockets[1].getsockname()[1])
        # The parameter of the page.
        self.assertEqual([each["id"] for each in self.json(proxy, f"/connections?id={row['id']}")["connections"]], [row["id"]])
        self.assertEqual(self.json(proxy, "/connections?id=0000000000000000")["connections"], [])
        self.assertIn("id: expected an id of 16 hexadecimal digits", self.get(proxy, "/connections?id=12", status=400))
        self.follow(browser, f"#connection/{row['id']}")
        browser.wait_for("document.querySelector('#connection-facts dd') !== null")
        facts = self.facts(browser, "connection-facts")
        self.assertEqual(facts["Client"], f"127.0.0.1, port {row['peer_port']}")
        self.assertEqual((facts["Id"], facts["Listener"], facts["Protocol"], facts["Upstream"]), (row["id"], "raw", "tcp", "raw"))
        sockets[1].sendall(b"x" * 5000)
        browser.wait_for(f"{self.READ_FACTS}('connection-facts').Received.startsWith('5.9 KiB')")
        # It leads on to its upstream, and "back" of the browser returns.
        browser.run("document.querySelector('#connection-facts a').click()")
        browser.wait_for("document.getElementById('detail-title').textContent === 'Upstream raw' && !document.getElementById('upstream-detail').hidden")
        browser.run("history.back()")
        browser.wait_for("!document.getElementById('connection-detail').hidden")
        # It ends.
        sockets[1].close()
        browser.wait_for("document.getElementById('detail-text').textContent.startsWith('There is no such connection')")
        # While the figures are paused, a link shows what there is now.
        browser.run("location.hash = ''")
        browser.run("document.getElementById('pause').click()")
        browser.wait_for("!running")
        other = next(each for each in table if each["peer_port"] == sockets[0].getsockname()[1])
        browser.run(f"location.hash = '#connection/{other['id']}'")
        browser.wait_for(f"{self.READ_FACTS}('connection-facts').Id === {json.dumps(other['id'])} && !document.getElementById('connection-detail').hidden")
        self.assertEqual(browser.complaints, [])


class Flames(PageTest):

    def test_profile(self):
        proxy, _ = self.start_with(listener("web", http={"forward": "app"}), upstreams=[upstream("app", self.keep(Origin(server("good"))))])
        for _ in range(3):
            self.keep(Traffic(proxy.address("web"), 0))
        browser = self.browse_figures(proxy)
        browser.run("document.getElementById('profile-start').focus()")
        browser.press("Enter", 13, "\r")
        browser.wait_for("document.getElementById('profile-state').textContent === 'Sampling for 5 s'")
        browser.press("Enter", 13, "\r")  # Once more does nothing.
        self.wait_for_update(browser)       # The figures go on.
        browser.wait_for("!document.getElementById('profile').hidden", 30)
        self.assertRegex(browser.run("document.getElementById('profile-state').textContent"), r"^[\d.,]+ m?s of processor time in 5 s$")
        bars = browser.run("[...document.querySelectorAll('#flames > div')].map(bar => bar.getAttribute('aria-label'))")
        self.assertRegex(bars[0], r"^all threads, 100 %, [\d,.]+ m?s$")
        self.assertTrue(any(each.startswith("worker ") for each in bars), bars)
        if not harness.SANITIZER:
            self.assertTrue(any("sluice::" in each and "Http" in each for each in bars), bars)
            self.assertTrue(any("sluice::" in row["Function"] for row in self.table(browser, "functions")))
        # Bars lie below the one that calls them, and within it.
        self.assertEqual(browser.run("""[...flameBars].filter(([node]) => node.parent && flameBars.has(node.parent)).filter(([node, bar]) => {
          const own = bar.getBoundingClientRect(), above = flameBars.get(node.parent).getBoundingClientRect();
          return own.left < above.left - 1 || own.right > above.right + 1 || Math.abs(own.top - above.bottom) > 2;
        }).map(([node]) => node.name)"""), [])
        # By keyboard: one of them is reached by Tab, arrows go on, Enter enlarges, Escape shows all.
        self.assertEqual(browser.run("document.querySelectorAll('#flames > div[tabindex=\"0\"]').length"), 1)
        browser.run("document.querySelector('#flames > div[tabindex=\"0\"]').focus()")
        browser.press("ArrowDown", 40)
        label = browser.run("document.activeElement.getAttribute('aria-label')")
        self.assertEqual(browser.run("document.activeElement.getAttribute('aria-level')"), "2")
        self.assertIn(label.split(",")[0], browser.run("document.getElementById('flame-text').textContent"))
        browser.press("Enter", 13, "\r")
        self.assertEqual(browser.run("document.activeElement.getAttribute('aria-label')"), label)
        self.assertEqual(browser.run("Math.round(document.activeElement.offsetWidth / document.getElementById('flames').offsetWidth * 100)"), 100)
        self.assertFalse(browser.run("document.getElementById('profile-whole').hidden"))
        browser.press("ArrowUp", 38)
        self.assertTrue(browser.run("document.activeElement.getAttribute('aria-label')").startswith("all threads"))
        browser.press("Escape", 27)
        self.assertTrue(browser.run("document.getElementById('profile-whole').hidden"))
        seen = browser.accessible()
        self.assertEqual([each for each in seen if each[0] == "treeitem" and not each[1]], [])
        self.assertGreater(len([each for each in seen if each[0] == "treeitem"]), 3)
        for scheme, width in ("dark", 360), ("light", 1100):
            browser.color_scheme(scheme)
            browser.size(width, 800, mobile=width < 500)
            self.assertEqual(browser.run("document.documentElement.scrollWidth"), width, "it scrolls to the side")
            self.assertEqual(self.contrasts(browser), [])
        self.assertEqual(browser.complaints, [])

    def test_profile_of_allocations(self):
        proxy, _ = self.start_with(listener("web", http={"forward": "app"}), upstreams=[upstream("app", self.keep(Origin(server("good"))))])
        for _ in range(3):
            self.keep(Traffic(proxy.address("web"), 0))
        browser = self.browse_figures(proxy)
        browser.run("document.getElementById('allocations-start').click()")
        browser.wait_for("document.getElementById('profile-state').textContent === 'Sampling for 5 s'")
        self.assertEqual(browser.run("document.getElementById('profile-start').getAttribute('aria-disabled')"), "true")
        browser.wait_for("!document.getElementById('profile').hidden", 30)
        self.assertRegex(browser.run("document.getElementById('profile-state').textContent"), r"^[\d.,]+ [KMG]iB allocated in 5 s$")
        bars = browser.run("[...document.querySelectorAll('#flames > div')].map(bar => bar.getAttribute('aria-label'))")
        self.assertRegex(bars[0], r"^all threads, 100 %, [\d,.]+ [KMG]iB$")
        self.assertTrue(any(each.startswith("buffers, ") for each in bars), bars)
        self.assertIn("of the bytes", browser.run("document.getElementById('flame-text').textContent"))
        self.assertLessEqual({"Function", "Own bytes", "Share", "With what it calls"}, set(self.table(browser, "functions")[0]))
        self.assertEqual(browser.complaints, [])

    def test_tree(self):
        """What is made of the lines, a refusal, and names that look like HTML."""
        proxy, _ = self.start_with()
        browser = self.browse_figures(proxy)
        browser.run("document.getElementById('pause').click()")
        browser.wait_for("!running")
        browser.run("""{
          flames = flameTree('a;f;g 300\\na;f;f;g 100\\na;f 100\\nb;<img src=x> 500\\n[lost samples] 7\\n');
          byId('profile').hidden = false;
          drawFlames(flames.root);
        }""")
        self.assertEqual(browser.run("[flames.root.total, flames.lost]"), [1000, 7])
        rows = {row["Function"]: (row["Own time"], row["Share"], row["With what it calls"]) for row in self.table(browser, "functions")}
        self.assertEqual(rows, {"<img src=x>": ("1 ms", "50 %", "1 ms"), "g": ("0 ms", "40 %", "0 ms"), "f": ("0 ms", "10 %", "1 ms")})
        self.assertEqual(browser.run("document.querySelectorAll('#flames img').length"), 0)
        # A profile of somebody else is in progress.
        other = self.connect(proxy)
        other.sendall(b"GET /profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        harness.wait_until(lambda: self.curl(self.address_of(proxy), "/profile?seconds=1")[0] == 409, 10)
        browser.run("document.getElementById('profile-start').click()")
        browser.wait_for("document.getElementById('profile-state').textContent === 'No profile: another profile is in progress; try again later'")


class Screenshot(PageTest):

    def picture(self):
        good, other, tcp = self.keep(Origin(server("good"))), self.keep(Origin(server("good"))), self.keep(Origin(echo))
        routes = [{"match": {"path": {"prefix": f"/{name}"}}, "forward": name} for name in ("api", "reports")]
        proxy, _ = self.start_with(
            listener("web", http={"routes": [*routes, {"forward": "shop"}]}), listener("database", tcp={"forward": "database"}),
            upstreams=[upstream("shop", good, other), upstream("database", tcp), upstream("reports", refused_address(), fail_timeout="1s"),
                       upstream("api", other, refused_address(), health_check={"interval": "1s", "http": {"path": "/"}})])
        for pause in (0.003, 0.01, 0.02, 0.05):
            self.keep(Traffic(proxy.address("web"), pause))
        self.keep(Traffic(proxy.address("web"), 0.3, "/reports/today"))
        for _ in range(8):
            sock = self.keep(connect(proxy.address("database")))
            sock.sendall(b"x")
            sock.recv(1)
        browser = self.browse_figures(proxy, width=1080, height=1000)
        browser.color_scheme("light")
        for i in range(15):
            time.sleep(4)
            if i == 6:
                self.keep(Traffic(proxy.address("web"), 0.002))
        self.save_picture(browser, "page.png")

    if SCREENSHOTS:
        test_picture = picture


if __name__ == "__main__":
    harness.main()
