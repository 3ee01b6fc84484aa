"""A headless Chromium that a test drives by the DevTools protocol over two pipes, one message of JSON after the other."""

import base64
import collections
import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time

import harness
from harness import need


class BrowserError(AssertionError):
    pass


class Browser:
    """One page. What the browser complains of is in `complaints`: refused by a policy, errors of scripts, failed requests."""

    _MARK = b"\0"

    def __init__(self, width=1100, height=800):
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-browser-", ignore_cleanup_errors=True)
        commands, events = os.pipe(), os.pipe()
        # Chromium reads commands from descriptor 3 and writes to 4.
        program = f'exec "$@" 3<&{commands[0]} 4>&{events[1]}'
        self._process = harness.spawn(
            [need("bash"), "-c", program, "bash", need("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--hide-scrollbars", f"--user-data-dir={self._folder.name}/profile", f"--window-size={width},{height}",
             "--host-resolver-rules=MAP localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=(commands[0], events[1]), start_new_session=True, env={**os.environ, "HOME": self._folder.name})
        os.close(commands[0])
        os.close(events[1])
        self._commands, self._events = commands[1], events[0]
        self._received = b""
        self._messages = collections.deque()
        self._number = 0
        self._session = None
        self.complaints = []
        target = self._send("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")

    def close(self):
        harness.end(self._process)
        # Its other processes could still write to the folder.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        os.close(self._commands)
        os.close(self._events)
        self._folder.cleanup()

    def _receive(self, deadline):
        while self._MARK not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._events], [], [], left)[0]:
                raise BrowserError("the browser did not respond in time")
            piece = os.read(self._events, 1 << 20)
            if not piece:
                raise BrowserError(f"the browser has ended: {self._process.wait(5)}")
            self._received += piece
        message, _, self._received = self._received.partition(self._MARK)
        return json.loads(message)

    def _send(self, method, parameters=None, seconds=60):
        """The result of a command. Events that come before it are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters or {}}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + self._MARK)
        deadline = time.monotonic() + seconds
        while True:
            received = self._receive(deadline)
            if received.get("id") == self._number:
                if "error" in received:
                    raise BrowserError(f"{method}: {received['error']}")
                return received["result"]
            self._note(received)

    def _note(self, event):
        kind, values = event.get("method"), event.get("params", {})
        if kind == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description") or details["text"])
        elif kind == "Log.entryAdded" and values["entry"]["level"] in ("warning", "error"):
            self.complaints.append(f"{values['entry']['text']} {values['entry'].get('url', '')}")
        elif kind == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.complaints.append(" ".join(str(each.get("value", each.get("description"))) for each in values["args"]))

    # ---- What tests do

    def open(self, url):
        result = self._send("Page.navigate", {"url": url})
        if "errorText" in result:
            raise BrowserError(f"{url}: {result['errorText']}")
        harness.wait_until(lambda: self.run(f"location.href === {json.dumps(url)} && document.readyState === 'complete'"), 30,
                           f"{url} in the browser")

    def run(self, expression):
        """The value of an expression of JavaScript; of a promise, what becomes of it."""
        result = self._send("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression, seconds=30, what=None):
        """The value of the expression as soon as it is one that JavaScript takes for true."""
        try:
            return harness.wait_until(lambda: self.run(expression), seconds, what or expression)
        except AssertionError as error:
            text = self.run("document.body?.innerText") or ""
            raise AssertionError(f"{error}; complaints: {self.complaints}; the page is:\n{text[:5000]}") from None

    def type(self, text):
        """Into what has the focus."""
        self._send("Input.insertText", {"text": text})

    def press(self, key, code=0, text=None):
        for kind in ("keyDown", "keyUp"):
            self._send("Input.dispatchKeyEvent", {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
                                                  **({"text": text} if text and kind == "keyDown" else {})})

    def color_scheme(self, scheme):
        self._send("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def size(self, width, height, mobile=False):
        self._send("Emulation.setDeviceMetricsOverride",
                   {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile})

    def hide(self, hidden):
        """As if another tab was in front."""
        self.run(f"Object.defineProperty(document, 'hidden', {{value: {json.dumps(hidden)}, configurable: true}});"
                 "document.dispatchEvent(new Event('visibilitychange'))")

    def accessible(self):
        """(role, name) of all that assistive technology sees."""
        nodes = self._send("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes
                if not node.get("ignored") and "role" in node]

    def screenshot(self):
        """PNG."""
        return base64.b64decode(self._send("Page.captureScreenshot", {"format": "png"})["data"])
