"""Failing peers: for each stage of a connection at which a peer fails, what the other side sees."""

import contextlib
import os
import signal
import socket
import threading
import unittest
import time

import harness
from harness import MIB, wait_until
from origins import (BlackHole, Origin, ping, connect, echo, free_port, last_outcome, outcome, outcome_of_connecting,
                     receive_all, receive_exactly, refused_address, reset, send_name)
from workers import OriginProcess

# More than all socket buffers on the way can hold.
MUCH = 64 * MIB


def send_until_blocked(sock, at_most=MUCH, piece=65536, pause=0):
    """Sends until nothing takes any more. Returns how much was sent."""
    patience = sock.gettimeout()
    sock.settimeout(0.5)
    sent = 0
    try:
        while sent < at_most:
            sent += sock.send(bytes(piece))
            time.sleep(pause)
    except socket.timeout:
        return sent
    finally:
        sock.settimeout(patience)
    raise AssertionError(f"{at_most} bytes went out to somebody who does not read")


class Resets(harness.SluiceTest):

    def pair(self, **config):
        """A client's socket and its server's, connected through a proxy."""
        origin = self.keep(Origin())
        self.sluice = self.proxy(origin.address, **config)
        client = self.keep(connect(self.sluice.address()))
        server = self.keep(origin.accept())
        return client, server

    def ended(self, reason, count=1):
        self.sluice.wait_for(lambda s: s.ended(reason) == count and s.total("sessions_active") == 0,
                             what=f"a session that ends as {reason}")

    def assert_next_send_fails(self, sender):
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            for _ in range(300 * harness.SLOWNESS):
                sender.sendall(b"anybody there?")
                time.sleep(0.01)

    def test_client_resets_while_idle(self):
        client, server = self.pair()
        reset(client)
        self.assertEqual(outcome(server), "reset")
        self.ended("client_error")

    def test_server_resets_while_idle(self):
        client, server = self.pair()
        reset(server)
        self.assertEqual(outcome(client), "reset")
        self.ended("upstream_error")

    def test_client_resets_mid_stream(self):
        client, server = self.pair()
        client.sendall(bytes(MIB))
        receive_exactly(server, 1000)
        reset(client)
        self.assertEqual(last_outcome(server), "reset")
        self.ended("client_error")

    def test_server_resets_mid_stream(self):
        client, server = self.pair()
        server.sendall(bytes(MIB))
        receive_exactly(client, 1000)
        reset(server)
        self.assertEqual(last_outcome(client), "reset")
        self.ended("upstream_error")

    def test_client_resets_while_the_server_sends_much(self):
        client, server = self.pair()
        send_until_blocked(server)
        reset(client)
        self.assertEqual(last_outcome(server), "reset")
        self.ended("client_error")

    def test_server_resets_while_the_client_sends_much(self):
        client, server = self.pair()
        send_until_blocked(client)
        reset(server)
        self.assertEqual(last_outcome(client), "reset")
        self.ended("upstream_error")

    def test_client_resets_after_its_fin(self):
        """The client has sent FIN and the server still sends when the client resets."""
        client, server = self.pair()
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(outcome(server), "end")
        reset(client)
        # No data from the client is read any more: the next bytes sent to it meet the reset.
        self.assert_next_send_fails(server)
        self.ended("client_error")

    def test_server_resets_after_its_fin(self):
        client, server = self.pair()
        server.shutdown(socket.SHUT_WR)
        self.assertEqual(outcome(client), "end")
        reset(server)
        self.assert_next_send_fails(client)
        self.ended("upstream_error")

    def test_server_resets_after_client_fin(self):
        client, server = self.pair()
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(outcome(server), "end")
        reset(server)
        self.assertEqual(outcome(client), "reset")
        self.ended("upstream_error")

    def connect_with_slow_upstream(self):
        """A client whose connection waits for an unreachable endpoint before it gets to the server."""
        hole, origin = self.keep(BlackHole()), self.keep(Origin())
        self.sluice = self.proxy(hole.address, origin.address, upstream={"connect_timeout": "500ms"})
        return connect(self.sluice.address()), origin

    def test_client_resets_before_upstream_connects(self):
        """The reset is noticed once there is an endpoint, which sees a reset and not an empty request."""
        client, origin = self.connect_with_slow_upstream()
        reset(client)
        self.assertEqual(outcome(self.keep(origin.accept())), "reset")
        self.ended("client_error")

    def test_client_sends_and_resets_before_upstream_connects(self):
        """Defect: the server got the data and nothing else, and the session lived until its idle timeout. The kernel
        never reports a reset that is there before a multishot receive is armed, with data before it. It retries after
        data only when more data (or an end, but not an error) is queued, and no wake-up follows."""
        client, origin = self.connect_with_slow_upstream()
        client.sendall(b"hello")
        time.sleep(0.1)
        reset(client)
        server = self.keep(origin.accept())
        self.assertEqual(last_outcome(server), "reset")
        self.ended("client_error")

    def test_client_resets_while_reading_is_paused(self):
        """As above, but the receive was stopped because the server is slow. The client sends little at a time, so that
        its stream is not received in bulk."""
        origin = self.keep(Origin(receive_buffer=4096))
        self.sluice = self.proxy(origin.address, tcp={"buffer_high": "4KiB"})
        client = self.keep(connect(self.sluice.address()))
        server = self.keep(origin.accept())
        send_until_blocked(client, piece=4096, pause=0.0005)
        reset(client)
        self.assertEqual(last_outcome(server), "reset")
        self.ended("client_error")

    def test_client_ends_before_upstream_connects(self):
        """All that it sent and its end arrive at the endpoint that is connected in the end."""
        hole = self.keep(BlackHole())
        origin = self.keep(Origin())
        self.sluice = self.proxy(hole.address, origin.address,
                                 upstream={"connect_timeout": "300ms", "max_fails": 0})
        for _ in range(2):
            client = self.keep(connect(self.sluice.address()))
            client.sendall(b"request")
            client.shutdown(socket.SHUT_WR)
            server = self.keep(origin.accept())
            self.assertEqual(receive_all(server), b"request")
            server.sendall(b"response")
            server.close()
            self.assertEqual(receive_all(client), b"response")
        self.ended("finished", 2)

    @contextlib.contextmanager
    def stopped_proxy(self):
        """The proxy is stopped meanwhile, and then sees all events at once."""
        self.sluice.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.sluice.signal(signal.SIGCONT)

    def test_writable_and_reset_are_seen_together(self):
        """Defect: the send that continued met the reset and reported only that the connection had begun to end, so that
        the server saw an orderly end."""
        for _ in range(5):
            client, server = self.pair()
            send_until_blocked(server)
            with self.stopped_proxy():
                receive_exactly(client, 300_000)
                time.sleep(0.05)
                reset(client)
            self.assertEqual(last_outcome(server), "reset")
            self.ended("client_error")

    def test_data_and_reset_are_seen_together(self):
        for sender, reason in ((0, "client_error"), (1, "upstream_error")):
            with self.subTest(reason):
                pair = self.pair()
                with self.stopped_proxy():
                    pair[sender].sendall(b"last words")
                    time.sleep(0.05)
                    reset(pair[sender])
                self.assertEqual(last_outcome(pair[1 - sender]), "reset")
                self.ended(reason)

    def test_data_and_reset_before_the_receive(self):
        """As in test_client_sends_and_resets_before_upstream_connects, without control over the timing: a client that
        sent and reset at once was faster than the proxy's connect, and the server never got the reset."""
        origin = self.keep(Origin())
        self.sluice = self.proxy(origin.address)
        count = 50
        for _ in range(count):
            client = connect(self.sluice.address())
            client.sendall(b"last words")
            reset(client)
        outcomes = []
        for _ in range(count):
            server = self.keep(origin.accept())
            server.settimeout(2 * harness.SLOWNESS)
            outcomes.append(last_outcome(server))
            server.close()
            if outcomes.count("silence") > 2:
                break
        self.assertEqual(set(outcomes), {"reset"})
        self.ended("client_error", count)

    def test_many_simultaneous_resets(self):
        origin = self.keep(Origin(echo))
        self.sluice = self.proxy(origin.address, workers=2)
        for _ in range(3):
            clients = [connect(self.sluice.address()) for _ in range(60)]
            for number, client in enumerate(clients):
                client.sendall(bytes(1 + number * 1000))
            for client in clients:
                reset(client)
        self.sluice.wait_for(lambda s: s.total("sessions_active") == 0 and s.total("accepted_total") == 180)

    def test_client_resets_while_server_does_not_read(self):
        """The client's bytes fill every buffer, then it resets. The server sees the reset once it reads."""
        client, server = self.pair()
        send_until_blocked(client)
        reset(client)
        self.assertEqual(last_outcome(server), "reset")
        self.ended("client_error")


