"""Filters of system calls, as containers have them."""

import ctypes
import errno
import functools
import json
import re
import struct
import subprocess

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_SECCOMP_RET_ERRNO, _SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06

_IO_URING = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}  # The same on every architecture.


def _instruction(code, jt, jf, k):
    return struct.pack("HBBI", code, jt, jf, k)


def _install(results, default):
    """Gives the calling process a filter: `results` has what it does by number of the system call."""
    program = _instruction(_LOAD, 0, 0, 0)  # The number of the call.
    for number, result in results.items():
        program += _instruction(_JUMP_IF_EQUAL, 0, 1, number) + _instruction(_RETURN, 0, 0, result)
    program += _instruction(_RETURN, 0, 0, default)
    code = ctypes.create_string_buffer(program)
    filter_program = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
            _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(filter_program), 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def refuse(error, calls=("io_uring_setup",)):
    """For `preexec_fn`: these system calls fail."""
    return lambda: _install({_IO_URING[call]: _SECCOMP_RET_ERRNO | error for call in calls}, _SECCOMP_RET_ALLOW)


@functools.cache
def _numbers():
    """The numbers of the system calls by name, from the headers of the kernel."""
    headers = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-xc", "/dev/null"], capture_output=True, text=True,
                             timeout=60, check=True).stdout
    return {name: int(number) for name, number in re.findall(r"^#define __NR_(\w+) (\d+)$", headers, re.MULTILINE)}


def profile(path, default_error=None):
    """For `preexec_fn`: a profile of Docker, as far as its rules have no conditions. `default_error`: that of an engine which does
    not know `defaultErrnoRet`."""
    with open(path, encoding="utf-8") as file:
        rules = json.load(file)
    assert rules["defaultAction"] == "SCMP_ACT_ERRNO"
    results = {}
    for rule in rules["syscalls"]:
        assert set(rule) <= {"comment", "names", "action", "errnoRet"}
        result = {"SCMP_ACT_ALLOW": _SECCOMP_RET_ALLOW, "SCMP_ACT_ERRNO": _SECCOMP_RET_ERRNO | rule.get("errnoRet", errno.EPERM)}
        # Calls that another architecture has are passed over, as container runtimes do.
        results.update({_numbers()[name]: result[rule["action"]] for name in rule["names"] if name in _numbers()})
    default = _SECCOMP_RET_ERRNO | (default_error or rules.get("defaultErrnoRet", errno.EPERM))
    return lambda: _install(results, default)
