#!/usr/bin/env python3
"""Breaks the library in one place at a time, and reports whether a test fails.

    mutants.py [--only PATTERN] [--swift swift]

A comment above a line of the sources says how the line is broken, and which suites of the tests must notice:

    // mutant Retry|Offline: `retries >= limit` => `retries > limit`

The package is built once. For each change the changed file alone is compiled, with the command that the build has for
it, and the programs that hold it are linked anew in .mutants, so that neither the sources nor the build are touched.
Then the suites are run: a test must fail, crash or hang. Two changes are tried at a time. The exit status is 1 if all
pass, if a change does not fit its line, or if there are more than 80 changes: one for a promise is enough.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from suite_run import SuiteRun

PACKAGE = Path(__file__).resolve().parents[2]
BUILD = PACKAGE / ".build"
# Of one target each, or of several.
FOLDERS = ["Sources", "Samples/CacheProxy"]
WORK = PACKAGE / ".mutants"
PROGRAM = "DipperPackageTests.xctest"
# In seconds, and as a multiple of the time without a change: two run at a time.
SHORTEST, SLOWEST = 30, 5
AT_ONCE = 2


MOST = 80
COMMENT = re.compile(r"^\s*// mutant (\S+): `(.*)` => `(.*)`$")


class Mutant:
    def __init__(self, file, line, suites, old, new):
        self.file, self.line, self.suites, self.old, self.new = file, line, suites, old, new
        self.title = f"{suites}: {old} => {new}"

    def applied(self):
        """Returns the changed source, or None if the text to replace is not in the line exactly once."""
        lines = (PACKAGE / self.file).read_text().split("\n")
        if lines[self.line].count(self.old) != 1:
            return None
        lines[self.line] = lines[self.line].replace(self.old, self.new)
        return "\n".join(lines)


def read():
    found = []
    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.*")):
            if path.suffix not in (".swift", ".c"):
                continue
            waiting = []
            for number, line in enumerate(path.read_text().split("\n")):
                if match := COMMENT.match(line):
                    waiting.append(match.groups())
                    continue
                found += [Mutant(path.relative_to(PACKAGE), number, *words) for words in waiting]
                waiting = []
    return found


class Commands:
    """How the build makes each file: the commands of its manifest."""

    def __init__(self):
        # The time of each group of suites without a change.
        self.seconds = {}
        self.folders = Queue()
        for number in range(AT_ONCE):
            self.folders.put(WORK / str(number))
        text = (BUILD / "debug.yaml").read_text()
        blocks = re.findall(r"^  \"[^\n]*\":\n(?:    [^\n]*\n)+", text, re.MULTILINE)
        self.blocks = [block for block in blocks if "\n    args: [" in block]

    def making(self, output, kind=""):
        """The command that makes a file of that name."""
        for block in self.blocks:
            outputs = re.search(r"^    outputs: (.*)$", block, re.MULTILINE)
            if outputs and f'/{output}"' in outputs[1] and kind in block:
                return json.loads(re.search(r"^    args: (.*)$", block, re.MULTILINE)[1])
        raise SystemExit(f"the build does not say how it makes {output}")

    def compile(self, source, changed, target, work):
        """The command that compiles one file of the sources as it is in `changed`, and the object file of the build."""
        if source.suffix == ".c":
            command = self.making(f"{source.name}.o", str(source))
            command[command.index(str(source))] = str(changed)
            made = command[command.index("-o") + 1]
            command[command.index("-o") + 1] = str(target)
            return command + ["-iquote", str(source.parent)], made
        driver = self.making(f"{source.name}.o", str(source))
        left_out = ["-enable-batch-mode", "-parseable-output", "-incremental"]
        jobs = run([word for word in driver if word not in left_out] + ["-driver-print-jobs"]).stdout.splitlines()
        job = shlex.split(next(job for job in jobs if f"-primary-file {source} " in job + " "))
        (listing := work / "sources").write_text(
            "".join(f"{changed if word == str(source) else word}\n" for word in sources(driver)))
        # What else the compiler makes would take the place of what belongs to the build.
        for option in ["-emit-dependencies-path", "-emit-reference-dependencies-path", "-serialize-diagnostics-path",
                       "-emit-const-values-path", "-index-store-path", "-index-unit-output-path", "-filelist"]:
            while option in job:
                place = job.index(option)
                del job[place:place + 2]
        named = set(sources(driver))
        job = [word for place, word in enumerate(job) if word not in named or job[place - 1] == "-primary-file"]
        job[job.index("-primary-file") + 1] = str(changed)
        made = job[job.index("-o") + 1]
        job[job.index("-o") + 1] = str(target)
        return [word for word in job if word != "-index-system-modules"] + ["-filelist", str(listing)], made

    def link(self, program, objects, work):
        """The command that links a program with some object files in the place of those of the build."""
        command = self.making(program, "Linking")
        listed = next(word[1:] for word in command if word.startswith("@"))
        lines = [shlex.split(line)[0] for line in Path(listed).read_text().splitlines() if line]
        (listing := work / "objects").write_text(
            "".join(shlex.quote(str(objects.get(Path(line).resolve(), line))) + "\n" for line in lines))
        command[command.index(f"@{listed}")] = f"@{listing}"
        command[command.index("-o") + 1] = str(work / "products" / program)
        return command


def sources(driver):
    listed = next(word[1:] for word in driver if word.startswith("@") and word.endswith("/sources"))
    return [shlex.split(line)[0] for line in Path(listed).read_text().splitlines() if line]


def run(command, **environment):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=PACKAGE,
                          env=os.environ | environment)


def products(work):
    """A folder with all that the build has made beside the test program, which links take the place of."""
    shutil.rmtree(work, ignore_errors=True)
    (folder := work / "products").mkdir(parents=True)
    for made in (BUILD / "debug").iterdir():
        if made.suffix == ".resources" or made.is_file() and made.stat().st_mode & 0o100:
            (folder / made.name).symlink_to(made)
    return folder


def programs(suites):
    """The test program, and those that these suites start."""
    wanted = re.compile(re.sub(r"/(\([^)]*\)|[^|]*)", "/", suites))
    texts = {path: path.read_text() for path in (PACKAGE / "Tests").rglob("*.swift")}
    concerned = [(path, text) for path, text in texts.items()
                 if any(wanted.search(f".{name}/") for name in re.findall(r"struct (\w+)", text))]
    found = {PROGRAM}
    for path, text in concerned:
        if path.parent.name == "DipperCLITests" or 'executable("dipper")' in text:
            found.add("dipper")
        if "withProxy" in text:
            found.add("CacheProxy")
        if "amespace" in text:
            found.add("NetworkProbe")
    return sorted(found)


def build(mutant, commands, source, work):
    """Makes the programs with the change; what went wrong, or nothing."""
    folder = products(work)
    original = PACKAGE / mutant.file
    # The name of the file is part of the names of what is private in it.
    (changed := work / original.name).write_text(source)
    target = work / f"{original.name}.o"
    command, made = commands.compile(original, changed, target, work)
    objects = {(PACKAGE / made).resolve(): target}
    result = run(command)
    for program in programs(mutant.suites) if result.returncode == 0 else []:
        (folder / program).unlink()
        result = run(commands.link(program, objects, work))
    errors = [line for line in result.stdout.splitlines() + result.stderr.splitlines() if "error:" in line]
    return None if result.returncode == 0 else (errors or ["the compiler or the linker failed"])[0]


def test(suites, work, limit=600):
    command = [str(work / "products" / PROGRAM), "--testing-library", "swift-testing", "--filter", suites]
    return SuiteRun(command, limit, log=work / "output.log", folder=PACKAGE, shows_stacks=False).run()


def judge(mutant, commands):
    """Returns whether the tests caught a change, a description of the result, and the seconds that it took."""
    start = time.monotonic()
    work = commands.folders.get()
    try:
        return *verdict(mutant, commands, work), time.monotonic() - start
    finally:
        commands.folders.put(work)


def verdict(mutant, commands, work):
    source = mutant.applied()
    if source is None:
        return False, "DOES NOT APPLY: its text is not in the line exactly once"
    if error := build(mutant, commands, source, work):
        return False, "DOES NOT BUILD: " + error
    result = test(mutant.suites, work, max(SHORTEST, SLOWEST * commands.seconds[mutant.suites]))
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
    mutants = read()
    if len(mutants) > MOST:
        sys.exit(f"{len(mutants)} changes: at most {MOST} are enough")
    mutants = [mutant for mutant in mutants if re.search(options.only, f"{mutant.title} {mutant.file}")]

    print(f"building the package, for {len(mutants)} changes", flush=True)
    if run(["make", "tests", f"SWIFT={options.swift}"]).returncode != 0:
        sys.exit("the package does not build")
    commands = Commands()
    products(WORK / "0")
    # A suite that fails without a change would seem to catch every change.
    for suites in sorted({mutant.suites for mutant in mutants}):
        result = test(suites, WORK / "0")
        if not result.passed or not result.tests:
            sys.exit(f"without a change {suites} does not pass: {result.tests} tests, {result.failures or result.hung}")
        commands.seconds[suites] = result.seconds

    rows = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = pool.map(lambda mutant: judge(mutant, commands), mutants)
        for number, (mutant, (is_right, what, seconds)) in enumerate(zip(mutants, results), 1):
            rows.append((mutant, is_right, what))
            print(f"{number:>3} of {len(mutants)}  {seconds:>5.0f} s  {mutant.title}\n{'':>18}{what}", flush=True)
    wrong = [row for row in rows if not row[1]]
    print(f"\n{len(rows) - len(wrong)} of {len(rows)} changes are caught")
    for mutant, _, what in wrong:
        print(f"{mutant.file}: {mutant.title}\n    {what}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
