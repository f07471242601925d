"""Makes Pictures/bmp and Pictures/ico: bitmaps of each depth and coding, icons, and what they look like, checked against
Pillow where it reads the same from them."""
import io, os, struct
import numpy
from PIL import Image
import profiles
from golden import folder, photo, save_golden, shown, soft_alpha

OUT, ICONS = folder("bmp"), folder("ico")
RGB, RLE8, RLE4, FIELDS, ALPHA_FIELDS = 0, 1, 2, 3, 6


def header(size, bits, coding=RGB, length=40, colors=0, masks=(0, 0, 0, 0), profile=(0, 0)):
    if length == 12:
        return struct.pack("<IHHHH", 12, size[0], size[1], 1, bits)
    start = struct.pack("<IiiHHIIiiII", length, size[0], size[1], 1, bits, coding, 0, 2835, 2835, colors, 0)
    rest = struct.pack("<4I", *masks) + struct.pack("<4s48sIIII", b"DEBM", b"", 4, *profile, 0)
    return (start + rest)[:length]


def bmp(head, palette, pixels, gap=b"", start=None, end=b""):
    start = 14 + len(head) + len(palette) + len(gap) if start is None else start
    body = head + palette + gap + pixels + end
    return struct.pack("<2sIHHI", b"BM", 14 + len(body), 0, 0, start) + body


