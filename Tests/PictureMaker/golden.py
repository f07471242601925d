"""Writes a decoded picture for comparison: NAME.rgba, as Golden.swift reads it."""
import os, struct
import numpy
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
PHOTOS = os.path.join(HERE, "../../Samples/Scrolling/Assets/photos")


def folder(name):
    path = os.path.join(HERE, "../DipperTests/Pictures", name)
    os.makedirs(path, exist_ok=True)
    return path


def photo(name, size):
    return Image.open(os.path.join(PHOTOS, name)).convert("RGB").resize(size, Image.LANCZOS)


def soft_alpha(picture):
    """The picture with an alpha that falls from the middle to the corners, where it is 0."""
    width, height = picture.size
    y, x = numpy.mgrid[0:height, 0:width]
    distance = numpy.hypot(x / width - 0.5, y / height - 0.5)
    alpha = numpy.clip(300 - 520 * distance, 0, 255).astype(numpy.uint8)
    picture = picture.convert("RGBA")
    picture.putalpha(Image.fromarray(alpha))
    return picture


def save_golden(path, picture):
    """picture: a Pillow picture, or rows x columns x RGBA."""
    pixels = numpy.asarray(picture.convert("RGBA") if isinstance(picture, Image.Image) else picture)
    with open(path, "wb") as file:
        file.write(struct.pack("<II", pixels.shape[1], pixels.shape[0]) + pixels.astype(numpy.uint8).tobytes())
