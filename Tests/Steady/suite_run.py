"""Runs the test program once and records running, failed and hung tests."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


# On SIGTERM, exit as on Ctrl-C, so that the running test program is ended too.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class SuiteRun:
    """Starts the test program and waits until it ends or exceeds its time limit.

    The program writes an event stream, a file of JSON lines, so that a hung test can be named.
    """

    def __init__(self, command, limit, log=None, folder=None, shows_stacks=True):
        self.command = command
        self.limit = limit
        self.log = log
        self.folder = folder
        self.shows_stacks = shows_stacks
        self.seconds = 0.0
        self.status = None
        self.hung = []
        self.stacks = ""
        self.failures = {}
        # The identifiers of the failed and hung tests, by their names.
        self.ids = {}
        self.recovered = False
        self.tests = 0
        # Whether all tests have ended, but those that hung.
        self.is_complete = False
        self._names = {}
        self._running = {}
        self._ended = set()
        self._rest = b""

    @property
    def passed(self):
        return self.status == 0 and not self.failures and not self.hung

    def run(self):
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="dipper-steady-") as folder:
            stream = Path(folder, "events.jsonl")
            stream.touch()
            arguments = ["--event-stream-output-path", str(stream), "--event-stream-version", "0"]
            output = open(self.log, "wb") if self.log else None
            # A session of its own, so that the programs that the tests start can be ended with it.
            process = subprocess.Popen(
                self.command + arguments, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT if output else None, cwd=self.folder, start_new_session=True)
            try:
                with open(stream, "rb") as events:
                    while process.poll() is None:
                        self._read(events)
                        if time.monotonic() - start > self.limit:
                            self.hung = sorted(self._running.values()) or ["(no test was running)"]
                            self.ids.update({name: test for test, name in self._running.items()})
                            open_tests = set(filter(is_function, self._names)) - self._ended
                            self.is_complete = open_tests <= set(self._running)
                            self.stacks = stacks(process.pid) if self.shows_stacks else ""
                            break
                        time.sleep(0.1)
                    self._read(events)
            finally:
                end(process)
                if output:
                    output.close()
        self.status = process.returncode
        self.seconds = time.monotonic() - start
        if self.status != 0 and not self.failures and not self.hung:
            # After a crash only the tests that were running are known.
            how = f"ended by signal {-self.status}" if self.status < 0 else f"status {self.status}"
            self.failures = {name: [how] for name in self._running.values()} or {"(the program)": [how]}
        return self

    def _read(self, events):
        self._rest += events.read()
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if line:
                record = json.loads(line)
                payload = record["payload"]
                if record["kind"] == "test":
                    self._names[payload["id"]] = name(payload)
                else:
                    self._note(payload)

    def _note(self, event):
        test = event.get("testID")
        kind = event["kind"]
        if kind == "testStarted" and is_function(test):
            self._running[test] = self._names.get(test, test)
        elif kind == "testSkipped":
            self._ended.add(test)
        elif kind == "testEnded":
            self._ended.add(test)
            if self._running.pop(test, None):
                self.tests += 1
        elif kind == "issueRecorded" and not event.get("issue", {}).get("isKnown"):
            texts = [message["text"] for message in event.get("messages", [])]
            place = event.get("issue", {}).get("sourceLocation", {})
            where = f"{place.get('_filePath') or place.get('fileID', '')}:{place.get('line', '')}: " if place else ""
            title = self._names.get(test, test or "(the run)")
            self.failures.setdefault(title, []).append(where + "; ".join(texts))
            if is_function(test):
                self.ids[title] = test


def is_function(test):
    """Functions have a parameter list in their identifiers; suites have none."""
    return test is not None and "(" in test


def name(test):
    place = test.get("sourceLocation", {})
    file = Path(place.get("fileID", "")).name
    title = test.get("displayName") or test.get("name", test["id"])
    return f"{title} ({file}:{place.get('line', '')})"


def stacks(process):
    """Returns the stacks of all threads of a process, from gdb."""
    if not shutil.which("gdb"):
        return "gdb is not installed: no stacks"
    command = ["gdb", "-batch", "-nx", "-p", str(process), "-ex", "set print frame-arguments none",
               "-ex", "thread apply all bt 30"]
    try:
        output = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                timeout=300).stdout
    except subprocess.TimeoutExpired:
        return "gdb did not end: no stacks"
    lines = [line for line in output.splitlines() if line.startswith(("Thread", "#"))]
    return demangled("\n".join(lines)) or "gdb shows no stacks: " + output[-500:]


def demangled(text):
    """Returns the text with Swift names demangled, if the swift command is installed."""
    if not shutil.which("swift"):
        return text
    result = subprocess.run(["swift", "demangle", "--simplified"], input=text, capture_output=True, text=True)
    return result.stdout.rstrip() if result.returncode == 0 else text


def end(process):
    """Ends the program and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