class HalfClose(harness.SluiceTest):

    def pair(self):
        origin = self.keep(Origin())
        self.sluice = self.proxy(origin.address)
        client = self.keep(connect(self.sluice.address()))
        return client, self.keep(origin.accept())

    def test_client_ends_first(self):
        """The client still receives all that the server sends, however late."""
        client, server = self.pair()
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(receive_all(server), b"question")
        time.sleep(0.3)
        response = os.urandom(3 * MIB)
        sender = threading.Thread(target=lambda: (server.sendall(response), server.close()), daemon=True)
        sender.start()
        self.assertEqual(receive_all(client), response)
        sender.join(10)
        self.sluice.wait_for(lambda s: s.ended("finished") == 1)

    def test_server_ends_first(self):
        client, server = self.pair()
        server.sendall(b"welcome")
        server.shutdown(socket.SHUT_WR)
        self.assertEqual(receive_all(client), b"welcome")
        time.sleep(0.3)
        upload = os.urandom(3 * MIB)
        sender = threading.Thread(target=lambda: (client.sendall(upload), client.close()), daemon=True)
        sender.start()
        self.assertEqual(receive_all(server), upload)
        sender.join(10)
        self.sluice.wait_for(lambda s: s.ended("finished") == 1)

    def test_end_follows_queued_data(self):
        """A slow reader gets every byte before the end."""
        client, server = self.pair()
        data = os.urandom(8 * MIB)
        sender = threading.Thread(target=lambda: (client.sendall(data), client.shutdown(socket.SHUT_WR)), daemon=True)
        sender.start()
        got = bytearray()
        while len(got) < 2 * MIB:
            got += server.recv(32768)
            time.sleep(0.002)
        got += receive_all(server)
        self.assertEqual(bytes(got), data)
        sender.join(10)
        server.close()
        self.assertEqual(outcome(client), "end")

    def test_data_and_end_are_seen_together(self):
        client, server = self.pair()
        for sender, receiver in ((client, server), (server, client)):
            self.sluice.signal(signal.SIGSTOP)
            sender.sendall(b"last words")
            time.sleep(0.05)
            sender.shutdown(socket.SHUT_WR)
            self.sluice.signal(signal.SIGCONT)
            self.assertEqual(receive_all(receiver), b"last words")
        self.sluice.wait_for(lambda s: s.ended("finished") == 1)

    def test_data_and_end_before_the_receive(self):
        """Defect: on Unix sockets the server never got the end of a client that sent and closed at once. The kernel's
        multishot receive, armed when both are there already, reports the data and then waits for a wake-up that does
        not come. (For TCP it looks for the end; for a Unix socket, and for a reset, it does not.)"""
        directory = self.temporary_directory()
        for kind, unix in (("TCP", False), ("Unix", True)):
            with self.subTest(kind):
                origin = self.keep(Origin(None, f"{directory}/origin.sock" if unix else ("127.0.0.1", 0)))
                proxy = self.proxy(origin.address, listener={"address": f"unix:{directory}/s.sock"} if unix else {})
                for _ in range(20):
                    client = self.keep(connect(proxy.address()))
                    client.sendall(b"question")
                    client.shutdown(socket.SHUT_WR)
                    server = self.keep(origin.accept())
                    server.settimeout(3 * harness.SLOWNESS)
                    self.assertEqual((outcome(server), outcome(server)), (b"question", "end"))
                    server.sendall(b"answer")
                    server.close()
                    self.assertEqual(receive_all(client), b"answer")

    def test_end_without_data(self):
        client, server = self.pair()
        client.shutdown(socket.SHUT_WR)
        self.assertEqual(outcome(server), "end")
        server.shutdown(socket.SHUT_WR)
        self.assertEqual(outcome(client), "end")
        self.sluice.wait_for(lambda s: s.ended("finished") == 1)


