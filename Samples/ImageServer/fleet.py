#!/usr/bin/env python3
"""Runs image servers, a Redis and an origin on this machine, sends them a load and failures, and prints a table.

    fleet.py PROGRAM [--servers 4] [--machines 2] [--pictures 200] [--clients 8] [--seconds 5]

The servers of one machine share a folder, and all machines share the Redis. Each client asks one server for all pictures
in the same order, so that all clients want the same picture at the same time. A client whose server has gone asks the
next one. All programs listen on the loopback interface alone.
"""

import argparse
import asyncio
import base64
import hashlib
import hmac
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
    access_log {folder}/origin.log; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
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


class Fleet:
    def __init__(self, folder):
        self.folder, self.servers, self.redis, self.origin = folder, [], None, None
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
        return len(Path(f"{self.folder}/origin.log").read_text().splitlines())

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

    async def phase(self, name, lists, until=None, meanwhile=None):
        """Runs one client for each list of pictures, and prints a line of the table."""
        asked, made, answers, begin = self.asked(), await self.made(), [], time.monotonic()
        clients = [self.client(number, pictures, answers, until) for number, pictures in enumerate(lists)]
        if meanwhile:
            clients.append(meanwhile(answers))
        await asyncio.gather(*clients)
        taken = time.monotonic() - begin
        times = sorted(seconds * 1000 for _, seconds in answers)
        good = sum(status == 200 for status, _ in answers)
        print(f"| {name} | {good} | {len(answers) - good} | {self.asked() - asked} | {await self.made() - made} "
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

    later = range(10 * options.pictures, 10 * options.pictures + options.pictures // 2)

    async def kill(process, answers):
        while len(answers) < len(later) * len(clients) // 4:
            await asyncio.sleep(0.01)
        # What a server has counted ends with it.
        await fleet.made()
        process.kill()

    await fleet.phase(
        "other pictures, Redis is killed", [later for _ in clients], meanwhile=lambda answers: kill(fleet.redis, answers))
    later = range(20 * options.pictures, 20 * options.pictures + options.pictures // 2)
    await fleet.phase(
        "other pictures, a server is killed", [later for _ in clients],
        meanwhile=lambda answers: kill(fleet.servers[0].process, answers))
    fleet.origin.terminate()
    fleet.origin.wait()
    await fleet.phase("known pictures, no origin", [pictures for _ in clients])
    await fleet.phase("new pictures, no origin", [range(-20, 0) for _ in clients])
    memory = [server.memory() for server in fleet.servers if server.process.poll() is None]
    print(f"\nResident memory of the servers: {', '.join(f'{size} MB' for size in memory)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    for name, value in [("servers", 4), ("machines", 2), ("pictures", 200), ("clients", 8), ("seconds", 5)]:
        parser.add_argument(f"--{name}", type=int, default=value)
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
