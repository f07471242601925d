"""Makes Pictures/heic by heif-enc, and what heif-convert makes of them (package libheif-examples)."""
import os, struct, subprocess, tempfile
import numpy
from PIL import Image
import profiles
from golden import folder, photo, save_golden, shown, soft_alpha
from png_file import png

OUT = folder("heic")


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


def decoded(path):
    """heif-convert turns the picture upright, and writes its profile."""
    with tempfile.TemporaryDirectory() as place:
        run("heif-convert", path, place + "/a.png")
        picture = Image.open(place + "/a.png")
        picture.load()
        return picture


def encode(name, source, *options, ending=".png", change=lambda picture: picture, has_golden=True, **saving):
    """source: a picture, or the bytes of a file."""
    path = os.path.join(OUT, name + ".heic")
    with tempfile.TemporaryDirectory() as place:
        if isinstance(source, bytes):
            open(place + "/a" + ending, "wb").write(source)
        else:
            source.save(place + "/a" + ending, **saving)
        run("heif-enc", "-q", "80", *options, place + "/a" + ending, "-o", path)
    if has_golden:
        picture = decoded(path)
        save_golden(os.path.join(OUT, name + ".rgba"), change(shown(picture, picture.info.get("icc_profile"))))


coffee = photo("coffee-cup.jpg", (64, 48))
encode("half-chroma", coffee, "-p", "chroma=420")
encode("full-chroma", coffee, "-p", "chroma=444")
encode("grey", coffee.convert("L"))
encode("odd", photo("coffee-cup.jpg", (63, 47)))
encode("lossless", coffee, "-L", "-p", "chroma=444")
encode("alpha", soft_alpha(coffee))
deep = numpy.asarray(photo("dragonfly.jpg", (64, 48))).astype(int) * 257
encode("ten-bits", png(deep, 16, 2), "-b", "10")
encode("twelve-bits", png(deep, 16, 2), "-b", "12")
encode("profile", coffee, icc_profile=profiles.rgb("Wide", profiles.WIDE, profiles.gamma(2.2)))

def box(kind, *parts):
    data = b"".join(parts)
    return struct.pack(">I", 8 + len(data)) + kind + data


def full(kind, *parts, version=0, flags=0):
    return box(kind, bytes([version, 0, 0, flags]), *parts)


def coded(picture):
    """The configuration and the data of a coded picture."""
    with tempfile.TemporaryDirectory() as place:
        picture.save(place + "/a.png")
        run("heif-enc", "-q", "80", place + "/a.png", "-o", place + "/a.heic")
        data = open(place + "/a.heic", "rb").read()
    start = data.index(b"hvcC") - 4
    configuration = data[start:start + struct.unpack(">I", data[start:start + 4])[0]]
    return configuration, data[data.index(b"mdat") + 4:]


def save(name, items, properties, uses, references=(), change=lambda picture: picture):
    """items: kind and data of each, of which the first is shown; uses: the numbers of the properties of each."""
    entries = [full(b"infe", struct.pack(">HH", i + 1, 0) + kind + b"\0", version=2, flags=int(i > 0))
               for i, (kind, _) in enumerate(items)]
    association = b"".join(struct.pack(">HB", i + 1, len(each)) + bytes(each) for i, each in enumerate(uses))

    def meta(start):
        places = b""
        for index, (_, data) in enumerate(items):
            places += struct.pack(">HHHII", index + 1, 0, 1, start, len(data))
            start += len(data)
        count = struct.pack(">H", len(items))
        return full(
            b"meta", full(b"hdlr", b"\0\0\0\0pict" + bytes(13)), full(b"pitm", b"\0\1"),
            full(b"iloc", b"\x44\0", count, places), full(b"iinf", count, *entries),
            *([full(b"iref", *references)] if references else []),
            box(b"iprp", box(b"ipco", *properties), full(b"ipma", struct.pack(">I", len(items)), association)))

    kind = box(b"ftyp", b"heic\0\0\0\0mif1heic")
    path = os.path.join(OUT, name + ".heic")
    open(path, "wb").write(kind + meta(len(kind) + len(meta(0)) + 8) + box(b"mdat", *[data for _, data in items]))
    save_golden(os.path.join(OUT, name + ".rgba"), change(decoded(path)))


def extent(width, height):
    return full(b"ispe", struct.pack(">II", width, height))


def grid(name, columns, rows, size, tile):
    """Tiles that make one picture, as cameras write them: the last ones reach beyond it."""
    whole = photo("coffee-cup.jpg", (columns * tile, rows * tile))
    tiles = [coded(whole.crop((x * tile, y * tile, (x + 1) * tile, (y + 1) * tile)))
             for y in range(rows) for x in range(columns)]
    count = len(tiles)
    layout = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, *size)
    save(name, [(b"grid", layout)] + [(b"hvc1", data) for _, data in tiles],
         [extent(*size), extent(tile, tile)] + [configuration for configuration, _ in tiles],
         [[1]] + [[2, 0x83 + i] for i in range(count)],
         [box(b"dimg", struct.pack(f">HH{count}H", 1, count, *range(2, count + 2)))])


# Anticlockwise quarters, and the axis of mirroring: 0 exchanges top and bottom.
TURNS = {1: (0, None), 2: (0, 1), 3: (2, None), 4: (0, 0), 5: (1, 0), 6: (3, None), 7: (1, 1), 8: (1, None)}
configuration, data = coded(photo("coffee-cup.jpg", (128, 64)))
for orientation, (quarters, mirror) in TURNS.items():
    turned = [box(b"irot", bytes([quarters]))] + ([box(b"imir", bytes([mirror]))] if mirror is not None else [])
    properties = [extent(128, 64), configuration] + turned
    save(f"orientation-{orientation}", [(b"hvc1", data)], properties, [[1, 0x82] + [0x83 + i for i in range(len(turned))]])
# Of Display P3, in full range.
colors = box(b"colr", b"nclx" + struct.pack(">HHHB", 12, 13, 6, 0x80))
save("p3", [(b"hvc1", data)], [extent(128, 64), configuration, colors], [[1, 0x82, 3]],
     change=lambda picture: profiles.into_srgb(picture, profiles.P3, profiles.linear))
grid("grid", 2, 2, (120, 100), 64)
# For damage.
encode("tiny", soft_alpha(photo("coffee-cup.jpg", (16, 16))), "-q", "30", has_golden=False)
