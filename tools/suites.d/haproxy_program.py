#!/usr/bin/env python3
"""Replaces `haproxy` where vtest starts one: translates the configuration, and runs Sluice with it.

SUITE_SLUICE names the program, SUITE_REPORT a file for lines that vtest would not understand: `unsupported: ...` for
the configuration, `ended: ...` if Sluice did not end as it should.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True

from haproxy_configuration import Translation  # noqa: E402
from haproxy_lines import VERSION, Unsupported, true  # noqa: E402

SECONDS = 10  # For Sluice to end.


def report(text):
    print(text, flush=True)
    with open(os.environ["SUITE_REPORT"], "a", encoding="utf-8") as file:
        file.write(text + "\n")


def take_over(configuration):
    """Shuts down the listening sockets that were passed: vtest holds them, too, so that only shutdown() frees their
    ports."""
    for descriptor in re.findall(r"fd@(\d+)", configuration):
        with socket.socket(fileno=os.dup(int(descriptor))) as listening:
            listening.shutdown(socket.SHUT_RDWR)


def descriptors(configuration):
    """Replaces each `fd@${NAME}` by its number in the environment."""
    return re.sub(r"fd@\$\{(\w+)\}", lambda found: "fd@" + os.environ.get(found[1], "?"), configuration)


def run(path, pid_file):
    text = descriptors(pathlib.Path(path).read_text(encoding="latin-1"))
    # The socket of the command line, which vtest adds to each configuration, has no counterpart.
    text = re.sub(r"(?m)^\s*stats socket .*$", "", text)
    translated = Translation(text, dict(os.environ)).result()
    file = pathlib.Path(path).with_name("sluice.yaml")
    file.write_text(json.dumps(translated, indent=1), encoding="utf-8")  # JSON is YAML.
    program = os.environ["SUITE_SLUICE"]
    checked = subprocess.run([program, "check", "--config", file], capture_output=True, text=True, check=False)
    if checked.returncode:
        first = (checked.stderr + checked.stdout).strip().split("\n", maxsplit=1)[0]
        raise Unsupported("sluice check: " + first.partition(": ")[2])
    take_over(text)
    with subprocess.Popen([program, "run", "--config", file], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace") as child:
        return attend(child, pid_file, len(translated["listeners"]))


def attend(child, pid_file, listeners):
    """Reports when it listens; forwards the signal that ends it."""
    asked, ready = [], threading.Event()

    def read():
        left = listeners
        for line in child.stderr:
            print(line, end="", flush=True)
            left -= " info sluice: listener " in line
            if left == 0:
                ready.set()

    def stop(number, _frame):
        asked.append(number)
        child.send_signal(signal.SIGTERM)

    reader = threading.Thread(target=read)
    reader.start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    while not ready.wait(0.02) and child.poll() is None:
        pass
    if pid_file and ready.is_set():
        pathlib.Path(pid_file).write_text(f"{os.getpid()}\n", encoding="ascii")
    code = None
    ended = None
    while code is None:
        try:
            code = child.wait(0.5)
        except subprocess.TimeoutExpired:
            ended = ended or (asked and time.monotonic() + SECONDS)
            if ended and time.monotonic() > ended:
                child.kill()
    reader.join()
    if code != 0 or not asked:
        report(f"ended: sluice ended with {code}{'' if asked else ', of itself'}")
        return 1
    return 128 + signal.SIGINT if pid_file else 0


def main():
    arguments, files, condition, pid_file, check = sys.argv[1:], [], None, None, False
    while arguments:
        word = arguments.pop(0)
        if word == "-f":
            files.append(arguments.pop(0))
        elif word == "-cc":
            condition = arguments.pop(0)
        elif word == "-p":
            pid_file = arguments.pop(0)
        elif word in ("-v", "-vv"):
            print(f"HAProxy version {'.'.join(map(str, VERSION))}.0 (Sluice in its place)")
            return 0
        elif word == "-c":
            check = True
        elif word not in ("-d", "-W", "-dM", "-dI", "-dW"):
            raise Unsupported(f"option {word} on the command line")
    if condition is not None:
        return 0 if true(condition, dict(os.environ)) else 1
    if len(files) != 1 or check:
        raise Unsupported("its own check of configurations" if check else "several configurations")
    return run(files[0], pid_file)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unsupported as error:
        report(f"unsupported: {error}")
        sys.exit(2)
