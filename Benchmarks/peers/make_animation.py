"""An animation to play: make_animation.py PHOTOGRAPH FRAMES MILLISECONDS FILE moves a window of 640 × 480 over a photograph."""

import math
import sys

from PIL import Image

photograph, count, milliseconds, file = sys.argv[1:]
size = (640, 480)
large = Image.open(photograph).convert("RGB").resize((1280, 960), Image.Resampling.LANCZOS)
frames = []
for number in range(int(count)):
    turn = 2 * math.pi * number / int(count)
    left, top = round(320 + 300 * math.cos(turn)), round(240 + 220 * math.sin(2 * turn))
    frame = large.crop((left, top, left + size[0], top + size[1]))
    # As one palette each, without dithering, which would make the file much larger.
    frames.append(frame.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE))
frames[0].save(file, save_all=True, append_images=frames[1:], duration=int(milliseconds), loop=0, optimize=False)
