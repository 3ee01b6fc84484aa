"""Child processes, ports, and what the kernel says about CPU and memory."""
import ctypes, os, random, re, shutil, signal, socket, subprocess, sys, time
from pathlib import Path

class Failure(Exception):
    """Something that was asked for did not happen; the text says what."""


# ---- Processes. Each child has its own process group and log; none outlives this program.

class Child:
    running = []

    def __init__(self, name, command, cpu, directory):
        self.name, self.log = name, Path(directory) / f'{name}.log'
        with self.log.open('wb') as log:
            self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log, cwd=directory,
                                            stderr=log, start_new_session=True, preexec_fn=lambda: bind_child(cpu))
        self.pid = self.process.pid
        Child.running.append(self)

    def alive(self): return self.process.poll() is None

    def text(self): return self.log.read_text(errors='replace')

    def tail(self, lines=12):
        last = self.text().strip().splitlines()[-lines:]
        return f'  {self.name}, ' + ('last lines:\n' + '\n'.join('    ' + l[:300] for l in last) if last else 'no output')

    def wait(self, timeout):
        try: return self.process.wait(timeout)
        except subprocess.TimeoutExpired: raise Failure(f'{self.name} was not done after {timeout} s') from None

    def stop(self, first=signal.SIGTERM):
        for signo in (first, signal.SIGKILL):    # the second also reaches what the leader left behind
            try: os.killpg(self.pid, signo)
            except ProcessLookupError: pass
            try: self.process.wait(STOP_S)
            except subprocess.TimeoutExpired: pass
        if self in Child.running: Child.running.remove(self)


def bind_child(cpu):
    os.sched_setaffinity(0, {cpu})
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)   # PR_SET_PDEATHSIG: even if this program is killed with -9


def stop_all():
    for child in list(Child.running): child.stop()


def leave(signo, _frame):
    for each in (signal.SIGINT, signal.SIGTERM): signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + signo)                        # the handlers of atexit do the rest


def output_of(*command, timeout=60):
    """What a short command prints; empty if it cannot run."""
    try: done = subprocess.run(command, capture_output=True, text=True, errors='replace', timeout=timeout, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired): return ''
    return done.stdout + done.stderr


# ---- What the kernel says

def process_tree(pid):
    pids = [pid]
    for parent in pids:                          # grows while we walk it
        for children in Path(f'/proc/{parent}/task').glob('*/children'):
            try: pids += [int(child) for child in children.read_text().split()]
            except OSError: pass                 # ended meanwhile
    return pids


def task_cpu_ns(pid):
    """User and system time of every thread of the tree: schedstat counts ns where stat counts 10 ms ticks."""
    spent = {}
    for process in process_tree(pid):
        for stat in Path(f'/proc/{process}/task').glob('*/schedstat'):
            try: spent[stat.parent] = int(stat.read_text().split()[0])
            except OSError: pass
    return spent


def pss_bytes(pid):
    total = 0
    for process in process_tree(pid):
        try: found = re.search(r'^Pss:\s+(\d+)', Path(f'/proc/{process}/smaps_rollup').read_text(), re.M)
        except OSError: found = None
        total += int(found[1]) * 1024 if found else 0
    return total


def slab_bytes():
    return int(re.search(r'^SUnreclaim:\s+(\d+)', Path('/proc/meminfo').read_text(), re.M)[1]) * 1024


def time_wait_sockets():
    return int(re.search(r'^TCP:.* tw (\d+)', Path('/proc/net/sockstat').read_text(), re.M)[1])


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try: probe.bind((LOCAL, port))
        except OSError: return False
        return True


def free_ports(count):
    """Below the range of outgoing connections, so that none of those takes one before its server does."""
    high = int(Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])
    candidates = range(max(1024, high - 12000), high)
    found = [port for port in random.sample(candidates, min(200, len(candidates))) if is_free(port)][:count]
    if len(found) < count: raise Failure(f'no free port on {LOCAL} between {candidates.start} and {high}')
    return found


def is_listening(port):
    lines = Path('/proc/net/tcp').read_text().splitlines()[1:]
    return any(int(f[1].split(':')[1], 16) == port and f[3] == '0A' for f in (line.split() for line in lines))


def start_server(name, command, cpu, port, directory):
    if not is_free(port): raise Failure(f'{name}: port {port} was taken by another program meanwhile')
    child = Child(name, command, cpu, directory)
    end = time.monotonic() + START_S
    while child.alive() and time.monotonic() < end:
        if is_listening(port): return child
        time.sleep(0.05)
    problem = f'did not listen on port {port} within {START_S} s' if child.alive() else f'ended at start, exit code {child.process.returncode}'
    child.stop()
    raise Failure(f'{name} {problem}\n{child.tail()}')
