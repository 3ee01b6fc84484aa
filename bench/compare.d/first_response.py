"""The time to the first response over a new TLS connection: from connect() until all of its 120 bytes have arrived."""
import socket, statistics, time

from machine import LOCAL, Failure
from tls import client_context

# So that a connection does not coincide with the end of the previous one.
PAUSE_S = 0.002
VARIANTS = {'new': (False, True), 'resumed': (True, True), 'new_nagle': (False, False), 'resumed_nagle': (True, False)}


def first_response_load(client):
    """Full and resumed handshakes, with and without TCP_NODELAY at the client, in turn. Figures are medians in us."""
    def run_one(case, session, no_delay):
        """Returns the time, and a session to resume."""
        start = time.perf_counter_ns()
        one = client(Connecting(case, session, no_delay))
        one.settled = True                             # HTTP/2: the response does not wait for acknowledged settings.
        try:
            one.request()
            taken_us = (time.perf_counter_ns() - start) / 1000
            if one.socket.session_reused != (session is not None): raise Failure('the session was not resumed as it should be')
            return taken_us, one.socket.session
        finally: one.close()

    def load(case):
        taken, session = {name: [] for name in VARIANTS}, None
        end = time.monotonic() + case.options.dur
        while time.monotonic() < end:
            for name, (resumes, no_delay) in VARIANTS.items():
                us, fresh = run_one(case, session if resumes else None, no_delay)
                taken[name].append(us)
                session = fresh if not resumes else session
                time.sleep(PAUSE_S)
        return {name: statistics.median(figures) for name, figures in taken.items()}
    return load


class Connecting:
    """A case whose connections resume a session, with or without TCP_NODELAY."""

    def __init__(self, case, session, no_delay):
        self.is_tls, self.port, self.session, self.no_delay = True, case.port, session, no_delay

    def connect(self, protocol):
        plain = socket.create_connection((LOCAL, self.port), 10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, self.no_delay)
        return client_context(protocol).wrap_socket(plain, session=self.session)
