"""A kernel or container that refuses io_uring: the message has what is needed and where to enable it."""

import errno
import subprocess

import harness
import seccomp
from harness import SLUICE


def sysctl():
    with open("/proc/sys/kernel/io_uring_disabled", encoding="ascii") as file:
        return file.read().strip()


class KernelTest(harness.SluiceTest):

    def start_refused(self, error, *calls):
        result = subprocess.run([SLUICE, "run", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--tcp"],
                                capture_output=True, text=True, timeout=10, check=False, preexec_fn=seccomp.refuse(error, calls))
        self.assertEqual(result.returncode, 1, result.stderr)
        return result.stderr

    def test_forbidden(self):
        """Defect: the message was that the sysctl is 0, and to set it to 0. Where a filter forbade only one of the last two calls,
        the message was that the kernel is too old."""
        for error in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            for call in ("io_uring_setup", "io_uring_enter", "io_uring_register"):
                output = self.start_refused(error, call)
                self.assertIn("seccomp", output)
                self.assertIn("io_uring_setup", output)
                if sysctl() == "0":
                    self.assertIn(f"sluice: a seccomp filter forbids {call}: allow io_uring_setup, io_uring_enter and", output)

    def test_too_old(self):
        self.assertIn("Sluice needs Linux 6.6 or newer", self.start_refused(errno.EINVAL, "io_uring_setup"))


if __name__ == "__main__":
    harness.main()
