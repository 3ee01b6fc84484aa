"""Child processes and ports, and the kernel's figures of their CPU time and memory."""
import ctypes, os, random, re, shutil, signal, socket, subprocess, time
from pathlib import Path

LOCAL = '127.0.0.1'
START_S, STOP_S = 15, 5
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """Something that was requested did not happen; the text has the reason."""


# ---- Processes. Each child has its own process group and log; none outlives this program.

class Child:
    running = []

    def __init__(self, name, command, cpu, directory, environment=None):
        self.name, self.log = name, Path(directory) / f'{name}.log'
        try:
            with self.log.open('wb') as log:
                self.process = subprocess.Popen(
                    [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory,
                    env={**os.environ, **(environment or {})}, start_new_session=True,
                    preexec_fn=lambda: bind_child(cpu))
        except (OSError, subprocess.SubprocessError) as error:
            raise Failure(f'{name} cannot be started: {error}') from None
        Child.running.append(self)

    @property
    def pid(self): return self.process.pid

    @property
    def exit_code(self): return self.process.poll()    # None: still running.

    def text(self): return self.log.read_text(errors='replace')

    def tail(self, lines=12):
        last = ['    ' + line[:300] for line in self.text().strip().splitlines()[-lines:]]
        return '\n'.join([f'  {self.name}: last lines', *last]) if last else f'  {self.name}: no output'

    def wait(self, timeout_s):
        try: return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failure(f'{self.name} was not done after {timeout_s} s\n{self.tail()}') from None

    def stop(self, first=signal.SIGTERM):
        for signo in (first, signal.SIGKILL):          # The second also ends what the leader left behind.
            try: os.killpg(self.pid, signo)
            except ProcessLookupError: pass
            try: self.process.wait(STOP_S)
            except subprocess.TimeoutExpired: pass
        if self in Child.running: Child.running.remove(self)


def bind_child(cpu):
    """Binds it to one CPU, or to a set of CPUs."""
    os.sched_setaffinity(0, cpu if isinstance(cpu, set) else {cpu})
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)       # Even when this program is killed with -9.


def stop_all():
    for child in list(Child.running): child.stop()


def start_server(name, command, cpu, port, directory):
    """Returns the child once it listens on `port`."""
    if not is_free(port): raise Failure(f'{name}: port {port} was taken by another program meanwhile')
    child, end = Child(name, command, cpu, directory), time.monotonic() + START_S
    while child.exit_code is None and time.monotonic() < end:
        if is_listening(port): return child
        time.sleep(0.05)
    code = child.exit_code
    child.stop()
    slow, dead = f'does not listen on port {port} after {START_S} s', f'ended at start, exit code {code}'
    raise Failure(f'{name} {slow if code is None else dead}\n{child.tail()}')


def output_of(*command, timeout_s=60):
    """The output of a short command; empty if it cannot run."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors='replace',
                              timeout=timeout_s, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired): return ''
    return done.stdout + done.stderr


def find_program(name, hint):
    # Daemons are in sbin, which is not on everyone's PATH.
    path = shutil.which(name, path=os.environ.get('PATH', os.defpath) + ':/usr/local/sbin:/usr/sbin')
    if not path: raise Failure(f'{name} is not installed ({hint})')
    return path


def compiled(source, directory):
    """The program of one C++ file, made in the directory."""
    compiler = os.environ.get('CXX') or next(filter(shutil.which, ('c++', 'g++', 'clang++')), None)
    if not compiler: raise Failure('there is no C++ compiler (apt install g++, or set CXX)')
    program = Path(directory, source.stem)
    said = output_of(compiler, '-O2', '-std=c++20', source, '-o', program, timeout_s=300)
    if not program.exists(): raise Failure(f'{source} cannot be compiled:\n{said}')
    return program


# ---- CPU and memory

def process_tree(pid):
    pids = [pid]
    for parent in pids:                                # Grows during the walk.
        for children in Path(f'/proc/{parent}/task').glob('*/children'):
            try: pids += [int(child) for child in children.read_text().split()]
            except OSError: pass                       # It has ended meanwhile.
    return pids


def task_cpu_ns(pid):
    """User and system time of every thread of the tree: schedstat counts ns where stat counts 10 ms ticks."""
    spent = {}
    for process in process_tree(pid):
        for schedstat in Path(f'/proc/{process}/task').glob('*/schedstat'):
            try: spent[schedstat.parent] = int(schedstat.read_text().split()[0])
            except OSError: pass
    return spent


def idle_seconds(cpu):
    """How long it had nothing to run, since the machine started."""
    ticks = re.search(rf'(?m)^cpu{cpu} (.*)', Path('/proc/stat').read_text())[1].split()
    return (int(ticks[3]) + int(ticks[4])) / os.sysconf('SC_CLK_TCK')


def pss_bytes(pid):
    total_kb = 0
    for process in process_tree(pid):
        try: total_kb += int(re.search(r'^Pss:\s+(\d+)', Path(f'/proc/{process}/smaps_rollup').read_text(), re.M)[1])
        except (OSError, TypeError): pass              # It has ended meanwhile.
    return total_kb * 1024


def slab_bytes():
    return int(re.search(r'^SUnreclaim:\s+(\d+)', Path('/proc/meminfo').read_text(), re.M)[1]) * 1024


# ---- Ports and sockets

def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try: probe.bind((LOCAL, port))
        except OSError: return False
        return True


def free_ports(count):
    """Below the range of outgoing connections, so that none of those takes a port before its server does."""
    high = int(Path('/proc/sys/net/ipv4/ip_local_port_range').read_text().split()[0])
    candidates = range(max(1024, high - 12000), max(1024, high))
    found = [port for port in random.sample(candidates, min(200, len(candidates))) if is_free(port)][:count]
    if len(found) < count: raise Failure(f'no free ports on {LOCAL} from {candidates.start} to {high - 1}')
    return found


def is_listening(port):
    sockets = (line.split() for line in Path('/proc/net/tcp').read_text().splitlines()[1:])
    return any(state == '0A' and int(local.split(':')[1], 16) == port for _, local, _, state, *_ in sockets)


def time_wait_sockets():
    return int(re.search(r'^TCP:.* tw (\d+)', Path('/proc/net/sockstat').read_text(), re.M)[1])