class Endpoints(harness.SluiceTest):

    def test_refused_endpoint_is_passed_over(self):
        origin = self.keep(Origin(echo))
        dead = refused_address()
        proxy = self.proxy(dead, origin.address, upstream={"max_fails": 0})
        for _ in range(10):
            with connect(proxy.address()) as client:
                self.assertTrue(ping(client))
        stats = self.stop(proxy)
        self.assertEqual(stats.ended("finished"), 10)
        # Every other connection tried this endpoint first.
        self.assertEqual(stats.connect_errors("refused", endpoint=dead), 5)

    def test_all_refused(self):
        proxy = self.proxy(refused_address(), refused_address(), refused_address(), refused_address())
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        stats = proxy.wait_for(lambda s: s.ended("no_endpoint") == 1)
        self.assertEqual(stats.connect_errors("refused"), 3)  # connect_attempts

    def test_missing_unix_socket(self):
        proxy = self.proxy(f"unix:{self.temporary_directory()}/nobody.sock")
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        proxy.wait_for(lambda s: s.ended("no_endpoint") == 1 and s.connect_errors("refused") == 1)

    def test_unreachable_endpoint(self):
        proxy = self.proxy("255.255.255.255:9")
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        proxy.wait_for(lambda s: s.ended("no_endpoint") == 1 and s.total("endpoint_connect_errors_total") == 1)

    def test_black_hole_then_the_next(self):
        hole, origin = self.keep(BlackHole()), self.keep(Origin(echo))
        proxy = self.proxy(hole.address, origin.address, upstream={"connect_timeout": "400ms", "max_fails": 0})
        times = []
        for _ in range(2):
            start = time.monotonic()
            with connect(proxy.address()) as client:
                self.assertTrue(ping(client))
            times.append(time.monotonic() - start)
        self.assertGreaterEqual(max(times), 0.39)
        self.assertLess(max(times), 3 * harness.SLOWNESS)
        self.assertEqual(self.stop(proxy).connect_errors("timeout", endpoint=hole.address), 1)

    def test_only_black_holes(self):
        holes = [self.keep(BlackHole()) for _ in range(2)]
        proxy = self.proxy(*(hole.address for hole in holes), upstream={"connect_timeout": "200ms"})
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        stats = proxy.wait_for(lambda s: s.ended("no_endpoint") == 1)
        self.assertEqual(stats.connect_errors("timeout"), 2)

    def test_process_dies_mid_stream(self):
        """The process of an endpoint is killed while the client sends: its kernel resets the connection."""
        origin = self.keep(OriginProcess("hold"))
        proxy = self.proxy(origin.address)
        client = self.keep(connect(proxy.address()))
        send_until_blocked(client)
        origin.kill()
        self.assertEqual(last_outcome(client), "reset")
        proxy.wait_for(lambda s: s.ended("upstream_error") == 1)
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        proxy.wait_for(lambda s: s.ended("no_endpoint") == 1)

    def test_cool_down_and_recovery(self):
        """After max_fails failures in a row an endpoint is passed over for fail_timeout, then tried again."""
        good = self.keep(Origin(send_name(b"good")))
        port = free_port()
        bad_address = f"127.0.0.1:{port}"
        proxy = self.proxy(bad_address, good.address, upstream={"max_fails": 2, "fail_timeout": "1500ms"})

        def who():
            with connect(proxy.address()) as client:
                return receive_exactly(client, 4)

        for _ in range(12):
            self.assertEqual(who(), b"good")
        self.assertEqual(proxy.stats().connect_errors("refused", endpoint=bad_address), 2)
        # No connection goes there before the time is over, though the endpoint is up again.
        reborn = self.keep(Origin(send_name(b"born"), ("127.0.0.1", port)))
        self.assertEqual({who() for _ in range(6)}, {b"good"})
        wait_until(lambda: who() == b"born", 5, "the endpoint that came back")
        self.assertEqual({who() for _ in range(4)}, {b"good", b"born"})
        self.assertGreater(reborn.count, 0)
        self.assertEqual(proxy.stats().connect_errors("refused", endpoint=bad_address), 2)

    def test_cool_down_is_ignored_when_all_are_down(self):
        port = free_port()
        proxy = self.proxy(f"127.0.0.1:{port}", upstream={"fail_timeout": "1h"})
        self.assertEqual(outcome_of_connecting(proxy.address()), "reset")
        self.keep(Origin(echo, ("127.0.0.1", port)))
        with connect(proxy.address()) as client:
            self.assertTrue(ping(client))

    def test_weights_and_least_connections(self):
        origins = [self.keep(Origin(send_name(name))) for name in (b"a", b"b")]
        endpoints = [{"address": origins[0].address, "weight": 3}, origins[1].address]
        for balance in ("round_robin", "least_connections", "least_request", "random"):
            with self.subTest(balance):
                proxy = self.proxy(*endpoints, upstream={"balance": balance})
                clients = [self.keep(connect(proxy.address())) for _ in range(40)]
                names = [receive_exactly(client, 1) for client in clients]
                for client in clients:
                    client.close()
                if balance == "random":
                    self.assertGreater(names.count(b"a"), names.count(b"b"))
                else:
                    self.assertEqual(names.count(b"a"), 30)
                self.stop(proxy)


