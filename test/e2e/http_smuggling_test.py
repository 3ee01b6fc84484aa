"""Request smuggling: messages that two readers could interpret differently, through the proxy. What arrives at either
end is exactly what the cases in http_smuggling.d say, in however many pieces they are sent.

    http_smuggling_test.py                              the test
    http_smuggling_test.py --only NAME                  of one case
    http_smuggling_test.py --differential [FILE ...]    the same through nginx, HAProxy and Envoy ($ENVOY) too: a table
"""

import collections
import os
import pathlib
import sys
import time

import harness

sys.path.append(str(pathlib.Path(__file__).with_name("http_smuggling.d")))
from corpus import Cut, byte_by_byte, cuts_of, load
from runs import Run, Target, Upstream, try_all


def sluice_config(upstream):
    listeners = [{"name": name, "address": "127.0.0.1:0", "http": {"forward": name}} for name in ("h1", "h2", "apart")]
    upstreams = [{"name": "h1", "endpoints": [upstream], "protocol": "http1"},
                 {"name": "h2", "endpoints": [upstream], "protocol": "http2"},
                 # Scripts that run side by side, cut within frames, need connections of their own.
                 {"name": "apart", "endpoints": [upstream], "protocol": "http2", "pool": {"max_streams": 1}}]
    return {"workers": 1, "shutdown_timeout": "3s", "listeners": listeners, "upstreams": upstreams}


def sluice_addresses(proxy):
    """By way, and whether the upstream has a script."""
    return {(f"{client}-{upstream}", scripted): proxy.address("apart" if scripted and upstream == "h2" else upstream)
            for client in ("h1", "h2") for upstream in ("h1", "h2") for scripted in (False, True)}


class Result:
    """The result of the cases of a file."""

    def __init__(self):
        self.runs = 0
        self.problems = []

    def note(self, runs, problem_of_arrivals):
        self.runs += len(runs)
        problems = [(run.label, problem) for run in runs if (problem := run.problem())]
        self.problems += problems
        if problem_of_arrivals and not problems:
            self.problems.append((f"{runs[0].case.name} {runs[0].via}", problem_of_arrivals))


class Smuggling(harness.SluiceTest):

    def setUp(self):
        self.upstream = self.keep(Upstream())
        proxy = self.start(sluice_config(self.upstream.address))
        self.target = self.keep(Target(self.upstream, sluice_addresses(proxy)))

    def test_corpus(self):
        only = os.environ.get("SLUICE_SMUGGLING_ONLY")
        cases = [case for case in load() if not only or case.name == only]
        results = {case.file: Result() for case in cases}
        began = time.monotonic()
        for case in cases:
            for via in case.via:
                runs = [Run(case, via, number, cut, self.target.address(via, case))
                        for number, cut in enumerate(cuts_of(case, via))]
                results[case.file].note(runs, try_all(self.target, runs))
        self._byte_by_byte(cases, results)
        self._print(cases, results, time.monotonic() - began)
        failed = []
        for case in cases:
            found = collections.defaultdict(list)
            for label, problem in results[case.file].problems:
                if label.split(" ")[0] == case.name:
                    found[problem].append(label.partition(" ")[2])
            for problem, labels in found.items():
                failed.append(f"{case.where} {case.name} ({case.rule}):\n    {problem}\n"
                              f"    {len(labels)} runs: {', '.join(labels[:4])}")
        if failed:
            self.fail("\n" + "\n".join(failed))

    def _byte_by_byte(self, cases, results):
        """Many at once, as each takes as many steps as it has bytes."""
        runs = [Run(case, via, f"{case.name}-b", Cut(everywhere=True), self.target.address(via, case))
                for case in cases for via in case.via if byte_by_byte(case, via)]
        for responds in (False, True):
            for at in range(0, len(runs), 400):
                batch = [run for run in runs[at:at + 400] if run.case.responds == responds]
                if not batch:
                    continue
                if not try_all(self.target, batch):
                    for run in batch:
                        results[run.case.file].note([run], "")
                    continue
                for run in batch:  # One of them failed: each runs alone.
                    again = Run(run.case, run.via, "again", Cut(everywhere=True), run.address)
                    results[run.case.file].note([again], try_all(self.target, [again]))

    @staticmethod
    def _print(cases, results, seconds):
        rows = []
        for file, result in results.items():
            count = sum(case.file == file for case in cases)
            failed = len({label.split(" ")[0] for label, _ in result.problems})
            rows.append(f"{file:28} {count:4} cases {result.runs:6} runs {count - failed:4} passed")
        harness.print_note("\n    ".join([*rows, f"{len(cases)} cases in {seconds:.1f} s"]))


if __name__ == "__main__":
    if "--differential" in sys.argv:
        from differential import differential
        at = sys.argv.index("--differential")
        sys.exit(differential(sys.argv[at + 1:], sluice_config, sluice_addresses))
    if "--only" in sys.argv:
        at = sys.argv.index("--only")
        os.environ["SLUICE_SMUGGLING_ONLY"] = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    harness.main()
