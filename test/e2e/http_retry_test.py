"""Where requests go beside the one endpoint, and what is done when it fails: `split`, `mirror`, `retry`, times of routes.

The upstreams are nginx and servers written here; the client is curl.
"""

import collections
import http.server
import socketserver
import subprocess
import threading
import unittest

import harness
from http_peers_support import Nginx


class Origin:
    """Answers with what `answer(n, method, path, body)` says for its n-th request: (status, body)."""

    def __init__(self, answer):
        outer = self
        self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                with outer.lock:
                    outer.seen.append((self.command, self.path, body))
                    number = len(outer.seen)
                status, text = answer(number, self.command, self.path, body)
                self.send_response(status)
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = serve

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
