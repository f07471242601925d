#!/usr/bin/env python3
"""Changes the library in one place after the other, and tells whether the tests notice.

    mutants.py [--only PATTERN] [--swift swift]

The changes are in mutants.txt. Each is made in a copy of the package, in .mutants, which is then built and whose suites
concerned are run: one of them must fail, crash or hang. The exit status is 1 if all pass, or if a change does not fit
the sources any more.
"""

import argparse
import filecmp
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from suite_run import SuiteRun

PACKAGE = Path(__file__).resolve().parents[2]
COPY = PACKAGE / ".mutants" / "package"
BUILD = PACKAGE / ".mutants" / "build"
COPIED = ["Package.swift", "Package.resolved", "Sources", "Tests", "Samples", "README.md"]
LIMIT = 240


class Mutant:
    def __init__(self, block):
        self.title, name, *rest = block
        found = [path.relative_to(PACKAGE) for path in (PACKAGE / "Sources").rglob(name)]
        self.file = found[0] if len(found) == 1 else None
        parts = {line[:2]: line[2:] for line in rest}
        self.old, self.new, self.suites = parts["- "], parts["+ "], parts["? "]

    def applied(self):
        """The source with the change; nothing if the text to replace is not there exactly once."""
        source = (PACKAGE / self.file).read_text() if self.file else ""
        return source.replace(self.old, self.new) if source.count(self.old) == 1 else None


def read(path):
    blocks = re.split(r"\n\s*\n", path.read_text())
    lines = [[line for line in block.splitlines() if line and not line.startswith("#")] for block in blocks]
    return [Mutant(block) for block in lines if block]


def files(folder):
    return {path.relative_to(folder) for name in COPIED for path in [folder / name, *(folder / name).rglob("*")]
            if path.is_file() and not any(part.startswith(".build") for part in path.parts)}


def copy():
    """Brings the copy up to date; files that have not changed keep their times, so that builds are incremental."""
    wanted = files(PACKAGE)
    for old in files(COPY) - wanted if COPY.exists() else set():
        (COPY / old).unlink()
    for path in wanted:
        target = COPY / path
        if not target.exists() or not filecmp.cmp(PACKAGE / path, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PACKAGE / path, target)
    # Dependencies that are here need not be fetched anew.
    for name in ["checkouts", "repositories", "workspace-state.json"]:
        (here, there) = (PACKAGE / ".build" / name, BUILD / name)
        if here.is_dir() and not there.exists():
            shutil.copytree(here, there, symlinks=True)
        elif here.is_file() and not there.exists():
            BUILD.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, there)


def build(swift):
    command = [swift, "build", "--build-tests", "--package-path", str(COPY), "--scratch-path", str(BUILD)]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    errors = [line for line in result.stdout.splitlines() + result.stderr.splitlines() if "error:" in line]
    return None if result.returncode == 0 else (errors or ["swift build failed"])[0]


def run(suites):
    program = BUILD / "debug" / "DipperPackageTests.xctest"
    command = [str(program), "--testing-library", "swift-testing", "--filter", suites]
    return SuiteRun(command, LIMIT, log=PACKAGE / ".mutants" / "output.log", folder=COPY, shows_stacks=False).run()


def judge(mutant, swift):
    """What became of a change, and whether that is as it should be."""
    source = mutant.applied()
    if source is None:
        return False, "DOES NOT APPLY: its text is not in the file exactly once"
    target = COPY / mutant.file
    target.write_text(source)
    try:
        if error := build(swift):
            return False, "DOES NOT BUILD: " + error
        result = run(mutant.suites)
    finally:
        shutil.copyfile(PACKAGE / mutant.file, target)
    if result.hung:
        return True, "caught: hangs in " + result.hung[0]
    if not result.passed:
        return True, "caught: " + sorted(result.failures)[0]
    return False, f"SURVIVES {result.tests} tests of {mutant.suites}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression of titles and files")
    parser.add_argument("--swift", default="swift")
    options = parser.parse_args()
    mutants = [mutant for mutant in read(Path(__file__).with_name("mutants.txt"))
               if re.search(options.only, f"{mutant.title} {mutant.file}")]

    print(f"building the copy without a change, for {len(mutants)} changes", flush=True)
    copy()
    if error := build(options.swift):
        sys.exit(f"the copy does not build: {error}")
    # A suite that fails by itself would catch everything.
    for suites in sorted({mutant.suites for mutant in mutants}):
        result = run(suites)
        if not result.passed or not result.tests:
            sys.exit(f"without a change {suites} does not pass: {result.tests} tests, {result.failures or result.hung}")

    rows = []
    for number, mutant in enumerate(mutants, 1):
        start = time.monotonic()
        is_right, what = judge(mutant, options.swift)
        rows.append((mutant, is_right, what, time.monotonic() - start))
        print(f"{number:>3} of {len(mutants)}  {time.monotonic() - start:>5.0f} s  {mutant.title}\n{'':>18}{what}", flush=True)
    wrong = [row for row in rows if not row[1]]
    print(f"\n{len(rows) - len(wrong)} of {len(rows)} changes are caught")
    for mutant, _, what, _ in wrong:
        print(f"{mutant.file}: {mutant.title}\n    {what}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