class Timeouts(harness.SluiceTest):

    def test_idle_timeout(self):
        origin = self.keep(Origin())
        proxy = self.proxy(origin.address, tcp={"idle_timeout": "500ms"})
        start = time.monotonic()
        client = self.keep(connect(proxy.address()))
        server = self.keep(origin.accept())
        self.assertEqual((outcome(client), outcome(server)), ("reset", "reset"))
        self.assertGreaterEqual(time.monotonic() - start, 0.49)
        proxy.wait_for(lambda s: s.ended("idle_timeout") == 1)

    def test_idle_timeout_spares_active_connection(self):
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, tcp={"idle_timeout": "600ms"})
        with connect(proxy.address()) as client:
            for _ in range(10):
                self.assertTrue(ping(client))
                time.sleep(0.15)

    def test_idle_timeout_spares_slow_reader(self):
        """Defect: a session was cut as idle while its client read byte after byte. Queued data went out as one send of
        up to 512 KiB, and only the end of a send counted as progress. A download over a line slower than that per
        idle_timeout never finished."""
        origin = self.keep(Origin())
        proxy = self.proxy(origin.address, tcp={"idle_timeout": "1s"}, cut_allowed=True)
        client = self.keep(connect(proxy.address(), receive_buffer=4096))
        server = self.keep(origin.accept())
        sender = threading.Thread(target=lambda: send_until_blocked(server), daemon=True)
        sender.start()
        end = time.monotonic() + 4
        received = 0
        while time.monotonic() < end:
            received += len(client.recv(2000))
            time.sleep(0.02)
        sender.join(10)
        self.assertEqual(proxy.stats().reasons(), {}, f"cut after {received} bytes")

    def test_max_duration(self):
        """A busy connection is ended too."""
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, tcp={"max_duration": "700ms"})
        start = time.monotonic()
        client = self.keep(connect(proxy.address()))
        with self.assertRaises(OSError):
            while time.monotonic() < start + 5 * harness.SLOWNESS:
                client.sendall(b"x")
                if not client.recv(100):
                    raise AssertionError("an orderly end would make cut data look complete")
                time.sleep(0.01)
        self.assertGreaterEqual(time.monotonic() - start, 0.69)
        proxy.wait_for(lambda s: s.ended("max_duration") == 1)

    def test_no_timeouts(self):
        origin = self.keep(Origin(echo))
        proxy = self.proxy(origin.address, tcp={"idle_timeout": 0, "max_duration": 0},
                           upstream={"connect_timeout": "100ms"})
        with connect(proxy.address()) as client:
            self.assertTrue(ping(client))
            time.sleep(0.6)
            self.assertTrue(ping(client))


