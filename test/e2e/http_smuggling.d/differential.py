"""Runs the cases through other proxies too, and prints a table of the differences."""

import collections
import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import harness
from http_wire import WireError
from origins import connect, free_port

from corpus import Cut, load
import runs
from runs import Run, Target, Upstream, arrival_problem

NGINX = """
daemon off; worker_processes 1; error_log {folder}/error.log; pid {folder}/pid;
events {{ worker_connections 1000; }}
http {{
  access_log off; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; proxy_request_buffering off;
  upstream main {{ server {upstream}; keepalive 16; }}
  server {{ listen 127.0.0.1:{h1}; location / {{ proxy_pass http://main; }} }}
  server {{ listen 127.0.0.1:{h2} http2; location / {{ proxy_pass http://main; }} }}
}}
"""

HAPROXY = """
global
  maxconn 1000
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend h1-h1
  bind 127.0.0.1:{h1}
  default_backend to-h1
frontend h1-h2
  bind 127.0.0.1:{h1_h2}
  default_backend to-h2
frontend h2-h1
  bind 127.0.0.1:{h2} proto h2
  default_backend to-h1
frontend h2-h2
  bind 127.0.0.1:{h2_h2} proto h2
  default_backend to-h2
backend to-h1
  server main {upstream}
backend to-h2
  server main {upstream} proto h2
"""


def envoy_config(upstream, ports):
    host, port = upstream.split(":")

    def listener(name, number, cluster):
        manager = {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."
                            "HttpConnectionManager",
                   "stat_prefix": name, "normalize_path": True, "upgrade_configs": [{"upgrade_type": "websocket"}],
                   "http2_protocol_options": {"allow_connect": True}, "delayed_close_timeout": "0.05s",
                   "http_protocol_options": {"accept_http_10": True},
                   "path_with_escaped_slashes_action": "REJECT_REQUEST",
                   "common_http_protocol_options": {"headers_with_underscores_action": "REJECT_REQUEST"},
                   "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
                       {"match": {"prefix": "/"}, "route": {"cluster": cluster}}]}]},
                   "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
                       "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}
        return {"name": name, "address": {"socket_address": {"address": "127.0.0.1", "port_value": number}},
                "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}]}

    def cluster(name, options):
        return {"name": name, "type": "STATIC", "connect_timeout": "5s",
                "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": {options: {}}}},
                "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {
                    "socket_address": {"address": host, "port_value": int(port)}}}}]}]}}

    return {"static_resources": {
        "listeners": [listener("h1", ports["h1"], "h1"), listener("h2", ports["h2"], "h2")],
        "clusters": [cluster("h1", "http_protocol_options"), cluster("h2", "http2_protocol_options")]}}


