"""Chromium loads a page of many parts, uploads, and opens websockets: over TLS, HTTP/2 and one connection."""

import base64
import hashlib
import json
import os
import subprocess

import harness
from harness import LONG, MIB, need
from http_peers_support import KINDS, HttpTest, words

PARTS = 100

PAGE = """<!DOCTYPE html><meta charset=utf-8><link rel=icon href="data:,">
%(parts)s
<script>
const hex = bytes => Array.from(new Uint8Array(bytes), x => x.toString(16).padStart(2, '0')).join('');
const hash = async bytes => hex(await crypto.subtle.digest('SHA-256', bytes));
const load = async path => (await fetch(path)).arrayBuffer();

// The text, and bytes of each of the sizes, come back as they went.
function exchange(number) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`wss://${location.host}/websocket?${number}`);
    socket.binaryType = 'arraybuffer';
    const sizes = [0, 1, 125, 126, 65535, 65536, 1 << 20];
    let sent = `hello from ${number}`;
    socket.onopen = () => socket.send(sent);
    socket.onmessage = ({data}) => {
      const same = typeof sent === 'string' ? data === sent :
          new Uint8Array(data).length === sent.length && new Uint8Array(data).every((byte, i) => byte === sent[i]);
      if (!same) return reject(new Error(`another message came back`));
      if (!sizes.length) return socket.close(4321, 'enough');
      sent = new Uint8Array(sizes.shift()).map((_, i) => i * 7 + number);
      socket.send(sent);
    };
    socket.onclose = ({code, reason}) => resolve(`${code} ${reason}`);
    socket.onerror = () => reject(new Error('the websocket failed'));
  });
}

async function look() {
  const images = [...document.images].map(image => image.naturalWidth);
  const downloads = await Promise.all([...Array(10).keys()].map(async n => hash(await load(`/files/data?${n}`))));
  const body = new Uint8Array(%(upload)d).map((_, i) => i * 13);
  const upload = await (await fetch('/echo', {method: 'POST', body})).json();
  const sockets = await Promise.all([1, 2, 3].map(exchange));
  const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
  return {
    scripts: window.scripts, styles: getComputedStyle(document.body).getPropertyValue('--styles').trim().length,
    images, downloads: [...new Set(downloads)], upload: [upload.Bytes, upload.Hash === await hash(body), upload.Proto],
    sockets, count: entries.length, protocols: [...new Set(entries.map(entry => entry.nextHopProtocol))],
  };
}

onload = async () => {
  const report = await look().catch(error => ({error: `${error}`}));
  await fetch('/report', {method: 'POST', body: JSON.stringify(report)});
};
</script>"""


# A message every 100 ms over one websocket.
TICKING = """<!DOCTYPE html><meta charset=utf-8><link rel=icon href="data:,"><script>
const report = what => fetch('/report', {method: 'POST', body: JSON.stringify(what)});
const socket = new WebSocket(`wss://${location.host}/websocket`);
let received = 0;
const send = () => socket.send(`message ${received}`);
socket.onopen = send;
socket.onmessage = async ({data}) => {
  if (data !== `message ${received}`) return socket.close(4000, data);
  if (++received === 5) await report('open');
  received === 50 ? socket.close(4321, 'enough') : setTimeout(send, 100);
};
socket.onclose = ({code, reason}) => report(`${received} messages, ${code} ${reason}`);
</script>"""


