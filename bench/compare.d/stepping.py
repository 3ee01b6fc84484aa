"""How many instructions a thread executes in user space: it is single-stepped by ptrace, under a slow clock."""
import ctypes, os, signal
from pathlib import Path

from machine import LIBC, Failure, output_of

PTRACE_SINGLESTEP, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 9, 17, 0x4206, 0x4207
STEPPED = signal.SIGTRAP << 8 | 0x7f
WALL = 0x40000000    # __WALL: also threads that are not the leader of their process.


# Loaded into the traced program.
SLOW_CLOCK = r'''
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  static _Atomic long long first[16];
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result != 0 || clock < 0 || clock >= 16) return result;
  const long long real = now->tv_sec * 1000000000LL + now->tv_nsec;
  long long begin = 0;
  if (atomic_compare_exchange_strong(&first[clock], &begin, real)) begin = real;
  const long long slow = begin + (real - begin) / 10000;
  now->tv_sec = slow / 1000000000, now->tv_nsec = slow % 1000000000;
  return 0;
}
'''


def slow_clock(directory):
    source, library = directory / 'slow_clock.c', directory / 'slow_clock.so'
    source.write_text(SLOW_CLOCK)
    output_of('cc', '-O2', '-shared', '-fPIC', '-o', library, source)
    if not library.exists(): raise Failure('cc made no library')
    return library


# ---- Counting

def ptrace(request, tid, data=0):
    if LIBC.ptrace(request, tid, None, ctypes.c_void_p(data)) < 0:
        raise Failure(f'ptrace {request:#x}: {os.strerror(ctypes.get_errno())}')


def steps_during(tid, work):
    """The instructions of the thread until a process that does `work` has ended."""
    go, start = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.read(go, 1)
            work()
            status = 0
        finally:
            os.kill(os.getppid(), signal.SIGUSR1)
            os._exit(status)
    over = False

    def end(*_):
        nonlocal over
        over = True
        LIBC.ptrace(PTRACE_INTERRUPT, tid, None, None)    # It may be waiting in the kernel.

    signal.signal(signal.SIGUSR1, end)
    ptrace(PTRACE_SEIZE, tid)
    ptrace(PTRACE_INTERRUPT, tid)
    os.waitpid(tid, WALL)
    os.write(start, b'.')
    steps, step, wait, nothing = 0, LIBC.ptrace, os.waitpid, ctypes.c_void_p(0)
    while True:
        step(PTRACE_SINGLESTEP, tid, nothing, nothing)
        status = wait(tid, WALL)[1]
        if status == STEPPED:
            steps += 1
            if over: break                             # At no other stop: a pending trap would end the program.
    ptrace(PTRACE_DETACH, tid)
    os.close(go), os.close(start)
    if wait(pid, 0)[1] != 0: raise Failure('the client failed')
    return steps


def worker_thread(pid):
    """The only worker. Not the busiest thread: under the slow clock, threads that wait for a time spin."""
    for task in Path(f'/proc/{pid}/task').iterdir():
        if (task / 'comm').read_text() == 'worker 0\n': return int(task.name)
    raise Failure('no thread has the name "worker 0"')
