"""Builds small colour profiles (ICC.1:2001-04) from figures: matrix and gamma, grey, and ink by a table."""
import itertools, struct
import numpy

D50 = (0.9642, 1.0, 0.8249)
# Red, green and blue in XYZ, adapted to D50.
WIDE = ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407))
ADOBE = ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457))
# x and y of red, green and blue; white is D65.
BT709 = ((0.64, 0.33), (0.3, 0.6), (0.15, 0.06))
BT2020 = ((0.708, 0.292), (0.17, 0.797), (0.131, 0.046))
P3 = ((0.68, 0.32), (0.265, 0.69), (0.15, 0.06))
D65 = (0.3127, 0.329)


def to_xyz(primaries):
    """Of linear red, green and blue."""
    columns = numpy.array([[x / y, 1, (1 - x - y) / y] for x, y in (*primaries, D65)]).T
    return columns[:, :3] * numpy.linalg.solve(columns[:, :3], columns[:, 3])


def srgb(linear):
    linear = numpy.clip(linear, 0, 1)
    return numpy.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)


def linear(v):
    return numpy.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def into_srgb(picture, primaries, light):
    pixels = numpy.asarray(picture.convert("RGBA")).astype(float) / 255
    matrix = numpy.linalg.inv(to_xyz(BT709)) @ to_xyz(primaries)
    pixels[..., :3] = srgb(light(pixels[..., :3]) @ matrix.T)
    return (pixels * 255).round()


def fixed(*values):
    return b"".join(struct.pack(">i", round(value * 65536)) for value in values)


def xyz(color):
    return b"XYZ \0\0\0\0" + fixed(*color)


def gamma(value):
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(value * 256))


def srgb_curve():
    values = linear(numpy.linspace(0, 1, 256))
    return b"curv\0\0\0\0" + struct.pack(">I", 256) + (values * 65535).round().astype(">u2").tobytes()


def profile(name, kind, space, connection, tags):
    text = name.encode() + b"\0"
    description = b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + bytes(78)
    tags = {b"desc": description, b"cprt": b"text\0\0\0\0none\0", b"wtpt": xyz(D50), **tags}
    table, body = struct.pack(">I", len(tags)), b""
    for tag, data in tags.items():
        table += tag + struct.pack(">II", 132 + 12 * len(tags) + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    header = struct.pack(">I4xI", 128 + len(table) + len(body), 0x02400000) + kind + space + connection
    header += struct.pack(">6H", 2026, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + fixed(*D50) + bytes(48)
    return header + table + body


def rgb(name, primaries, curve):
    tags = {tag: xyz(color) for tag, color in zip((b"rXYZ", b"gXYZ", b"bXYZ"), primaries)}
    return profile(name, b"mntr", b"RGB ", b"XYZ ", {**tags, b"rTRC": curve, b"gTRC": curve, b"bTRC": curve})


def grey(name, curve):
    return profile(name, b"mntr", b"GRAY", b"XYZ ", {b"kTRC": curve})


def lab(color):
    """Lab of XYZ relative to D50."""
    t = [value / white for value, white in zip(color, D50)]
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in t)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def cmyk(name, grid=5):
    """Inks that mix as filters, somewhat duller than the sum of them."""
    nodes = b""
    for ink in itertools.product(numpy.linspace(0, 1, grid), repeat=4):
        light = [(0.04 + 0.96 * (1 - ink[index]) ** 1.6) * (0.03 + 0.97 * (1 - ink[3]) ** 1.5) for index in range(3)]
        color = [sum(light[index] * ADOBE[index][axis] for index in range(3)) for axis in range(3)]
        lightness, a, b = lab(color)
        nodes += bytes(int(min(255, max(0, round(value)))) for value in (lightness * 2.55, a + 128, b + 128))
    ramp = bytes(range(256))
    table = b"mft1\0\0\0\0" + bytes([4, 3, grid, 0]) + fixed(1, 0, 0, 0, 1, 0, 0, 0, 1)
    return profile(name, b"prtr", b"CMYK", b"Lab ", {b"A2B0": table + ramp * 4 + nodes + ramp * 3})
