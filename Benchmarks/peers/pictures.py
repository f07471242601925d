"""Pillow; see pictures.h for what comes in and what goes out."""

import io
import sys
import time

from PIL import Image

files = {}
pictures = {}


def decode(name, size):
    picture = Image.open(io.BytesIO(files[name]))
    if not size[0]:
        picture.load()
        return
    picture.draft("RGB", size)
    picture.resize(size)


def resize(name, size):
    pictures[name].resize(size, Image.Resampling.LANCZOS)


for line in sys.stdin:
    action, name, width, height = line.split()
    if name not in files:
        files[name] = open(name, "rb").read()
    if action == "resize" and name not in pictures:
        # Colours are multiplied by alpha, as ours are; RGBA would be converted to this and back each time.
        pictures[name] = Image.open(io.BytesIO(files[name])).convert("RGBA").convert("RGBa")
    run = resize if action == "resize" else decode
    cpu, wall = time.process_time(), time.perf_counter()
    run(name, (int(width), int(height)))
    wall = time.perf_counter() - wall
    print((time.process_time() - cpu) * 1e3, wall * 1e3, flush=True)
