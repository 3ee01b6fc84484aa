#!/usr/bin/env python3
"""Replaces nginx where nginx-tests start it: Sluice, with a translation of nginx.conf, and the origin behind it.

SLUICE_NGINX_NOTES names a file that gets a line of JSON about each start and each end.
"""

import json
import os
import pathlib
import re
import signal
import sys

# Features of old versions are not tested. `without` lists what has no counterpart, so that scripts which need it report
# that themselves.
VERSION = """nginx version: nginx/1.99.0
built with BoringSSL
TLS SNI support enabled
configure arguments: --with-http_ssl_module --with-http_v2_module --with-http_realip_module --with-stream --with-stream_ssl_module
 --with-stream_ssl_preread_module --with-stream_realip_module --without-http-cache --without-http_ssi_module
 --without-http_fastcgi_module --without-http_uwsgi_module --without-http_scgi_module --without-http_memcached_module
 --without-http_limit_conn_module --without-http_limit_req_module --without-http_userid_module --without-http_autoindex_module
 --without-http_empty_gif_module --without-http_browser_module --without-http_referer_module --without-http_tunnel_module
 --without-http_upstream_least_time_module --without-stream_upstream_least_time_module --without-http_split_clients_module
 --without-stream_split_clients_module --without-stream_geo_module --without-http_geo_module --without-stream_limit_conn_module
""".replace("\n --", " --")


def note(**values):
    path = os.environ.get("SLUICE_NGINX_NOTES")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def options(arguments):
    """-p, -c, -e and -g, and the words without a value."""
    found, flags = {}, set()
    words = iter(arguments)
    for word in words:
        if word in ("-p", "-c", "-e", "-g", "-s"):
            found[word] = next(words, "")
        else:
            flags.add(word)
    return found, flags


def main():
    given, flags = options(sys.argv[1:])
    if flags & {"-v", "-V"}:
        sys.stderr.write(VERSION)
        return 0
    folder = pathlib.Path(__file__).resolve().parent
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(folder), str(folder.parents[1] / "test/e2e")]
    from nginx_translate import NotTranslated, Translation
    prefix = os.path.abspath(given.get("-p", "."))
    text = (pathlib.Path(prefix) / given.get("-c", "nginx.conf")).read_text(encoding="utf-8", errors="surrogateescape")
    log = os.path.join(prefix, given.get("-e", "error.log"))
    pathlib.Path(log).touch()
    pid = re.search(r"^\s*pid\s+(\S+?)\s*;", given.get("-g", "") + "\n" + text, re.MULTILINE)
    try:
        translation = Translation(text, prefix)
    except NotTranslated as error:
        note(refused=str(error))
        sys.stderr.write(f"not translated: {error}\n")
        return 1
    if flags & {"-t", "-T"}:
        return 0
    return run(translation, prefix, pid[1] if pid else f"{prefix}/nginx.pid", log)


def run(translation, prefix, pid, log):
    import harness
    from nginx_origin import Origin
    pathlib.Path(prefix, "sluice.json").write_text(json.dumps(translation.config, indent=1), encoding="utf-8")
    waited_for = {signal.SIGQUIT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    Origin(prefix, translation.places, translation.returns)
    try:
        proxy = harness.Proxy(translation.config)
    except harness.ProxyError as error:
        note(failed=str(error), left_out=translation.notes)
        sys.stderr.write(f"{error}\n")
        return 1
    note(left_out=translation.notes)
    pathlib.Path(pid).write_text(f"{os.getpid()}\n", encoding="ascii")
    while True:
        number = signal.sigwait(waited_for)
        if number == signal.SIGHUP:
            proxy.signal(signal.SIGHUP)
            note(reloaded=True)
        elif number in (signal.SIGQUIT, signal.SIGTERM, signal.SIGINT):
            break
    problem = ""
    if number != signal.SIGQUIT and proxy.process.poll() is None:
        proxy.signal(signal.SIGTERM)  # Two signals: end at once.
    try:
        harness.stop_and_check(proxy, cut_allowed=True)
    except AssertionError as error:
        problem = str(error)
    note(ended=problem)
    pathlib.Path(log).write_text(proxy.stderr(), encoding="utf-8")
    pathlib.Path(pid).unlink(missing_ok=True)
    return 1 if problem else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # Does not wait for the origin's thread.