def packed(numbers, bits, top_first=False):
    """Rows of numbers, the lowest first, each filled up to 32 bits."""
    rows = []
    for row in numbers if top_first else numbers[::-1]:
        if bits < 8:
            flags = (row[:, None] >> numpy.arange(bits)[::-1] & 1).astype(numpy.uint8).ravel()
            data = numpy.packbits(flags).tobytes()
        else:
            data = b"".join(int(number).to_bytes(bits // 8, "little") for number in row)
        rows.append(data + bytes(-len(data) % 4))
    return b"".join(rows)


def numbers(pixels, masks):
    """Red, green, blue and alpha as a number each, with the highest bits of each component in its mask."""
    result = numpy.zeros(pixels.shape[:2], numpy.uint64)
    for index, mask in enumerate(masks):
        if mask:
            low = (mask & -mask).bit_length() - 1
            most = mask >> low
            value = (pixels[..., index].astype(numpy.uint64) * most + 127) // 255
            result |= value << low
    return result


def seen(values, masks):
    """What the numbers mean."""
    result = numpy.full(values.shape + (4,), 255, numpy.uint8)
    for index, mask in enumerate(masks):
        if mask or index < 3:
            low = (mask & -mask).bit_length() - 1 if mask else 0
            most = mask >> low
            value = values >> low & most if mask else values * 0
            result[..., index] = (value * 255 + most // 2) // most if most else 0
    return result


def indexed(picture, colors):
    reduced = picture.quantize(colors, dither=Image.Dither.NONE)
    palette = numpy.array(reduced.getpalette(), numpy.uint8).reshape(-1, 3)[:colors]
    return numpy.asarray(reduced), palette


def table(palette, width=4):
    return b"".join(bytes(color[::-1]) + bytes(width - 3) for color in palette.tolist())


def from_palette(indices, palette):
    return numpy.dstack([palette[indices], numpy.full(indices.shape, 255, numpy.uint8)])


def save(name, data, picture, within=0, as_pillow=True, out=OUT, ending="bmp"):
    with open(os.path.join(out, f"{name}.{ending}"), "wb") as file:
        file.write(data)
    save_golden(os.path.join(out, name + ".rgba"), picture)
    if as_pillow:
        pillow = numpy.asarray(Image.open(io.BytesIO(data)).convert("RGBA")).astype(int)
        both = numpy.where(picture[..., 3:] == 0, 0, 1)
        assert abs((pillow - picture) * both).max() <= within, (name, abs((pillow - picture) * both).max())
        assert (abs(pillow - picture)[..., 3] <= within).all(), name


size = (37, 23)
picture = photo("coffee-cup.jpg", size)
soft = numpy.asarray(soft_alpha(picture))
full = numpy.asarray(picture.convert("RGBA"))

for bits in (1, 2, 4, 8):
    indices, palette = indexed(picture, 1 << bits)
    save(f"palette{bits}", bmp(header(size, bits), table(palette), packed(indices, bits)), from_palette(indices, palette),
         as_pillow=bits != 2)
    if bits != 2:
        save(f"os2-palette{bits}", bmp(header(size, bits, length=12), table(palette, 3), packed(indices, bits)),
             from_palette(indices, palette))

indices, palette = indexed(picture, 100)
head = header(size, 8, colors=100)
save("few-colors", bmp(head, table(palette), packed(indices, 8)), from_palette(indices, palette))
save("gap", bmp(head, table(palette), packed(indices, 8), gap=bytes(range(50))), from_palette(indices, palette))
save("no-start", bmp(head, table(palette), packed(indices, 8), start=0), from_palette(indices, palette), as_pillow=False)
save("no-filling", bmp(head, table(palette), packed(indices, 8))[:-3], from_palette(indices, palette), as_pillow=False)
save("os2-long", bmp(header(size, 8, length=64, colors=100), table(palette), packed(indices, 8)),
     from_palette(indices, palette))
save("os2-short", bmp(struct.pack("<IiiHH", 16, *size, 1, 8), table(
    numpy.vstack([palette, numpy.zeros((156, 3), numpy.uint8)])), packed(indices, 8)), from_palette(indices, palette),
    as_pillow=False)
outside = indices.copy()
outside[3:9, 4:20] = 200
black = numpy.vstack([palette, numpy.zeros((156, 3), numpy.uint8)])
save("outside-palette", bmp(head, table(palette), packed(outside, 8)), from_palette(outside, black), as_pillow=False)

M555, M565, M888 = (0x7C00, 0x3E0, 0x1F, 0), (0xF800, 0x7E0, 0x1F, 0), (0xFF0000, 0xFF00, 0xFF, 0)
values = numbers(full, M555)
save("rgb16", bmp(header(size, 16), b"", packed(values, 16)), seen(values, M555), within=1)
values = numbers(full, M565)
save("masks565", bmp(header(size, 16, FIELDS), struct.pack("<3I", *M565[:3]), packed(values, 16)), seen(values, M565), within=1)
M4444 = (0xF00, 0xF0, 0xF, 0xF000)
values = numbers(soft, M4444)
save("masks4444", bmp(header(size, 16, FIELDS, 56, masks=M4444), b"", packed(values, 16)), seen(values, M4444), as_pillow=False)
values = numbers(full, M888)
save("rgb24", bmp(header(size, 24), b"", packed(values, 24)), full)
save("top-first", bmp(header((size[0], -size[1]), 24), b"", packed(values, 24, top_first=True)), full)
save("os2-rgb24", bmp(header(size, 24, length=12), b"", packed(values, 24)), full)
# The fourth byte has no meaning.
save("rgb32", bmp(header(size, 32), b"", packed(values | 0x55000000, 32)), full)
MBGRA, M2 = (0xFF, 0xFF00, 0xFF0000, 0xFF000000), (0x3FF00000, 0xFFC00, 0x3FF, 0xC0000000)
values = numbers(soft, MBGRA)
save("alpha-v4", bmp(header(size, 32, FIELDS, 108, masks=MBGRA), b"", packed(values, 32)), soft)
save("alpha-v3", bmp(header(size, 32, ALPHA_FIELDS), struct.pack("<4I", *MBGRA), packed(values, 32)), soft, as_pillow=False)
none = numbers(full, MBGRA[:3] + (0,))
save("alpha-zero", bmp(header(size, 32, FIELDS, 108, masks=MBGRA), b"", packed(none, 32)), full, as_pillow=False)
values = numbers(full, M2)
save("masks-ten-bits", bmp(header(size, 32, FIELDS, 56, masks=M2), b"", packed(values, 32)), full, as_pillow=False)

values = numbers(full, M888)
adobe = profiles.rgb("Adobe", profiles.ADOBE, profiles.gamma(2.2))
body = packed(values, 24)
head = header(size, 24, length=124, profile=(124 + len(body), len(adobe)))
save("profile", bmp(head, b"", body, end=adobe), numpy.asarray(shown(picture, adobe).convert("RGBA")), as_pillow=False)


def runs(rows, bits, cut=1):
    """Literal parts and runs by turns, each of at most `cut` + 3 pixels."""
    data = b""
    for row in rows[::-1]:
        x = 0
        while x < len(row):
            same = 1
            while x + same < len(row) and same < 255 and row[x + same] == row[x]:
                same += 1
            if same > 1 or len(row) - x < 4:
                data += bytes([same, int(row[x]) if bits == 8 else int(row[x]) * 17])
                x += same
                continue
            part = [int(number) for number in row[x:x + 3 + x % 4]]
            x += len(part)
            half = part + [0] * (len(part) % 2)
            code = bytes(part) if bits == 8 else bytes(a << 4 | b for a, b in zip(half[::2], half[1::2]))
            data += bytes([0, len(part)]) + code + bytes(len(code) % 2)
        data += b"\0\0"
    return data[:-2] + b"\0\1"


for bits in (8, 4):
    coding = RLE8 if bits == 8 else RLE4
    indices, palette = indexed(picture, 1 << bits)
    save(f"runs{bits}", bmp(header(size, bits, coding), table(palette), runs(indices, bits)), from_palette(indices, palette))
# Two colours by turns, and nothing at the top right, and after the third row from below.
indices, palette = indexed(picture, 16)
code = b"\x06\x12\0\2\2\1\x04\x35\0\0" + b"\x05\x77\0\0" + b"\0\2\0\2" + b"\xFF\x45\0\1"
drawn = numpy.full(size[::-1], -1)
drawn[-1, :6] = [1, 2] * 3
drawn[-2, 8:12] = [3, 5] * 2
drawn[-3, :5] = 7
drawn[-6, :] = ([4, 5] * 19)[:size[0]]
picture_of = from_palette(numpy.maximum(drawn, 0), palette)
picture_of[drawn < 0] = 0
save("runs-apart", bmp(header(size, 4, RLE4), table(palette), code), picture_of, as_pillow=False)

# Icons.


def mask(alpha):
    return packed((alpha < 128).astype(int), 1)


def bitmap(picture, bits):
    """A picture of red, green, blue and alpha as an icon has it, and what it looks like."""
    size = picture.shape[1::-1]
    head = header((size[0], size[1] * 2), bits)
    alpha = picture[..., 3]
    if bits == 32:
        values = numbers(picture, (0xFF0000, 0xFF00, 0xFF, 0xFF000000))
        return head + packed(values, 32) + bytes(-(-size[0] // 32) * 4 * size[1]), picture
    if bits == 24:
        data, result = packed(numbers(picture, M888), 24), picture.copy()
    else:
        indices, palette = indexed(Image.fromarray(picture).convert("RGB"), 1 << bits)
        palette = numpy.vstack([palette, numpy.zeros(((1 << bits) - len(palette), 3), numpy.uint8)])
        data, result = table(palette) + packed(indices, bits), from_palette(indices, palette)
    result[..., 3] = 255
    result[alpha < 128] = 0
    return head + data + mask(alpha), result


def png(picture):
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "png")
    return file.getvalue()


def ico(icons):
    """Icons, each of a size, a number of bits and its bytes."""
    entries, bodies, start = b"", b"", 6 + 16 * len(icons)
    for (width, height), bits, data in icons:
        entries += struct.pack("<BBBBHHII", width % 256, height % 256, 0, 0, 1, bits, len(data), start + len(bodies))
        bodies += data
    return struct.pack("<HHH", 0, 1, len(icons)) + entries + bodies


def icon(width, height):
    return numpy.asarray(soft_alpha(photo("dragonfly.jpg", (width, height))))


for bits in (1, 4, 8, 24, 32):
    data, result = bitmap(icon(20, 18), bits)
    save(f"bits{bits}", ico([((20, 18), bits, data)]), result, out=ICONS, ending="ico")
save("png", ico([((24, 24), 32, png(icon(24, 24)))]), icon(24, 24), out=ICONS, ending="ico")
# Alpha that is 0 everywhere, and a mask.
picture = icon(20, 18)
opaque = picture.copy()
opaque[..., 3] = 0
data, _ = bitmap(opaque, 32)
result = picture.copy()
result[..., 3] = 255
result[picture[..., 3] < 128] = 0
rows = len(mask(picture[..., 3]))
save("mask32", ico([((20, 18), 32, data[:-rows] + mask(picture[..., 3]))]), result, as_pillow=False, out=ICONS, ending="ico")
# Sizes, each in a colour of its own, the largest neither first nor last; of one size two, and one of other proportions.
colors = {16: (255, 0, 0), 32: (0, 255, 0), 48: (0, 0, 255), 256: (255, 255, 0)}


def plain(width, height, color):
    return numpy.full((height, width, 4), color + (255,), numpy.uint8)


icons = [((16, 16), 32, bitmap(plain(16, 16, colors[16]), 32)[0]),
         ((32, 32), 4, bitmap(plain(32, 32, (9, 9, 9)), 4)[0]),
         ((256, 256), 32, png(plain(256, 256, colors[256]))),
         ((32, 32), 32, bitmap(plain(32, 32, colors[32]), 32)[0]),
         ((64, 40), 32, png(plain(64, 40, (8, 8, 8)))),
         ((48, 48), 24, bitmap(plain(48, 48, colors[48]), 24)[0])]
with open(os.path.join(ICONS, "sizes.ico"), "wb") as file:
    file.write(ico(icons))

# For damage.
few = numpy.arange(48).reshape(6, 8) % 4
with open(os.path.join(OUT, "tiny.bmp"), "wb") as file:
    file.write(bmp(header((8, 6), 4, RLE4, colors=4), table(numpy.array([[0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255]])),
                   runs(few, 4)))
with open(os.path.join(OUT, "tiny-masks.bmp"), "wb") as file:
    small = soft[4:7, 8:12]
    file.write(bmp(header((4, 3), 16, FIELDS, 56, masks=M4444), b"", packed(numbers(small, M4444), 16)))
with open(os.path.join(ICONS, "tiny.ico"), "wb") as file:
    file.write(ico([((5, 3), 1, bitmap(icon(5, 3), 1)[0]), ((2, 2), 32, bitmap(icon(2, 2), 32)[0])]))
