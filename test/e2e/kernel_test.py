"""A kernel or container that refuses io_uring: the message says what is needed and where to enable it."""

import ctypes
import errno
import struct
import subprocess

import harness
from harness import SLUICE

_IO_URING_SETUP = 425  # The same number on every architecture.
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_SECCOMP_RET_ERRNO, _SECCOMP_RET_ALLOW = 0x00050000, 0x7FFF0000


def _refuse_io_uring(error):
    """Installs a seccomp filter for the calling process, as a container's profile does."""
    def instruction(code, jt, jf, k):
        return struct.pack("HBBI", code, jt, jf, k)

    program = (instruction(0x20, 0, 0, 0)                          # load the number of the call
               + instruction(0x15, 0, 1, _IO_URING_SETUP)          # io_uring_setup?
               + instruction(0x06, 0, 0, _SECCOMP_RET_ERRNO | error)
               + instruction(0x06, 0, 0, _SECCOMP_RET_ALLOW))
    code = ctypes.create_string_buffer(program)
    filter_program = struct.pack("HxxxxxxP", 4, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
            _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(filter_program), 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


class KernelTest(harness.SluiceTest):

    def start_refused(self, error):
        return subprocess.run([SLUICE, "run", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--tcp"],
                              capture_output=True, text=True, timeout=10, check=False,
                              preexec_fn=lambda: _refuse_io_uring(error))

    def test_switched_off(self):
        result = self.start_refused(errno.EPERM)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("io_uring is switched off", result.stderr)
        self.assertIn("kernel.io_uring_disabled", result.stderr)
        self.assertIn("seccomp", result.stderr)
        # Defect: the message said that the sysctl is 0, and to set it to 0.
        with open("/proc/sys/kernel/io_uring_disabled", encoding="ascii") as file:
            if file.read().strip() == "0":
                self.assertIn("though kernel.io_uring_disabled is 0: a seccomp profile such as Docker's", result.stderr)
                self.assertNotIn("set it to 0", result.stderr)

    def test_too_old(self):
        for error in (errno.ENOSYS, errno.EINVAL):
            result = self.start_refused(error)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("Sluice needs Linux 6.6 or newer", result.stderr)


if __name__ == "__main__":
    harness.main()
