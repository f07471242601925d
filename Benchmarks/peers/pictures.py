"""Pillow; see pictures.h for what comes in and what goes out."""

import io
import sys
import time

from PIL import Image, ImageDraw, ImageFilter

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


def blur(name, size):
    pictures[name].filter(ImageFilter.GaussianBlur(size[0]))


def mask(name, size):
    """Drawn once, and not in the time; its arcs have steps."""
    if name not in masks:
        masks[name] = Image.new("L", pictures[name].size)
        ImageDraw.Draw(masks[name]).rounded_rectangle((0, 0, *pictures[name].size), size[0], 255)
        straight[name] = pictures[name].convert("RGBA")


def round_corners(name, size):
    """The mask becomes the alpha of the opaque picture; colours are not multiplied by it."""
    straight[name].copy().putalpha(masks[name])


masks = {}
straight = {}
actions = {"decode": decode, "resize": resize, "blur": blur, "round": round_corners}

for line in sys.stdin:
    action, name, width, height = line.split()
    if name not in files:
        files[name] = open(name, "rb").read()
    if action != "decode" and name not in pictures:
        # Colours are multiplied by alpha, as ours are; RGBA would be converted to this and back each time.
        pictures[name] = Image.open(io.BytesIO(files[name])).convert("RGBA").convert("RGBa")
    if action == "round":
        mask(name, (int(width), int(height)))
    run = actions[action]
    cpu, wall = time.process_time(), time.perf_counter()
    run(name, (int(width), int(height)))
    wall = time.perf_counter() - wall
    print((time.process_time() - cpu) * 1e3, wall * 1e3, flush=True)
