"""Makes the PNG pictures of the tests, and what Pillow and numpy make of them.

Usage: png.py PHOTOS OUT, where PHOTOS is Samples/Scrolling/Assets/photos and OUT Tests/DipperTests/Pictures/png.
Files of a depth or with chunks that Pillow does not write are put together here, chunk by chunk.
"""
import io
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageCms

photos, out = sys.argv[1:3]


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def rows(samples, depth):
    """Packs samples, height x width x channels, into rows of bits; each row with another filter where it is cheap."""
    packed = []
    step = max(1, samples.shape[2] * depth // 8)
    before = None
    for y, row in enumerate(samples):
        if depth == 16:
            data = row.astype(">u2").tobytes()
        elif depth == 8:
            data = row.astype(np.uint8).tobytes()
        else:
            bits = "".join(format(int(v), "0%db" % depth) for v in row.ravel())
            bits += "0" * (-len(bits) % 8)
            data = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
        line = np.frombuffer(data, np.uint8).astype(int)
        left = np.concatenate([np.zeros(step, int), line[:-step]]) if len(line) > step else np.zeros(len(line), int)
        above = before if before is not None else np.zeros(len(line), int)
        corner = np.concatenate([np.zeros(step, int), above[:-step]]) if len(line) > step else np.zeros(len(line), int)
        guess = left + above - corner
        a, b, c = abs(guess - left), abs(guess - above), abs(guess - corner)
        paeth = np.where((a <= b) & (a <= c), left, np.where(b <= c, above, corner))
        kind = y % 5
        predicted = [0 * left, left, above, (left + above) // 2, paeth][kind]
        packed.append(bytes([kind]) + ((line - predicted) % 256).astype(np.uint8).tobytes())
        before = line
    return b"".join(packed)


def png(samples, depth, color_type, extra=(), interlaced=False, pieces=1):
    height, width = samples.shape[:2]
    if interlaced:
        data = b""
        for x, y, right, down in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
            part = samples[y::down, x::right]
            if part.size:
                data += rows(part, depth)
    else:
        data = rows(samples, depth)
    data = zlib.compress(data, 9)
    size = -(-len(data) // pieces)
    body = b"".join(chunk(b"IDAT", data[i : i + size]) for i in range(0, len(data), size))
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(extra) + body + chunk(b"IEND", b"")


def write(name, data, pixels=None):
    """The file, and what it shows: of Pillow unless it is given."""
    with open("%s/%s.png" % (out, name), "wb") as file:
        file.write(data)
    if pixels is None:
        pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
    height, width = pixels.shape[:2]
    with open("%s/%s.rgba" % (out, name), "wb") as file:
        file.write(struct.pack("<II", width, height) + pixels.astype(np.uint8).tobytes())


def opaque(rgb):
    return np.dstack([rgb, np.full(rgb.shape[:2], 255)])


photo = Image.open(photos + "/tabby-cat.jpg").convert("RGB").resize((45, 31), Image.LANCZOS)
rgb = np.asarray(photo).astype(int)
height, width = rgb.shape[:2]
grey = np.asarray(photo.convert("L")).astype(int)
alpha = np.clip(np.add.outer(np.arange(height) * 6, np.arange(width) * 6) - 60, 0, 255)
noise = np.random.default_rng(7).integers(0, 256, (height, width, 4))

for depth in 1, 2, 4, 8:
    top = (1 << depth) - 1
    shades = grey * top // 255
    shown = np.repeat((shades * 255 // top)[:, :, None], 3, 2)
    write("grey%d" % depth, png(shades[:, :, None], depth, 0), opaque(shown))
    # One grey stands for nothing.
    nothing = int(np.median(shades))
    key = chunk(b"tRNS", struct.pack(">H", nothing))
    write(
        "grey%d-trns" % depth, png(shades[:, :, None], depth, 0, [key]),
        np.dstack([shown, np.where(shades == nothing, 0, 255)]))

    indexed = photo.quantize(min(200, 1 << depth), method=Image.Quantize.MEDIANCUT, dither=0)
    palette = np.array(indexed.getpalette()).reshape(-1, 3)[: 1 << depth]
    palette = palette[:200]
    index = np.asarray(indexed).astype(int)
    plte = chunk(b"PLTE", palette.astype(np.uint8).tobytes())
    write("palette%d" % depth, png(index[:, :, None], depth, 3, [plte]), opaque(palette[index]))
    # Fewer alphas than colours: the rest is opaque.
    alphas = (np.arange(len(palette)) * 37 % 256)[: max(1, len(palette) // 2)]
    all_alphas = np.concatenate([alphas, np.full(len(palette) - len(alphas), 255)])
    trns = chunk(b"tRNS", alphas.astype(np.uint8).tobytes())
    write(
        "palette%d-trns" % depth, png(index[:, :, None], depth, 3, [plte, trns]),
        np.dstack([palette[index], all_alphas[index]]))

rgba = np.dstack([rgb, alpha])
write("rgb8", png(rgb, 8, 2, pieces=5))
write("rgba8", png(rgba, 8, 6))
write("rgba8-opaque", png(opaque(rgb), 8, 6))
write("greyalpha8", png(np.dstack([grey, alpha]), 8, 4))
# One colour stands for nothing.
write("rgb8-trns", png(rgb // 64 * 64, 8, 2, [chunk(b"tRNS", struct.pack(">HHH", *(rgb // 64 * 64)[20, 30]))]))

# 16 bits: v * 255 / 65535, rounded.
deep = np.dstack([rgb, alpha]) * 256 + noise
small = (deep * 255 + 32767) // 65535
write("rgb16", png(deep[:, :, :3], 16, 2), opaque(small[:, :, :3]))
write("rgba16", png(deep, 16, 6), small)
write("grey16", png(deep[:, :, :1], 16, 0), opaque(np.repeat(small[:, :, :1], 3, 2)))
write("greyalpha16", png(deep[:, :, [0, 3]], 16, 4), np.dstack([np.repeat(small[:, :, :1], 3, 2), small[:, :, 3]]))
# In 16 bits only the one colour is meant, not those that look like it.
key = chunk(b"tRNS", struct.pack(">HHH", *deep[20, 30, :3]))
gone = (deep[:, :, :3] == deep[20, 30, :3]).all(2)
write("rgb16-trns", png(deep[:, :, :3], 16, 2, [key]), np.dstack([small[:, :, :3], np.where(gone, 0, 255)]))

for name, samples, depth, kind, extra in [
    ("rgb8", rgb, 8, 2, []), ("rgba8", rgba, 8, 6, []), ("grey1", (grey // 128)[:, :, None], 1, 0, []),
    ("palette4", index[:, :, None] % 16, 4, 3, [chunk(b"PLTE", palette[:16].astype(np.uint8).tobytes())])]:
    write(name + "-interlaced", png(samples, depth, kind, extra, interlaced=True))
write("tiny-interlaced", png(rgb[:3, :2], 8, 2, interlaced=True))

# Orientation 6: to be turned clockwise by a quarter.
exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
write("exif6", png(rgb, 8, 2, [chunk(b"eXIf", exif)]), opaque(np.rot90(rgb, -1)))

# Colours: linear gamma, the primaries of Display P3, a profile with red and green exchanged.
def srgb(linear):
    linear = np.clip(linear, 0, 1)
    return np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def rounded(values):
    return np.floor(values * 255 + 0.5).astype(int)


write(
    "gamma-linear", png(rgb, 8, 2, [chunk(b"gAMA", struct.pack(">I", 100000))]), opaque(rounded(srgb(rgb / 255))))
write("gamma-srgb", png(rgb, 8, 2, [chunk(b"gAMA", struct.pack(">I", 45455))]), opaque(rgb))
write("srgb", png(rgb, 8, 2, [chunk(b"sRGB", b"\0"), chunk(b"gAMA", struct.pack(">I", 45455))]), opaque(rgb))


def matrix(points):
    """Of linear colours to XYZ, from x and y of white, red, green and blue."""
    xyz = np.array([[x / y, 1, (1 - x - y) / y] for x, y in points]).T
    return xyz[:, 1:] * np.linalg.solve(xyz[:, 1:], xyz[:, 0])


p3 = [(0.3127, 0.329), (0.68, 0.32), (0.265, 0.69), (0.15, 0.06)]
bt709 = [(0.3127, 0.329), (0.64, 0.33), (0.3, 0.6), (0.15, 0.06)]
convert = np.linalg.solve(matrix(bt709), matrix(p3))
linear = (rgb / 255) ** 2.2
shown = rounded(srgb(np.einsum("ij,yxj->yxi", convert, linear)))
chrm = chunk(b"cHRM", struct.pack(">8I", *[round(v * 100000) for point in p3 for v in point]))
write("chrm-p3", png(rgb, 8, 2, [chunk(b"gAMA", struct.pack(">I", 45455)), chrm]), opaque(shown))


def profile(points, gamma):
    """A matrix profile of version 2, whose connection space has the white of D50."""
    bradford = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
    x, y = points[0]
    white = bradford @ [x / y, 1, (1 - x - y) / y]
    d50 = bradford @ [0.9642, 1, 0.8249]
    columns = np.linalg.inv(bradford) @ np.diag(d50 / white) @ bradford @ matrix(points)
    fixed = lambda v: struct.pack(">i", round(v * 65536))
    tags = [(b"wtpt", b"XYZ \0\0\0\0" + b"".join(map(fixed, [0.9642, 1, 0.8249])))]
    for name, column in zip([b"rXYZ", b"gXYZ", b"bXYZ"], columns.T):
        tags.append((name, b"XYZ \0\0\0\0" + b"".join(map(fixed, column))))
    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"
    tags += [(name, curve) for name in (b"rTRC", b"gTRC", b"bTRC")]
    text = b"test\0"
    tags.append((b"desc", b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + bytes(78) + b"\0" * 1))
    tags.append((b"cprt", b"text\0\0\0\0none\0\0\0\0"))
    table, body, offset = b"", b"", 128 + 4 + 12 * len(tags)
    for name, data in tags:
        data += b"\0" * (-len(data) % 4)
        table += name + struct.pack(">II", offset + len(body), len(data))
        body += data
    length = offset + len(body)
    header = struct.pack(">I4sI4s4s4s", length, b"none", 0x02100000, b"mntr", b"RGB ", b"XYZ ")
    header += struct.pack(">6H", 2020, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + b"".join(map(fixed, [0.9642, 1, 0.8249]))
    header += bytes(128 - len(header))
    return header + struct.pack(">I", len(tags)) + table + body


icc = profile(p3, 2.2)
iccp = chunk(b"iCCP", b"P3\0\0" + zlib.compress(icc))
to_srgb = ImageCms.profileToProfile(photo, io.BytesIO(icc), ImageCms.createProfile("sRGB"), outputMode="RGB")
write("icc-p3", png(rgb, 8, 2, [iccp]), opaque(np.asarray(to_srgb)))
write("icc-p3-alpha", png(rgba, 8, 6, [iccp]), np.dstack([np.asarray(to_srgb), alpha]))
