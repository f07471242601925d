"""The pictures to decode: make_pictures.py PHOTOGRAPH FOLDER enlarges a photograph and adds the grain of a camera."""

import sys

from PIL import Image, ImageChops

photograph, folder = sys.argv[1:]
original = Image.open(photograph).convert("RGB")


def picture(width, height, grain):
    large = original.resize((width, height), Image.Resampling.LANCZOS)
    # The noise is around 128.
    noise = Image.merge("RGB", [Image.effect_noise((width, height), grain) for _ in range(3)])
    return ImageChops.add(large, noise, offset=-128)


large = picture(4000, 3000, 8)
large.save(f"{folder}/photo.jpg", quality=85)
large.save(f"{folder}/progressive.jpg", quality=85, progressive=True)
middle = picture(2400, 1667, 3)
middle.save(f"{folder}/photo.png")
middle.save(f"{folder}/photo.webp", quality=80)
middle.save(f"{folder}/photo.avif", quality=60, speed=8)
# Transparent at the top, opaque at the bottom.
middle.putalpha(Image.linear_gradient("L").resize(middle.size))
middle.save(f"{folder}/alpha.png")