def start_other(name, folder, upstream):
    """Returns the process, and the addresses by way."""
    ports = {key: free_port() for key in ("h1", "h2", "h1_h2", "h2_h2")}
    at = {key: ("127.0.0.1", port) for key, port in ports.items()}
    if name == "nginx":
        pathlib.Path(folder, "nginx.conf").write_text(NGINX.format(folder=folder, upstream=upstream, **ports))
        command = [harness.need("nginx"), "-p", folder, "-c", f"{folder}/nginx.conf"]
        ways = {"h1-h1": at["h1"], "h2-h1": at["h2"]}
    elif name == "haproxy":
        pathlib.Path(folder, "haproxy.cfg").write_text(HAPROXY.format(upstream=upstream, **ports))
        command = [harness.need("haproxy"), "-f", f"{folder}/haproxy.cfg"]
        ways = {"h1-h1": at["h1"], "h2-h1": at["h2"], "h1-h2": at["h1_h2"], "h2-h2": at["h2_h2"]}
    else:
        pathlib.Path(folder, "envoy.json").write_text(json.dumps(envoy_config(upstream, ports)))
        command = [os.environ["ENVOY"], "-c", f"{folder}/envoy.json", "--concurrency", "1", "-l", "off",
                   "--use-dynamic-base-id"]
        ways = {"h1-h1": at["h1"], "h2-h1": at["h1"], "h1-h2": at["h2"], "h2-h2": at["h2"]}
    process = harness.spawn(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens():
        with contextlib.suppress(OSError), connect(ways["h1-h1"]):
            return True
        return process.poll() is not None
    harness.wait_until(listens, 20, f"{name} to listen")
    return process, ways


def judge_all(name, cases, table, sluice):
    """Fills the table. Returns the remaining cases if the proxy ended."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-e2e-"))
        upstream = stack.enter_context(contextlib.closing(Upstream()))
        if name == "sluice":
            config, addresses = sluice
            proxy = harness.Proxy(config(upstream.address))
            stack.callback(proxy.kill)
            ways = addresses(proxy)
        else:
            process, ways = start_other(name, folder, upstream.address)
            stack.callback(harness.end, process)
        target = stack.enter_context(contextlib.closing(Target(upstream, ways)))
        target.name = name
        for at, (case, via) in enumerate(cases):
            if not target.address(via, case):
                continue
            try:
                table[case.name, via, name] = judge(case, via, target)
            except (ConnectionRefusedError, ConnectionResetError, WireError) as error:
                table[case.name, via, name] = ("gone", f"{error}")
                return cases[at + 1:]
    return []


def judge(case, via, target):
    """Compares the proxy with the expectation of the corpus. Returns a word, and what was seen."""
    target.upstream.new_messages()  # Late messages of the previous case.
    run = Run(case, via, 0, Cut(), target.address(via, case))
    target.run([run])
    time.sleep(0.06 if case.responds else 0.01)
    arrived = target.arrived()
    problem_of_arrivals = arrival_problem([run], arrived, target.upstream.failures())
    words = " ".join(run.words())
    upstream = case.upstream(via)
    if upstream is None:
        wanted, seen = is_good(case.expect(via)), is_good(words)
    else:
        seen = any(message.complete for message, *_ in arrived)
        wanted = seen if upstream[0] and all(want.maybe for want in upstream[0]) else bool(upstream[0])
    if not case.responds and any("/smuggled" in message.path for message, *_ in arrived):
        words += " (smuggled)"
    problem = run.problem() or problem_of_arrivals
    if not problem:
        return "=", ""
    if wanted == seen:
        return ("differs", f"{words}: {problem}") if wanted else ("refuses too", words)
    return ("laxer" if seen else "stricter"), words


def is_good(words):
    return bool(re.search(r"(^| )[1-3]\d\d( |$|\|)", words))


def differential(files, *sluice):
    """Prints where others differ from the expectation of the corpus. `sluice` are the functions that return Sluice's
    configuration and its addresses."""
    cases = load([pathlib.Path(file).stem for file in files])
    names = ["nginx", "haproxy"] + (["envoy"] if os.environ.get("ENVOY") else [])
    if os.access(harness.SLUICE, os.X_OK):
        names.insert(0, "sluice")
    runs.QUIET_SECONDS = 0.25
    table = {}
    for name in names:
        left = [(case, via) for case in cases for via in case.via]
        while left:  # Some proxies crash on a case.
            left = judge_all(name, left, table, sluice)
    verdicts = collections.Counter()
    print("| case | way | wanted |" + "".join(f" {name} |" for name in names))
    print("|---|---|---|" + "---|" * len(names))
    for case in cases:
        for via in case.via:
            found = [table.get((case.name, via, name), ("-", "")) for name in names]
            verdicts.update((name, verdict) for name, (verdict, _) in zip(names, found))
            if any(verdict in ("laxer", "stricter", "differs", "gone") for verdict, _ in found):
                cells = " | ".join(f"{verdict}: {words[:160]}" if words else verdict for verdict, words in found)
                print(f"| {case.name} | {via} | {case.expect(via)} | {cells} |")
    print()
    for name in names:
        print(f"{name:8} " + ", ".join(f"{verdicts[name, verdict]} {word}" for verdict, word in (
            ("=", "as wanted"), ("refuses too", "refused in other words"), ("laxer", "laxer"), ("stricter", "stricter"),
            ("differs", "different"), ("gone", "of which it died, or served others wrongly"))))
    return 0
