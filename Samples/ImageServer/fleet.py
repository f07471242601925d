#!/usr/bin/env python3
"""Runs image servers, a Redis and an origin on this machine, sends them a load and failures, prints a table, and draws a
timeline.

    fleet.py PROGRAM [--servers 4] [--machines 2] [--pictures 200] [--clients 8] [--seconds 5] [--timeline FILE.svg]

The servers of one machine share a folder, and all machines share the Redis. Each client asks one server for all pictures
in the same order, so that all clients want the same picture at the same time. A client whose server has gone asks the
next one. All programs listen on the loopback interface alone.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
import html
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KEY = "a key for this fleet alone"
PHOTOGRAPHS = Path(__file__).parent.parent / "Scrolling/Assets/photos"
NGINX = """
{user} daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    log_format times $msec; access_log {folder}/origin.log times; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    types {{ image/jpeg jpg; }}
    server {{ listen 127.0.0.1:{port}; root {root}; add_header Cache-Control max-age=3600; }}
}}
"""


class Server:
    """An image server: its process, its port, and the pictures that it has made so far."""

    def __init__(self, program, folder, keys, redis):
        self.process = subprocess.Popen(
            [program, "serve", "--port", "0", "--allow-private", "--folder", folder, "--key-file", keys,
             "--shared", f"unix://{redis}", "--log-level", "error"],
            stdout=subprocess.PIPE, text=True)
        self.made = 0

    def listen(self):
        line = self.process.stdout.readline()
        if "Listening on" not in line:
            sys.exit("a server has not started")
        self.port = int(line.rsplit(":", 1)[1])

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024

    async def count(self):
        if self.process.poll() is None:
            _, body = await Connection(self.port).get("/metrics")
            found = re.search(rb"^image_server_pictures_made_total{} (\d+)", body, re.MULTILINE)
            self.made = int(found[1]) if found else 0
        return self.made


class Connection:
    """A connection that stays open."""

    def __init__(self, port):
        self.port = port
        self.streams = None

    async def get(self, path):
        if not self.streams:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: fleet\r\nAccept: image/webp\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head.lower())[1])
            return int(head.split(b" ", 2)[1]), await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            self.streams = None
            raise


class Timeline:
    """What happened when: a lane for each part of the fleet, as a drawing."""

    WIDTH, LABELS, LANE, TOP, STEP = 1200, 80, 46, 50, 4
    COLOURS = {"good": "#2e7d32", "other": "#c62828", "asked": "#1565c0"}

    def __init__(self):
        # Times of the system's clock: answers with the number of the server and the status, the beginnings of the phases,
        # and what befell a part.
        self.answers, self.phases, self.events = [], [], []

    def note(self, lane, text):
        self.events.append((time.time(), lane, text))

    def svg(self, lanes, asked):
        """Draws the lanes, those of the servers first, then those of the Redis and the origin."""
        begin, end = self.phases[0][0], time.time()
        scale = (self.WIDTH - self.LABELS - 20) / (end - begin)
        floor = self.TOP + self.LANE * len(lanes)
        height = floor + 30 + 16 * len(self.phases)
        place = lambda moment: self.LABELS + (moment - begin) * scale
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.WIDTH} {height}" font-family="sans-serif" '
            'font-size="12" role="img" aria-label="Answers of each server, requests to the origin, and failures">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="{self.LABELS}" y="18" fill="#555555">answers in each moment: <tspan fill="{self.COLOURS["good"]}">'
            f'with a picture</tspan>, <tspan fill="{self.COLOURS["other"]}">other</tspan>; at the origin: '
            f'<tspan fill="{self.COLOURS["asked"]}">requests</tspan></text>']
        for number, (moment, name) in enumerate(self.phases, 1):
            x = place(moment)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.TOP - 14}" y2="{floor}" stroke="#bbbbbb"/>')
            parts.append(f'<text x="{x + 3:.1f}" y="{self.TOP - 4}" font-weight="bold">{number}</text>')
            parts.append(
                f'<text x="{self.LABELS}" y="{floor + 26 + 16 * number}">{number}, after {moment - begin:.1f} s: '
                f'{html.escape(name)}</text>')
        marks = [(moment, lanes[server], "good" if status == 200 else "other") for moment, server, status in self.answers]
        marks += [(moment, lanes[-1], "asked") for moment in asked]
        counts = {}
        for moment, lane, kind in marks:
            bar = counts.setdefault((lane, int((moment - begin) * scale) // self.STEP), {})
            bar[kind] = bar.get(kind, 0) + 1
        most = {asked: max([sum(bar.values()) for (lane, _), bar in counts.items() if (lane == lanes[-1]) == asked] + [1])
                for asked in (False, True)}
        for row, lane in enumerate(lanes):
            base = self.TOP + self.LANE * (row + 1) - 6
            ended = [moment for moment, name, text in self.events if name == lane and text in ("killed", "ended")]
            parts.append(f'<text x="{self.LABELS - 8}" y="{base - 10}" text-anchor="end">{lane}</text>')
            parts.append(
                f'<rect x="{self.LABELS}" y="{base - self.LANE + 12}" height="{self.LANE - 12}" fill="#eef2ee" '
                f'width="{place(min(ended + [end])) - self.LABELS:.1f}"/>')
            for (owner, column), bar in counts.items():
                y = base
                for kind, count in bar.items() if owner == lane else ():
                    # The square root, so that few are seen beside many.
                    whole = (sum(bar.values()) / most[lane == lanes[-1]]) ** 0.5 * (self.LANE - 14)
                    size = count / sum(bar.values()) * whole
                    y -= size
                    parts.append(
                        f'<rect x="{self.LABELS + column * self.STEP}" y="{y:.1f}" width="{self.STEP - 1}" '
                        f'height="{size:.1f}" fill="{self.COLOURS[kind]}"/>')
        for number, (moment, lane, text) in enumerate(self.events):
            x, y = place(moment), self.TOP + self.LANE * lanes.index(lane) + 6
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + self.LANE - 12}" stroke="#c62828" stroke-width="2"/>'
                f'<text x="{x + 4:.1f}" y="{y + 10 + 14 * (number % 2)}" fill="#c62828" '
                f'text-anchor="{"end" if x > self.WIDTH - 80 else "start"}">{text}</text>')
        for second in range(0, int(end - begin) + 1, max(1, int(end - begin) // 12)):
            parts.append(f'<text x="{place(begin + second):.1f}" y="{floor + 14}" fill="#555555">{second} s</text>')
        return "\n".join(parts + ["</svg>"]) + "\n"


class Fleet:
    def __init__(self, folder):
        self.folder, self.servers, self.redis, self.origin = folder, [], None, None
        self.timeline = Timeline()
        self.photographs = sorted(path.name for path in PHOTOGRAPHS.glob("*.jpg"))

    def start(self, options):
        folder = self.folder
        keys, self.redis_socket = f"{folder}/keys", f"{folder}/redis.socket"
        Path(keys).write_text(KEY)
        self.redis = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.redis_socket, "--save", "", "--dir", folder,
             "--maxmemory", "256mb", "--maxmemory-policy", "allkeys-lru"], stdout=subprocess.DEVNULL)
        self.port = random.randint(20_000, 30_000)
        Path(f"{folder}/nginx.conf").write_text(NGINX.format(
            user="" if os.getuid() else "user root;", folder=folder, port=self.port,
            root=PHOTOGRAPHS.parent.resolve()))
        self.origin = subprocess.Popen(["nginx", "-c", f"{folder}/nginx.conf", "-e", f"{folder}/nginx.log"])
        while not (os.path.exists(self.redis_socket) and os.path.exists(f"{folder}/nginx.pid")):
            if self.redis.poll() is not None or self.origin.poll() is not None:
                sys.exit("redis-server or nginx has not started")
            time.sleep(0.05)
        for number in range(options.servers):
            machine = f"{folder}/machine-{number % options.machines}"
            self.servers.append(Server(options.program, machine, keys, self.redis_socket))
        for server in self.servers:
            server.listen()

    def path(self, number):
        name = self.photographs[number % len(self.photographs)]
        rest = f"fit:400x300/format:auto/http://127.0.0.1:{self.port}/photos/{name}?{number}"
        code = hmac.new(KEY.encode(), rest.encode(), hashlib.sha256).digest()
        return f"/{base64.urlsafe_b64encode(code).decode().rstrip('=')}/{rest}"

    def asked(self):
        """The times of the requests that the origin has answered."""
        return [float(line) for line in Path(f"{self.folder}/origin.log").read_text().splitlines()]

    async def made(self):
        return sum([await server.count() for server in self.servers])

    async def client(self, number, pictures, answers, until=None):
        """Asks for each picture, and adds status and seconds of each answer; 0 if nobody has answered."""
        place = number % len(self.servers)
        connection = Connection(self.servers[place].port)
        for picture in pictures:
            begin = time.monotonic()
            if until and begin > until:
                return
            status = 0
            for _ in self.servers:
                try:
                    status, _ = await connection.get(self.path(picture))
                    break
                except (OSError, asyncio.IncompleteReadError):
                    place = (place + 1) % len(self.servers)
                    connection = Connection(self.servers[place].port)
            answers.append((status, time.monotonic() - begin))
            self.timeline.answers.append((time.time(), place, status))

    async def phase(self, name, lists, until=None, meanwhile=None):
        """Runs one client for each list of pictures, and prints a line of the table."""
        asked, made, answers = len(self.asked()), await self.made(), []
        self.timeline.phases.append((time.time(), name))
        number = len(self.timeline.phases)
        clients = [self.client(number, pictures, answers, until) for number, pictures in enumerate(lists)]
        if meanwhile:
            clients.append(meanwhile(answers))
        await asyncio.gather(*clients)
        taken = self.timeline.answers[-1][0] - self.timeline.phases[-1][0]
        times = sorted(seconds * 1000 for _, seconds in answers)
        good = sum(status == 200 for status, _ in answers)
        print(f"| {number} {name} | {good} | {len(answers) - good} | {len(self.asked()) - asked} | {await self.made() - made} "
              f"| {statistics.median(times):.1f} | {times[int(len(times) * 0.99)]:.1f} | {len(answers) / taken:.0f} |",
              flush=True)

    def end(self):
        processes = [server.process for server in self.servers] + [self.redis, self.origin]
        for process in filter(None, processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in filter(None, processes):
            process.wait(timeout=60)


async def run(fleet, options):
    pictures, clients = range(options.pictures), range(options.clients)
    print(f"{options.servers} servers on {options.machines} machines, {options.clients} clients, "
          f"{options.pictures} pictures of 400 × 300 from photographs\n")
    print("| phase | answers | other | origin requests | pictures made | p50 ms | p99 ms | a second |")
    print("|---|---|---|---|---|---|---|---|")
    await fleet.phase("stampede on empty caches", [pictures for _ in clients])
    await fleet.phase("the same again", [pictures for _ in clients])
    weights = [1 / (rank + 1) for rank in range(2 * options.pictures)]
    popular = [iter(lambda: random.choices(range(len(weights)), weights)[0], None) for _ in clients]
    await fleet.phase(
        f"by popularity, {options.seconds} s", popular, until=time.monotonic() + options.seconds)

    async def befall(answers, part, text, act):
        """Lets something happen to a part of the fleet when a quarter of the answers have come."""
        while len(answers) < options.pictures // 2 * options.clients // 4:
            await asyncio.sleep(0.01)
        # What a server has counted ends with it.
        await fleet.made()
        act()
        fleet.timeline.note(part, text)

    def others(number):
        first = number * 10 * options.pictures
        return [range(first, first + options.pictures // 2) for _ in clients]

    async def stop(answers):
        await befall(answers, "redis", "stopped", lambda: fleet.redis.send_signal(signal.SIGSTOP))
        await asyncio.sleep(2)
        fleet.redis.send_signal(signal.SIGCONT)
        fleet.timeline.note("redis", "goes on")

    await fleet.phase("other pictures, Redis is stopped for 2 s", others(1), meanwhile=stop)
    await fleet.phase(
        "other pictures, Redis is killed", others(2),
        meanwhile=lambda answers: befall(answers, "redis", "killed", fleet.redis.kill))
    await fleet.phase(
        "other pictures, a server is killed", others(3),
        meanwhile=lambda answers: befall(answers, "server 1", "killed", fleet.servers[0].process.kill))
    fleet.origin.terminate()
    fleet.origin.wait()
    fleet.timeline.note("origin", "ended")
    await fleet.phase("known pictures, no origin", [pictures for _ in clients])
    await fleet.phase("new pictures, no origin", [range(-20, 0) for _ in clients])
    memory = [server.memory() for server in fleet.servers if server.process.poll() is None]
    print(f"\nResident memory of the servers: {', '.join(f'{size} MB' for size in memory)}")
    if options.timeline:
        lanes = [f"server {number + 1}" for number in range(options.servers)] + ["redis", "origin"]
        Path(options.timeline).write_text(fleet.timeline.svg(lanes, fleet.asked()))
        print(f"Timeline: {options.timeline}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    for name, value in [("servers", 4), ("machines", 2), ("pictures", 200), ("clients", 8), ("seconds", 5)]:
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--timeline", metavar="FILE.svg", help="draw what happened when")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="fleet-")
    fleet = Fleet(folder)
    try:
        fleet.start(options)
        asyncio.run(run(fleet, options))
    finally:
        fleet.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
