#!/usr/bin/env python3
"""Tests the inspector's page in headless Chromium, against the tool `dipper` and a server of its own.

    page_test.py DIPPER [--pictures FOLDER]

Needs Debian's chromium, and playwright and axe-playwright-python from PyPI; see `make inspector-test`. With --pictures it
writes screenshots of every view, in both colour schemes and at two widths.
"""

import argparse
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import axe_playwright_python
from playwright.sync_api import sync_playwright

PHOTOS = pathlib.Path(__file__).resolve().parents[2] / "Samples/Scrolling/Assets/photos"
AXE = next(pathlib.Path(axe_playwright_python.__file__).parent.rglob("axe.min.js")).read_text()
VIEWS = ["now", "timeline", "entries", "totals", "controls"]
SECRET = "CANARY"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers /photos/NAME, /page.html, /evil.svg and any other path; ?status, ?after, ?size, ?rate, ?hold=NAME."""

    protocol_version = "HTTP/1.1"
    gates = {}

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        name = os.path.basename(url.path)
        body, kind = b"x" * int(query.get("size", 2000)), "text/plain"
        if (PHOTOS / name).is_file():
            body, kind = (PHOTOS / name).read_bytes(), "image/jpeg"
        elif name.endswith(".html"):
            body, kind = b"<script>window.hacked = 1</script>", "text/html"
        elif name.endswith(".svg"):
            body, kind = b'<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked = 1"/>', "image/svg+xml"
        if "hold" in query:
            self.gates.setdefault(query["hold"], threading.Event()).wait(60)
        try:
            self.send_response(int(query.get("status", 200)))
            for field, value in [
                ("Content-Length", str(len(body))), ("Content-Type", kind), ("ETag", f'"{hashlib.md5(body).hexdigest()}"'),
                ("Set-Cookie", SECRET), ("Via", "<img src=x onerror=window.hacked=1>"),
            ] + ([("Retry-After", query["after"])] if "after" in query else []):
                self.send_header(field, value)
            self.end_headers()
            rate = int(query.get("rate", 0)) or len(body)
            for start in range(0, len(body), max(1, rate // 20)):
                self.wfile.write(body[start:start + max(1, rate // 20)])
                self.wfile.flush()
                if "rate" in query:
                    time.sleep(0.05)
        except OSError:
            pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Tool:
    """`dipper batch --inspect`, driven line by line, and the address of its page."""

    def __init__(self, program, folder, *options):
        self.process = subprocess.Popen(
            [program, "batch", "--inspect", "--inspect-wait", "--cache-dir", folder, "--retries", "6", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = None
        while self.url is None:
            line = self.process.stderr.readline()
            if not line:
                raise SystemExit("the tool has ended")
            found = re.search(r"inspector: (http\S+)", line)
            self.url = found and found[1]
        self.ends = 0
        self.changed = threading.Condition()
        for stream in (self.process.stdout, self.process.stderr):
            threading.Thread(target=self.read, args=[stream], daemon=True).start()

    def read(self, stream):
        for _ in stream:
            with self.changed:
                self.ends += 1
                self.changed.notify_all()

    def say(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def wait(self, ends):
        with self.changed:
            assert self.changed.wait_for(lambda: self.ends >= ends, 120), f"{self.ends} of {ends} calls have ended"

    def memory(self):
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text())[1]) * 1024

    def seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.send_signal(2)
        return self.process.wait(20)


class Tests:
    def __init__(self, program, browser, server, pictures):
        self.program, self.browser, self.pictures = program, browser, pictures
        self.base = f"http://127.0.0.1:{server.server_port}"
        self.folder = tempfile.mkdtemp(prefix="dipper-inspector-")
        self.tool = Tool(program, self.folder + "/cache")
        self.problems = []
        self.others = [self.tool.process]

    def open(self, view="now", width=1440, height=900, scheme="light", url=None):
        page = self.browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        page.goto((url or self.tool.url) + "#" + view)
        page.wait_for_selector("#link.live")
        return page

    def row(self, page, name):
        return page.locator("#fetches tbody tr", has_text=name)

    def until(self, page, expression):
        """Waits in the page itself: the policy of the page forbids playwright's way, which evaluates text there."""
        done = page.evaluate("async () => { const end = performance.now() + 60000; while (!(" + expression + ")"
                             " && performance.now() < end) await new Promise(requestAnimationFrame); return " + expression + "; }")
        assert done, expression

    # The tests, in order: each begins with what the ones before it have left.

    def test_the_page_tells_which_fetch_waits_and_for_what_and_where_each_answer_came_from(self):
        page = self.open()
        self.tool.say(
            f"get {self.base}/alpha?hold=a", f"slow {self.base}/later", f"get {self.base}/busy?status=503&after=30",
            f"get http://user:{SECRET}@{self.base[7:]}/private?token={SECRET}&hold=a")
        for name, text in [
            ("alpha", "transferring"), ("later", "waits for"), ("later", "urgent fetch"),
            ("busy", "the server says Retry-After 30 s"), ("private", "token=***"),
        ]:
            self.row(page, name).filter(has_text=text).wait_for()
        Handler.gates["a"].set()
        answers = page.locator("#answers tbody")
        for name in ["alpha", "later"]:
            answers.locator("tr", has_text=name).filter(has_text="network").wait_for()
        self.tool.say(f"get {self.base}/alpha?hold=a", f"cancel {self.base}/busy?status=503&after=30")
        answers.locator("tr", has_text="alpha").filter(has_text="memory").wait_for()
        answers.locator("tr", has_text="busy").filter(has_text="cancelled").wait_for()
        assert SECRET not in page.content()
        page.close()

    def test_script_in_urls_headers_and_bodies_stays_text(self):
        page = self.open()
        names = ["evil.svg", "page.html", "a/%3Cimg%20src=x%20onerror=window.hacked=1%3E", "<script>window.hacked=1</script>"]
        self.tool.say(*(f"get {self.base}/{name}" for name in names))
        page.locator("#answers tbody tr", has_text="script").first.wait_for()
        for name in ["evil.svg", "page.html"]:
            page.goto(self.tool.url + "#entries")
            page.fill("#search", name)
            page.locator("#list tbody tr", has_text=name).locator("button").click()
            page.locator("#entry", has_text="<img src=x onerror").wait_for()
            with page.expect_download() as download:
                page.get_by_role("link", name="Download").click()
            assert download.value.suggested_filename == name
        assert page.evaluate("window.hacked") is None
        page.close()

    def test_the_timeline_tells_the_story_of_a_fetch_by_keyboard_and_pointer(self):
        page = self.open("timeline")
        self.tool.say(f"get {self.base}/photos/coffee-cup.jpg?rate=400000")
        page.fill("#find", "coffee")
        self.until(page, "document.getElementById('span-count').textContent === '1\\u0020fetch'")
        page.focus("#chart")
        page.keyboard.press("Home")
        page.locator("#story", has_text="status 200").filter(has_text="write of").wait_for()
        text = page.inner_text("#story")
        for part in ["an urgent call", "transferred for", "first byte", "body", "write of"]:
            assert part in text, (part, text)
        page.get_by_role("button", name="Close").click()
        box = page.locator("#chart").bounding_box()
        page.mouse.click(box["x"] + 60, box["y"] + 37)
        page.locator("#story", has_text="coffee-cup").wait_for()
        for key in ["+", "-", "ArrowLeft", "ArrowRight", "0", "End", "PageUp"]:
            page.keyboard.press(key)
        page.close()

    def test_entries_are_found_sorted_asked_for_copied_and_removed(self):
        page = self.open("entries")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("#list tbody tr").nth(3).wait_for()
        page.get_by_role("button", name="Size").click()
        page.locator("th[aria-sort=descending]", has_text="Size").wait_for()
        page.locator("#list tbody tr").first.filter(has_text="coffee-cup").wait_for()
        self.until(page, "document.querySelector('#list img')?.naturalWidth > 0")
        page.fill("#search", "private")
        page.locator("#place", has_text="1–1 of 1").wait_for()
        page.locator("#list tbody button").click()
        page.get_by_role("button", name="Copy as curl").click()
        page.locator("#entry", has_text="Copied").wait_for()
        command = page.evaluate("navigator.clipboard.readText()")
        assert command.startswith("curl ") and "token=***" in command and SECRET not in command, command
        page.fill("#search", "coffee")
        page.locator("#list tbody button", has_text="coffee-cup").click()
        page.get_by_role("button", name="Ask the server").click()
        page.locator("#entry", has_text="is being asked").wait_for()
        page.get_by_role("button", name="Remove").click()
        page.locator("#place", has_text="There is no such entry").wait_for()
        page.close()

    def test_the_controls_hold_fetches_back_and_two_pages_see_it(self):
        page, other = self.open("controls"), self.open("now")
        page.check("#fast-suspended")
        page.locator("#done", has_text="suspended").wait_for()
        self.tool.say(f"get {self.base}/held")
        self.row(other, "held").filter(has_text="the queue is suspended").wait_for()
        page.uncheck("#fast-suspended")
        other.locator("#answers tr", has_text="held").wait_for()
        page.select_option("#network", "offline")
        page.locator("#done", has_text="offline").wait_for()
        self.tool.say(f"get {self.base}/offline")
        self.row(other, "offline").filter(has_text="offline for").wait_for()
        other.locator("#tiles .warn", has_text="simulated").wait_for()
        page.select_option("#network", "")
        other.locator("#answers tr", has_text="/offline").wait_for()
        page.select_option("#pressure", "severe")
        other.locator("#tiles .warn", has_text="severe").wait_for()
        page.select_option("#pressure", "")
        page.fill("#fast-width", "3")
        page.keyboard.press("Tab")
        page.locator("#done", has_text="3 fetches at a time").wait_for()
        page.fill("#fast-width", "8")
        page.get_by_role("button", name="Clear everything").click()
        page.get_by_role("button", name="Go on").click()
        other.locator("#tiles div", has_text="Disk").filter(has_text="0 entries").wait_for()
        page.close()
        other.close()

    def test_every_view_is_accessible_and_fits_in_both_schemes_and_widths(self):
        photos = sorted(PHOTOS.iterdir())
        self.tool.say(*(f"get {self.base}/photos/{photo.name}?rate=150000&n={i}" for i, photo in enumerate(photos * 2)))
        self.tool.say(*(f"slow {self.base}/photos/{photo.name}?rate=90000&later={i}" for i, photo in enumerate(photos)))
        self.tool.say(f"get {self.base}/missing?status=404", f"get {self.base}/busy?status=503&after=30")
        found = []
        for scheme in ["light", "dark"]:
            for width, height in [(1440, 900), (390, 844)]:
                page = self.open("now", width, height, scheme)
                page.locator("#answers tbody tr").nth(2).wait_for()
                for view in VIEWS:
                    page.goto(self.tool.url + "#" + view)
                    page.locator(f"#{view}-title").wait_for()
                    if view == "entries":
                        page.locator("#list tbody tr button").nth(1).click()
                        page.locator("#entry h3").wait_for()
                        self.until(page, "[...document.images].slice(0, 3).every(image => image.complete)")
                    if view == "timeline" and width > 1000:
                        page.click("#fit")
                        page.focus("#chart")
                        for key in ["Home", "ArrowDown"]:
                            page.keyboard.press(key)
                        page.locator("#story h3", has_text="later").wait_for()
                    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                    if self.pictures:
                        page.screenshot(path=f"{self.pictures}/{view}-{scheme}-{width}.png")
                    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                        found.append(f"{view} at {width} is too wide")
                    page.evaluate(AXE + "; 0")
                    for problem in page.evaluate("axe.run()")["violations"]:
                        nodes = [node["html"][:120] for node in problem["nodes"][:3]]
                        found.append(f"{view} {scheme} {width}: {problem['id']}: {nodes}")
                page.close()
        assert not found, "\n".join(found)

    def test_ten_thousand_fetches_and_thousands_of_events_a_second_cost_little(self):
        page = self.open("timeline")
        self.tool.wait(0)
        start = self.tool.ends
        self.tool.say(*(f"get {self.base}/many/{n}?size=200" for n in range(10_000)))
        self.tool.wait(start + 10_000)
        self.until(page, "+document.getElementById('span-count').textContent.replace(/[^0-9]/g, '') >= 9900")
        script = """async move => {
            const chart = document.getElementById('chart'), times = [];
            for (let i = 0; i < 120; i++) {
                if (move) chart.dispatchEvent(new WheelEvent('wheel', { deltaY: i % 2 ? -4000 : 9000, ctrlKey: i % 5 === 0, cancelable: true }));
                const start = performance.now();
                await new Promise(requestAnimationFrame);
                times.push(performance.now() - start);
            }
            return times.sort((a, b) => a - b)[108];
        }"""
        moving = page.evaluate(script, True)
        empty = self.browser.new_page()
        empty.set_content("<div id=chart></div>")
        still = empty.evaluate(script, False)
        empty.close()
        print(f"    frames, 9 of 10 within: {moving:.1f} ms while moving, {still:.1f} ms of an empty page")
        assert moving < max(2 * still, 34), (moving, still)
        # Hits in memory: two events for each call.
        before, begun, cpu = self.tool.memory(), time.monotonic(), self.tool.seconds()
        start = self.tool.ends
        for _ in range(4):
            self.tool.say(*(f"get {self.base}/many/{n}?size=200" for n in range(10_000)))
        self.tool.wait(start + 40_000)
        took = time.monotonic() - begun
        print(f"    {40_000 / took:.0f} answers a second with a page open, {(self.tool.seconds() - cpu) / took:.2f} cores, "
              f"memory {before >> 20} MiB, then {self.tool.memory() >> 20} MiB")
        assert self.tool.memory() - before < 64 << 20
        page.close()

    def test_a_store_is_inspected_beside_the_program_that_uses_it(self):
        start = self.tool.ends
        self.tool.say(*(f"get {self.base}/stored/{n}" for n in range(60)))
        self.tool.wait(start + 60)
        process = subprocess.Popen(
            [self.program, "inspect", "--read-only", "--cache-dir", self.folder + "/cache"], stdout=subprocess.PIPE, text=True)
        self.others.append(process)
        url = process.stdout.readline().strip()
        page = self.open("entries", url=url)
        page.locator("#list tbody tr").nth(40).wait_for()
        page.click("#next")
        page.locator("#place", has_text="51–100 of").wait_for()
        page.goto(url + "#controls")
        page.locator("#read-only").wait_for()
        assert page.locator("#panels fieldset:not([disabled])").count() == 0
        page.close()
        process.send_signal(2)
        assert process.wait(20) == 130

    def test_the_first_row_comes_soon_and_the_page_tells_that_the_program_has_ended(self):
        self.tool.say(f"get {self.base}/waiting?hold=never")
        page = self.browser.new_page()
        times = []
        # The machine may be busy with something else for a moment.
        for _ in range(3):
            page.goto(self.tool.url)
            page.wait_for_selector("#fetches tbody tr")
            times.append(page.evaluate("performance.getEntriesByName('first row')[0].startTime"))
        first = min(times)
        print(f"    first live row after {first:.0f} ms")
        assert first < 300, first
        assert self.tool.end() == 130
        page.locator("#link.lost").wait_for()
        page.close()

    def run(self, only):
        failed = 0
        names = [name for name in vars(Tests) if name.startswith("test_") and only in name]
        for name in names:
            self.problems = []
            try:
                getattr(self, name)()
                allowed = name.startswith("test_the_first_row")
                assert allowed or not self.problems, self.problems
                print(f"passed: {name[5:].replace('_', ' ')}")
            except Exception as error:
                failed += 1
                print(f"FAILED: {name[5:].replace('_', ' ')}\n{error}")
        print(f"{len(names) - failed} passed, {failed} failed")
        for process in self.others:
            if process.poll() is None:
                process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dipper")
    parser.add_argument("--pictures")
    parser.add_argument("--only", default="", help="a part of the names of the tests to run")
    arguments = parser.parse_args()
    if arguments.pictures:
        os.makedirs(arguments.pictures, exist_ok=True)
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        failed = Tests(arguments.dipper, browser, server, arguments.pictures).run(arguments.only)
        browser.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
