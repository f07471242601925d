"""Makes Pictures/gif: frames placed one by one, and what they look like, checked against Pillow."""
import io, os, struct
import numpy
from PIL import GifImagePlugin, Image
from golden import folder, photo, save_golden

OUT = folder("gif")
KEEP, CLEAR, RESTORE = 1, 2, 3


class Frame:
    """Indices at a place; `palette` gives it one of its own. The delay is in 1/100 s."""
    def __init__(self, indices, palette=None, left=0, top=0, disposal=0, delay=10, transparent=None, interlaced=False):
        self.indices, self.palette, self.left, self.top = indices, palette, left, top
        self.disposal, self.delay, self.transparent, self.interlaced = disposal, delay, transparent, interlaced

    def data(self):
        rows = list(range(len(self.indices)))
        if self.interlaced:
            rows = rows[0::8] + rows[4::8] + rows[2::4] + rows[1::2]
        picture = Image.fromarray(self.indices[rows].astype(numpy.uint8))
        options = {"disposal": self.disposal, "duration": self.delay * 10}
        if self.transparent is not None:
            options["transparency"] = self.transparent
        if self.palette is not None:
            picture.putpalette(self.palette.astype(numpy.uint8).tobytes())
            options["include_color_table"] = True
        data = bytearray(b"".join(GifImagePlugin.getdata(picture, (self.left, self.top), **options)))
        # Behind the control of eight bytes, a comma, and the place and size.
        data[17] |= 0x40 if self.interlaced else 0
        return bytes(data)


def gif(size, palette, frames, loops=None):
    data = b"GIF89a" + struct.pack("<HHBBB", size[0], size[1], 0xF0 | (len(palette).bit_length() - 2), 0, 0)
    data += palette.astype(numpy.uint8).tobytes()
    if loops is not None:
        data += b"\x21\xFF\x0BNETSCAPE2.0\x03\x01" + struct.pack("<H", loops) + b"\0"
    return data + b"".join(frame.data() for frame in frames) + b";"


def composited(size, palette, frames):
    """What is on the screen with each frame, as browsers show it."""
    canvas, shown = numpy.zeros((size[1], size[0], 4), numpy.uint8), []
    for frame in frames:
        before = canvas.copy()
        height, width = frame.indices.shape
        right, bottom = min(size[0], frame.left + width), min(size[1], frame.top + height)
        area = (slice(frame.top, max(frame.top, bottom)), slice(frame.left, max(frame.left, right)))
        colors = palette if frame.palette is None else frame.palette
        part = frame.indices[:max(0, bottom - frame.top), :max(0, right - frame.left)]
        drawn = part != (-1 if frame.transparent is None else frame.transparent)
        target = canvas[area]
        target[drawn, :3], target[drawn, 3] = colors[part][drawn], 255
        shown.append(canvas.copy())
        if frame.disposal == CLEAR:
            canvas[area] = 0
        elif frame.disposal == RESTORE:
            canvas = before
    return shown


def indexed(picture, colors):
    reduced = picture.quantize(colors, dither=Image.Dither.NONE)
    palette = numpy.array(reduced.getpalette(), numpy.uint8).reshape(-1, 3)
    full = numpy.zeros((256, 3), numpy.uint8)
    full[:len(palette)] = palette
    return numpy.asarray(reduced), full


def save(name, size, palette, frames, loops=None, as_pillow=True):
    data = gif(size, palette, frames, loops)
    with open(os.path.join(OUT, name + ".gif"), "wb") as file:
        file.write(data)
    shown = composited(size if all(size) else frames[0].indices.shape[::-1], palette, frames)
    for index, picture in enumerate(shown):
        save_golden(os.path.join(OUT, f"{name}.{index}.rgba"), picture)
        if as_pillow:
            pillow = Image.open(io.BytesIO(data))
            pillow.seek(index)
            theirs = numpy.asarray(pillow.convert("RGBA"))
            same = (theirs == picture).all(axis=2) | ((theirs[..., 3] == 0) & (picture[..., 3] == 0))
            assert same.all(), (name, index)


size = (40, 30)
base, palette = indexed(photo("coffee-cup.jpg", size), 128)
other, other_palette = indexed(photo("dragonfly.jpg", (20, 14)), 128)
y, x = numpy.mgrid[0:14, 0:20]
HOLE = 255
disc = numpy.where(numpy.hypot(x - 10, y - 7) < 6, other, HOLE)


def three(disposal):
    """A whole picture, then parts of it with holes, in two places. The first frame names a transparent colour that
    it does not use: without one Pillow clears to black, where browsers clear to transparent."""
    return [Frame(base, disposal=KEEP, delay=5, transparent=HOLE),
            Frame(disc, other_palette, 4, 3, disposal, 10, HOLE),
            Frame(disc, other_palette, 16, 12, disposal, 0, HOLE),
            Frame(other, None, 10, 8, KEEP, 250)]


save("still", size, palette, [Frame(base)])
save("interlaced", size, palette, [Frame(base, interlaced=True)])
hole = base.copy()
hole[8:20, 10:30] = HOLE
save("transparent", size, palette, [Frame(hole, transparent=HOLE)])
save("keep", size, palette, three(KEEP), loops=0)
save("clear", size, palette, three(CLEAR), loops=3)
save("restore", size, palette, three(RESTORE))
save("mixed", size, palette, [
    Frame(base, disposal=CLEAR, transparent=HOLE), Frame(disc, other_palette, 2, 2, RESTORE, 7, HOLE),
    Frame(other, other_palette, 18, 14, CLEAR, 8, HOLE, interlaced=True), Frame(disc, other_palette, 10, 8, KEEP, 9, HOLE),
    Frame(disc, other_palette, 0, 16, RESTORE, 11, HOLE), Frame(disc, None, 20, 0, 0, 12, HOLE)], loops=0)
save("restore-first", size, palette, [
    Frame(base, disposal=RESTORE), Frame(disc, other_palette, 2, 2, KEEP, 7, HOLE)], as_pillow=False)
save("small-first", size, palette, [
    Frame(disc, other_palette, 5, 6, KEEP, 7, HOLE), Frame(other, other_palette, 18, 14, KEEP, 8)], as_pillow=False)
save("outside", size, palette, [
    Frame(base), Frame(disc, other_palette, 30, 20, KEEP, 10, HOLE),
    Frame(other, other_palette, 50, 40, KEEP, 10), Frame(other, other_palette, 2, 25, RESTORE, 10),
    Frame(disc, other_palette, 8, 8, KEEP, 10, HOLE)], as_pillow=False)
save("no-screen", (0, 0), palette, [Frame(base), Frame(disc, other_palette, 4, 3, KEEP, 10, HOLE)], as_pillow=False)

# For damage.
few = numpy.arange(48, dtype=numpy.uint8).reshape(6, 8) % 4
four = numpy.array([[0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255]])
with open(os.path.join(OUT, "tiny.gif"), "wb") as file:
    file.write(gif((8, 6), four, [
        Frame(few, delay=5), Frame(few[:3, :4], four[::-1], 2, 2, RESTORE, 7, 1, True), Frame(few[:2], left=5)], 2))
