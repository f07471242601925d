"""A moving PNG to play: make_moving_png.py PHOTOGRAPH WIDTH HEIGHT FRAMES MILLISECONDS FILE moves a window over a photograph."""

import math
import sys

from PIL import Image

photograph, width, height, count, milliseconds, file = sys.argv[1:]
width, height, count = int(width), int(height), int(count)
# Few colours, which keep the file small.
large = Image.open(photograph).convert("RGB").resize((2 * width, 2 * height), Image.Resampling.LANCZOS)
large = large.quantize(64, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).convert("RGB")
still = large.resize((width, height), Image.Resampling.NEAREST)
window = (width * 2 // 5, height * 2 // 5)
frames = []
for number in range(count):
    turn = 2 * math.pi * number / count
    left = round((width - window[0]) * (0.5 + 0.5 * math.cos(turn)))
    top = round((height - window[1]) * (0.5 + 0.5 * math.sin(3 * turn)))
    frame = still.copy()
    frame.paste(large.crop((left, top, left + window[0], top + window[1])), (left, top))
    frames.append(frame)
frames[0].save(file, save_all=True, append_images=frames[1:], duration=int(milliseconds), loop=0, compress_level=6)