class Starvation(harness.SluiceTest):

    def test_stuck_readers_do_not_starve_others(self):
        """Defect: a hundred clients that read nothing used up the worker's budget, and every bulk stream of the worker
        then waited for as long as they stayed: a stream that was promoted to large buffers waited for one of those
        although small ones were posted. Now the reserve serves it, and clients that take nothing for stuck_timeout are
        ended when the reserve is used up."""
        wall = self.keep(Origin(lambda sock: sock.sendall(bytes(16 * MIB))))
        origin = self.keep(Origin(echo))
        config = harness.configuration([wall.address], memory={"worker_budget": "8MiB"})
        config["listeners"][0]["tcp"]["stuck_timeout"] = "1s"
        config["listeners"].append({"name": "echo", "address": "127.0.0.1:0", "tcp": {"forward": "echo"}})
        config["upstreams"].append({"name": "echo", "endpoints": [origin.address]})
        proxy = self.start(config, cut_allowed=True)
        stuck = [self.keep(connect(proxy.address(), receive_buffer=4096)) for _ in range(100)]
        proxy.wait_for(lambda s: s.total("receives_parked") > 0 and s.total("accepted_total", listener="main") == 100)
        client = self.keep(connect(proxy.address("echo")))
        data = os.urandom(4 * MIB)
        sender = threading.Thread(target=lambda: client.sendall(data), daemon=True)
        sender.start()
        self.assertEqual(receive_exactly(client, len(data)), data)
        sender.join(5)
        client.close()
        proxy.wait_for(lambda s: s.total("receives_parked") == 0)
        for sock in stuck:
            reset(sock)
        proxy.wait_for(lambda s: s.total("sessions_active") == 0 and s.total("receives_parked") == 0)


if __name__ == "__main__":
    harness.main()
