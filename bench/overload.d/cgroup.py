"""Cgroups that bound the memory or the processor time of a program, of version 2 or 1, where the machine lets us make one."""
import os, re, time
from pathlib import Path

from machine import Failure

MIB = 1 << 20
MOUNT = Path('/sys/fs/cgroup')
PERIOD_US = 20000                                      # Of a quota: a program is never stopped for longer.


def read(path):
    try: return path.read_text()
    except OSError: return ''


class Cgroup:
    """Raises a Failure with the reason if it cannot be made."""

    def __init__(self, controller, name):
        self.is_v2 = controller in read(MOUNT / 'cgroup.controllers').split()
        self.path = (MOUNT if self.is_v2 else MOUNT / controller) / f'sluice-{name}-{os.getpid()}'
        try:
            if self.is_v2 and controller not in read(MOUNT / 'cgroup.subtree_control').split():
                (MOUNT / 'cgroup.subtree_control').write_text(f'+{controller}')
            self.path.mkdir()
            self.limit()
        except OSError as error:
            self.remove()
            raise Failure(f'no cgroup of the controller {controller} can be made: {error}') from None

    def write(self, name, value): (self.path / name).write_text(str(value))

    def enter(self, command):
        """The command that runs `command` in the group, from its first instruction on."""
        return ['/bin/sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.path), *command]

    def remove(self):
        for _ in range(50):                            # Its last process may not be gone yet.
            try: return self.path.rmdir()
            except FileNotFoundError: return None
            except OSError: time.sleep(0.1)
        return None


class MemoryCgroup(Cgroup):
    def __init__(self, name, limit_bytes):
        self.limit_bytes = limit_bytes
        super().__init__('memory', name)

    def limit(self):
        self.write('memory.max' if self.is_v2 else 'memory.limit_in_bytes', self.limit_bytes)
        # Without swap, where that can be said.
        try: self.write(*(('memory.swap.max', 0) if self.is_v2 else ('memory.memsw.limit_in_bytes', self.limit_bytes)))
        except OSError: pass

    def used_bytes(self):
        """Without file caches, which the kernel drops first."""
        stat = read(self.path / 'memory.stat')
        name = 'memory.current' if self.is_v2 else 'memory.usage_in_bytes'
        files = re.search(r'^(?:file|total_cache) (\d+)', stat, re.M)
        return max(int(read(self.path / name) or 0) - int(files[1] if files else 0), 0)

    def kills(self):
        """How many processes the kernel has killed for want of memory."""
        found = re.search(r'^oom_kill (\d+)', read(self.path / ('memory.events' if self.is_v2 else 'memory.oom_control')), re.M)
        return int(found[1]) if found else 0


class CpuCgroup(Cgroup):
    def __init__(self, name, percent):
        self.quota_us = PERIOD_US * percent // 100
        super().__init__('cpu', name)

    def limit(self):
        if self.is_v2: return self.write('cpu.max', f'{self.quota_us} {PERIOD_US}')
        self.write('cpu.cfs_period_us', PERIOD_US)
        return self.write('cpu.cfs_quota_us', self.quota_us)
