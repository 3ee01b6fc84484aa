"""Websockets that were quiet for a while, and so continue as small objects without HTTP, end, and are counted and logged, as
those do that were never quiet.
"""

import json
import signal
import time

import harness
from harness import SLOWNESS
from http_tunnel_cut_test import REQUEST
from origins import Origin, last_outcome, reset
from settled_tunnel_support import SETTLED_SECONDS, SettledTest, leave

COUNTERS = {f"{name}_total" for name in (
    "accepted", "received_bytes", "sent_bytes", "sessions_ended", "sessions_reset", "sessions_resumed", "tls_truncated",
    "http_requests", "http_requests_ended", "http_responses", "http_tunnels", "http_request_body_bytes",
    "http_response_body_bytes", "http1_messages", "http1_lost", "http1_malformed", "endpoint_connections",
    "endpoint_received_bytes", "endpoint_sent_bytes", "endpoint_tls_truncated", "upstream_requests",
    "upstream_connections_opened", "access_log_lines", "log_lines")}


def comparable(stats):
    """The counters that are not 0, without the endpoint's address."""
    return {(name, *(label for label in labels if label[0] != "endpoint")): value
            for (name, labels), value in stats.items() if name in COUNTERS and value}


class Ends(SettledTest):
    """Each end once without a pause and once settled: what the peers see, the line and the counters must be the same."""

    def check(self, end, reason, tls=True, http=(), signals=None, log_format="json"):
        seen = []
        for pause in (0, SETTLED_SECONDS):
            origin = self.keep(Origin())
            proxy = self.begin(origin, tls, http, log_format, shutdown_timeout="1s")
            head = REQUEST[:-2] + b"user-agent: test/1\r\ncookie: a=1\r\nx-request-id: 17\r\n\r\n"
            tunnel = self.open(proxy, origin, tls, head)
            self.both(tunnel)
            time.sleep(pause)
            what = end(*tunnel) if not signals else proxy.signal(signals)
            proxy.wait_for(lambda s: s.total("http_requests_ended_total") == 1, 20) if not signals else None
            stats = self.stop(proxy, cut_allowed=True)
            with open(self.log, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertEqual(len(lines), 1, lines)
            line = json.loads(lines[0]) if log_format == "json" else {"line": lines[0]}
            for name in list(line):
                if name in ("time", "duration_us", "client_port", "upstream_us", "request_id", "endpoint"):
                    line[name] = bool(line[name])
            seen.append((what, sorted(line.items()), comparable(stats)))
        self.assertEqual(seen[0][:2], seen[1][:2])
        self.assertEqual(seen[0][2], seen[1][2])
        self.assertIn(reason, str(seen[0][1]))

    def test_client_closes(self):
        def end(client, server):
            leave(client)
            how = last_outcome(server)
            server.close()
            return how
        self.check(end, "ok")

    def test_server_closes(self):
        def end(client, server):
            server.close()
            how = client.recv(1)
            leave(client)
            return how
        self.check(end, "ok")

    def test_client_is_cut(self):
        def end(client, server):
            client.shutdown(2)
            return last_outcome(server)
        self.check(end, "client_reset")

    def test_client_resets(self):
        def end(client, server):
            reset(client)
            return last_outcome(server)
        self.check(end, "client_reset")

    def test_plain_client_resets(self):
        def end(client, server):
            reset(client)
            return last_outcome(server)
        self.check(end, "client_reset", tls=False)

    def test_server_resets(self):
        def end(client, server):
            reset(server)
            return last_outcome(client)
        self.check(end, "upstream_reset", tls=False)

    def test_idle_timeout(self):
        def end(client, server):
            return last_outcome(client), last_outcome(server)
        self.check(end, "idle_timeout", tls=False, http={"tunnel_timeout": f"{int(4000 * SLOWNESS)}ms"})

    def test_shutdown(self):
        self.check(None, "shutdown", signals=signal.SIGTERM)

    def test_text_format(self):
        """Fields of the request and of the response that only a format shows."""
        def end(client, server):
            leave(client)
            how = last_outcome(server)
            server.close()
            return how
        self.check(end, "ok a=1", log_format="%{reason} %{header:cookie} %{header:user-agent} "
                   "%{target} %{response_header:server} %{tls_version} %{route} %{client_ip}")

if __name__ == "__main__":
    harness.main()
