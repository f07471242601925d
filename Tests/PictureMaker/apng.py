"""Makes Pictures/apng: animations put together chunk by chunk, and what they look like, checked against Pillow."""
import io, os, struct, zlib
import numpy as np
from PIL import Image
import profiles
from golden import folder, photo, save_golden, soft_alpha
from png_file import ADAM7, chunk, rows

OUT = folder("apng")
KEEP, CLEAR, RESTORE = 0, 1, 2
SOURCE, OVER = 0, 1


class Frame:
    """Samples, height x width x channels, at a place; `shown` is their RGBA. The delay is a fraction of a second."""
    def __init__(self, samples, left=0, top=0, dispose=KEEP, blend=SOURCE, delay=(1, 10), shown=None, pieces=1):
        self.samples, self.left, self.top, self.dispose, self.blend = samples, left, top, dispose, blend
        self.delay, self.pieces = delay, pieces
        self.shown = samples if shown is None else shown


def packed(samples, depth, interlaced, pieces):
    parts = [samples[y::down, x::right] for x, y, right, down in ADAM7] if interlaced else [samples]
    data = zlib.compress(b"".join(rows(part, depth) for part in parts if part.size), 9)
    size = -(-len(data) // pieces)
    return [data[i:i + size] for i in range(0, len(data), size)]


def apng(size, frames, loops=0, depth=8, color_type=6, extra=(), interlaced=False, still=None):
    """`still` is a picture that is no frame."""
    header = struct.pack(">IIBBBBB", *size, depth, color_type, 0, 0, int(interlaced))
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(extra)
    data += chunk(b"acTL", struct.pack(">II", len(frames), loops))
    number = 0
    if still is not None:
        data += b"".join(chunk(b"IDAT", part) for part in packed(still, depth, interlaced, 1))
    for index, frame in enumerate(frames):
        height, width = frame.samples.shape[:2]
        data += chunk(b"fcTL", struct.pack(
            ">IIIIIHHBB", number, width, height, frame.left, frame.top, *frame.delay, frame.dispose, frame.blend))
        number += 1
        for part in packed(frame.samples, depth, interlaced, frame.pieces):
            if index == 0 and still is None:
                data += chunk(b"IDAT", part)
            else:
                data += chunk(b"fdAT", struct.pack(">I", number) + part)
                number += 1
    return data + chunk(b"IEND", b"")


def over(above, below):
    """W3C PNG, third edition, section 13.16, of straight colours."""
    above, below = above / 255, below / 255
    a, b = above[..., 3:], below[..., 3:]
    alpha = a + b * (1 - a)
    color = (above[..., :3] * a + below[..., :3] * b * (1 - a)) / np.maximum(alpha, 1e-9)
    return np.dstack([color, alpha]) * 255


def composited(size, frames):
    """What is shown with each frame, as browsers show it."""
    canvas, shown = np.zeros((size[1], size[0], 4)), []
    for frame in frames:
        before = canvas.copy()
        height, width = frame.shown.shape[:2]
        area = (slice(frame.top, frame.top + height), slice(frame.left, frame.left + width))
        canvas[area] = over(frame.shown, canvas[area]) if frame.blend == OVER else frame.shown
        shown.append(np.floor(canvas + 0.5).astype(np.uint8))
        if frame.dispose == CLEAR:
            canvas[area] = 0
        elif frame.dispose == RESTORE:
            canvas = before
    return shown


def save(name, size, frames, as_pillow=True, change=lambda pixels: pixels, **options):
    data = apng(size, frames, **options)
    with open(os.path.join(OUT, name + ".png"), "wb") as file:
        file.write(data)
    pillow = Image.open(io.BytesIO(data))
    start = 0 if options.get("still") is None else 1
    assert pillow.n_frames == len(frames) + start and pillow.info["loop"] == options.get("loops", 0)
    for index, picture in enumerate(composited(size, frames)):
        save_golden(os.path.join(OUT, f"{name}.{index}.rgba"), change(picture))
        if options.get("interlaced"):
            continue
        pillow.seek(index + start)
        number, denominator = frames[index].delay
        assert abs(pillow.info["duration"] - 1000 * number / (denominator or 100)) < 1e-6, (name, index)
        if as_pillow:
            theirs = np.asarray(pillow.convert("RGBA"))
            same = (theirs == picture).all(axis=2) | ((theirs[..., 3] == 0) & (picture[..., 3] == 0))
            assert same.all(), (name, index)


size = (40, 30)
base = photo("coffee-cup.jpg", size)
soft = np.asarray(soft_alpha(base)).astype(int)
sprite = np.asarray(soft_alpha(photo("dragonfly.jpg", (20, 14)))).astype(int)
solid = np.asarray(base.convert("RGBA")).astype(int)
# Opaque, or nothing.
hard = sprite.copy()
hard[..., 3] = np.where(hard[..., 3] > 100, 255, 0)


def four(dispose, blend, first, part):
    """A whole picture, then parts of it in two places, and one that stays."""
    return [Frame(first, delay=(5, 100)), Frame(part, 4, 3, dispose, blend, (1, 10)),
            Frame(part, 16, 12, dispose, blend, (0, 0), pieces=3), Frame(part[:9, :11], 10, 8, KEEP, blend, (5, 2))]


for number, dispose in enumerate(["keep", "clear", "restore"]):
    for blend, way in [(SOURCE, "source"), (OVER, "over")]:
        # Nor does it restore what was there before a frame that is drawn over it.
        save(f"{dispose}-{way}", size, four(number, blend, solid, hard), as_pillow=(dispose, way) != ("restore", "over"),
             loops=number)
        # Pillow mixes half transparent colours in another way.
        save(f"{dispose}-{way}-soft", size, four(number, blend, soft, sprite), as_pillow=blend == SOURCE, loops=number)

save("restore-first", size, [Frame(solid, dispose=RESTORE), Frame(hard, 2, 2, KEEP, OVER, (7, 100))])
save("clear-first", size, [Frame(solid, dispose=CLEAR), Frame(hard, 2, 2, KEEP, OVER, (7, 100))])
# Pillow draws the first frame on the picture that is no frame, and cannot read parts of interlaced pictures.
save("apart", size, [Frame(hard, 5, 6, KEEP, SOURCE, (1, 4)), Frame(solid, 0, 0, KEEP, SOURCE, (7, 0))],
     as_pillow=False, still=np.full_like(solid, 77), loops=3)
save("apart-once", size, [Frame(hard, 5, 6)], as_pillow=False, still=np.full_like(solid, 77), loops=1)
save("interlaced", size, [Frame(solid), Frame(hard, 3, 5, CLEAR, OVER, pieces=2), Frame(hard[:3, :2], 30, 20)],
     as_pillow=False, interlaced=True)
save("no-alpha", size, [Frame(solid[..., :3], shown=solid), Frame(solid[:14, :20, :3], 7, 9, shown=solid[:14, :20])],
     color_type=2)

deep = soft * 257
save("sixteen-bits", size, [Frame(deep, shown=soft), Frame(sprite * 257, 7, 9, KEEP, SOURCE, shown=sprite)],
     depth=16)

# A palette of which some entries are transparent.
reduced = base.quantize(16, dither=Image.Dither.NONE)
colors = np.array(reduced.getpalette()).reshape(-1, 3)[:16]
alphas = np.where(np.arange(16) % 5 == 0, 0, 255)
index = np.asarray(reduced).astype(int)
palette = np.dstack([colors[None], alphas[None]])[0]
extra = [chunk(b"PLTE", colors.astype(np.uint8).tobytes()), chunk(b"tRNS", alphas.astype(np.uint8).tobytes())]
turned = index[::-1, ::-1][:14, :20]
save("palette", size, [Frame(index[..., None], shown=palette[index]),
                       Frame(turned[..., None], 9, 7, KEEP, OVER, shown=palette[turned]),
                       Frame(turned[..., None], 3, 2, CLEAR, SOURCE, shown=palette[turned])],
     depth=4, color_type=3, extra=extra)

# All frames are in linear light, and to be turned clockwise by a quarter.
exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"


def seen(samples):
    light = np.floor(profiles.srgb(samples[..., :3] / 255) * 255 + 0.5).astype(int)
    return np.dstack([light, samples[..., 3]])


save("linear-turned", size, [Frame(solid, shown=seen(solid)), Frame(hard, 8, 4, CLEAR, OVER, shown=seen(hard)),
                             Frame(hard, 2, 9, shown=seen(hard))],
     as_pillow=False, change=lambda pixels: np.rot90(pixels, -1), extra=[chunk(b"gAMA", struct.pack(">I", 100000)),
                                                                      chunk(b"eXIf", exif)])

# For damage.
few = (np.arange(48).reshape(6, 8, 1) * np.array([5, 3, 2, 1])) % 256
with open(os.path.join(OUT, "tiny.png"), "wb") as file:
    file.write(apng((8, 6), [Frame(few), Frame(few[:3, :4], 2, 2, RESTORE, OVER, (7, 100), pieces=2),
                             Frame(few[:2, :5], 3, 1, CLEAR, SOURCE)], loops=2))