class BrowserTest(HttpTest):

    def write_page(self):
        data = os.urandom(MIB)
        self.write("data", data)
        parts = []
        for i in range(PARTS):
            name, tag, text = (
                (f"{i}.js", f"<script src={i}.js></script>",
                 f"window.scripts = (window.scripts ?? 0) + 1;//{'x' * 100 * i}"),
                (f"{i}.css", f"<link rel=stylesheet href={i}.css>",
                 f"body {{ --styles: '{'s' * i}' }} /*{'x' * 100 * i}*/"),
                (f"{i}.svg", f"<img src={i}.svg>",
                 f'<svg xmlns="http://www.w3.org/2000/svg" width="{i + 1}" height="1"/>'),
            )[i % 3]
            parts.append(tag)
            self.write(name, text.encode())
        self.write("page.html", (PAGE % {"parts": "\n".join(parts), "upload": 3 * MIB}).encode())
        return hashlib.sha256(data).hexdigest()

    def pin(self):
        """The hash of the certificate's key, in the form that Chromium takes."""
        key = self.call(need("openssl"), "x509", "-in", self.server["chain"], "-pubkey", "-noout").stdout
        key = self.call("openssl", "pkey", "-pubin", "-outform", "DER", input=key).stdout
        return base64.b64encode(hashlib.sha256(key).digest()).decode()

    def browse(self, proxy, path):
        folder = self.temporary_directory()
        browser = harness.spawn(
            [need("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", f"--user-data-dir={folder}/profile",
             f"--ignore-certificate-errors-spki-list={self.pin()}",
             "--host-resolver-rules=MAP localhost 127.0.0.1, MAP * ~NOTFOUND",
             self.url(proxy, ("http2", True), path)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": folder})
        self.addCleanup(harness.end, browser)
        return browser

    def proxy_of(self, behind):
        """A proxy with a server of pages and one of websockets."""
        pages = self.web_server(behind, files=self.files)
        sockets = self.web_server(behind, node=True)
        config = self.configuration(self.upstream(pages), {"routes": [
            {"match": {"path": {"exact": "/websocket"}}, "forward": "sockets"}, {"forward": "main"}]})
        config["upstreams"].append({**self.upstream(sockets), "name": "sockets"})
        return self.start(config), pages, sockets

    def check(self, behind):
        digest = self.write_page()
        proxy, pages, sockets = self.proxy_of(behind)
        browser = self.browse(proxy, "/files/page.html")
        report = pages.report(60)
        self.assertEqual(report, {
            "scripts": 34, "styles": 97 + 2, "images": list(range(3, PARTS + 1, 3)), "downloads": [digest],
            "upload": [3 * MIB, True, "HTTP/2.0" if behind[0] == "http2" else "HTTP/1.1"],
            "sockets": ["4321 enough"] * 3, "count": 1 + PARTS + 10 + 1, "protocols": ["h2"]}, json.dumps(report))
        for _ in range(3):
            self.assertEqual(sockets.report(), {"Path": "/websocket", "Code": 4321, "Reason": "enough"})
        # Chromium may have opened more connections at the same time, which it closes when the first one is ready.
        stats = proxy.wait_for(lambda s: s.total("sessions_active") == 1, 5, "one connection")
        self.assertLessEqual(stats.total("tls_handshakes_total"), 3)
        self.assertEqual(stats.total("http_connections_total", version="1.1"), 0)
        self.assertEqual(stats.total("http_tunnels_total"), 3)
        harness.end(browser)
        proxy.wait_for(lambda s: s.total("sessions_active") == 0)

    def test_upgrades(self):
        """The websocket, a stream of HTTP/2, moves from process to process."""
        self.write("page.html", TICKING.encode())
        proxy, pages, _ = self.proxy_of(("http1", False))
        self.browse(proxy, "/files/page.html")
        self.assertEqual(pages.report(60), "open")
        for _ in range(3):
            proxy.upgrade()
            self.assertEqual(proxy.before_upgrades[-1].total("http_requests_ended_total", reason="shutdown"), 0)
        self.assertEqual(proxy.stats().total("http_tunnels_total"), 0)
        self.assertEqual(pages.report(60), "50 messages, 4321 enough")

    def test_page(self):
        for behind in KINDS if LONG else (("http1", False), ("http2", True)):
            with self.subTest(words(behind)):
                self.check(behind)


if __name__ == "__main__":
    harness.main()
