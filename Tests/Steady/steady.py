#!/usr/bin/env python3
"""Runs the tests repeatedly, and reports which runs failed or hung, and where.

    steady.py [--runs 20] [--load 0] [--limit 300] [--again 0] [--logs FOLDER] -- PROGRAM ARGUMENT...

PROGRAM is the built test program. With --load, stress-ng keeps that many processes busy meanwhile. A run that takes
longer than --limit seconds counts as hung: its running tests and the stacks of all threads are shown, and it is killed.
With --again, up to ten tests that failed or hung run again, alone, that many times at most; those that pass then are
named as flaky, and each of them is a fault to find. The exit status is 1 if a run failed or hung.
"""

import argparse
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from suite_run import SuiteRun


@contextmanager
def busy(count):
    """Keeps `count` processes busy."""
    if count == 0:
        yield
        return
    load = subprocess.Popen(["stress-ng", "--quiet", "--cpu", str(count)], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        load.terminate()
        load.wait()


def tell(run):
    """Prints the failures of a run in detail."""
    for test, issues in sorted(run.failures.items()):
        print(f"   failed: {test}")
        for issue in issues[:5]:
            print("      " + issue.replace("\n", "\n      "))
    if run.hung:
        print(f"   still running after {run.seconds:.0f} s:")
        for test in run.hung:
            print(f"      {test}")
        print("   stacks of all threads:")
        print("      " + run.stacks.replace("\n", "\n      "))
    sys.stdout.flush()


def again(command, run, times):
    """Runs the failed and hung tests of a run again, one at a time. Returns whether each has passed at last."""
    unnamed = len(run.ids) < len(run.failures) or (run.hung and not run.is_complete)
    if not run.ids or len(run.ids) > 10 or unnamed:
        return False
    stubborn = []
    for test, identifier in sorted(run.ids.items()):
        # An identifier is `Module.Suite/function()/File.swift:line:column`; a filter matches it without the place.
        pattern = "^" + re.escape(re.sub(r"/[^/]*\.swift:\d+:\d+$", "", identifier))
        for attempt in range(1, times + 1):
            second = SuiteRun([*command, "--filter", pattern], 120).run()
            if second.passed and second.tests:
                print(f"flaky: {test} failed, and passed when it ran alone (attempt {attempt})", flush=True)
                break
        else:
            stubborn.append(test)
    return not stubborn


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--load", type=int, default=0, help="busy processes beside the tests")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a run may take on an idle machine")
    parser.add_argument("--again", type=int, default=0, help="times that a failed test runs again, alone")
    parser.add_argument("--logs", type=Path, help="keeps the output of runs that failed here, and shows none")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    limit = options.limit * (1 + options.load / (os.cpu_count() or 1))
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)

    runs = []
    with busy(options.load):
        for number in range(1, options.runs + 1):
            log = options.logs / f"run-{number}.log" if options.logs else None
            run = SuiteRun(options.command, limit, log).run()
            runs.append(run)
            if options.runs > 1:
                state = "passed" if run.passed else "HUNG" if run.hung else "FAILED"
                print(f"run {number} of {options.runs}: {state} after {run.seconds:.1f} s", flush=True)
            if not run.passed:
                tell(run)
                run.recovered = options.again > 0 and again(options.command, run, options.again)
            elif log:
                log.unlink()

    if options.runs > 1:
        print(f"\n{'run':>4} {'seconds':>8}  result")
        for number, run in enumerate(runs, 1):
            found = [f"failed: {test}" for test in sorted(run.failures)] + [f"hung: {test}" for test in run.hung]
            for index, line in enumerate(found or ["passed"]):
                print(f"{number:>4} {run.seconds:>8.1f}  {line}" if index == 0 else f"{'':>13}  {line}")
        count = sum(run.passed for run in runs)
        print(f"{count} of {len(runs)} runs passed" + (f", beside {options.load} busy processes" * bool(options.load)))
    sys.exit(0 if all(run.passed or run.recovered for run in runs) else 1)


if __name__ == "__main__":
    main()
