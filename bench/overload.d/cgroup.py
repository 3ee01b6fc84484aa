"""A cgroup with a limit of memory, of version 2 or 1, where the machine lets us make one."""
import os, re, time
from pathlib import Path

from machine import Failure

MIB = 1 << 20
MOUNT = Path('/sys/fs/cgroup')


def read(path):
    try: return path.read_text()
    except OSError: return ''


class Cgroup:
    """Raises a Failure with the reason if it cannot be made. Processes enter it by enter()."""

    def __init__(self, name, limit_bytes):
        self.is_v2 = 'memory' in read(MOUNT / 'cgroup.controllers').split()
        self.path = (MOUNT if self.is_v2 else MOUNT / 'memory') / f'sluice-{name}-{os.getpid()}'
        try:
            if self.is_v2 and 'memory' not in read(MOUNT / 'cgroup.subtree_control').split():
                (MOUNT / 'cgroup.subtree_control').write_text('+memory')
            self.path.mkdir()
            self.write('memory.max' if self.is_v2 else 'memory.limit_in_bytes', limit_bytes)
        except OSError as error:
            self.remove()
            raise Failure(f'no cgroup with a memory limit can be made: {error}') from None
        # Without swap, where that can be said.
        try: self.write('memory.swap.max' if self.is_v2 else 'memory.memsw.limit_in_bytes', 0 if self.is_v2 else limit_bytes)
        except OSError: pass

    def write(self, name, value): (self.path / name).write_text(str(value))

    def enter(self, command):
        """The command that runs `command` in the group, from its first instruction on."""
        return ['/bin/sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.path), *command]

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

    def remove(self):
        for _ in range(50):                            # Its last process may not be gone yet.
            try: return self.path.rmdir()
            except FileNotFoundError: return None
            except OSError: time.sleep(0.1)
        return None
