"""The proxy's own part of its CPU time: what it spends outside the kernel, which is all that its code can change.

perf samples the proxy's threads by a clock while the load runs. The part of the samples outside the kernel (the program,
its libraries, the vDSO), times the CPU time of a request, is the proxy's own time. The kernel accounts user and system
time too, but by ticks on many machines, which miss what always begins after a tick.
"""
import dataclasses, re, signal, time

from machine import Child, Failure, output_of, process_tree

CLOCK_HZ = 1999                                        # A prime, so that no timer of the proxy keeps in step with it.
FEWEST = 200                                           # Samples; with fewer the part would be off by more than 0.07.
ATTACH_S = 0.3
# Addresses of the kernel have the highest bit, on all machines with 64 bits that this runs on.
KERNEL = 1 << 63


def own_part(scenario, metrics):
    """The scenario with another load, which also splits the CPU time of a request, and with these metrics instead."""
    def load(case):
        if not case.proxy: return scenario.load(case) | dict.fromkeys(('own', 'kernel', 'share'))
        data = case.directory / 'perf.data'
        perf = Child('perf', ['perf', 'record', '-q', '-e', 'cpu-clock', '-F', CLOCK_HZ, '-o', data,
                              '-p', ','.join(map(str, process_tree(case.proxy.pid)))],
                     case.options.cpus[1], case.directory)
        try:
            time.sleep(ATTACH_S)
            figures = scenario.load(case)
        finally: perf.stop(signal.SIGINT)              # It writes its file when interrupted.
        samples = [int(address, 16) for address in
                   re.findall(r'(?m)^\s*([0-9a-f]+)\s*$', output_of('perf', 'script', '-F', 'ip', '-i', data))]
        if len(samples) < FEWEST: raise Failure(f'perf has {len(samples)} samples only\n{perf.tail()}')
        share = sum(address < KERNEL for address in samples) / len(samples)
        return figures | {'own': share * figures['cpu'], 'kernel': (1 - share) * figures['cpu'], 'share': 100 * share}
    return dataclasses.replace(scenario, load=load, metrics=metrics)
