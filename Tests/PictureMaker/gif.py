"""Makes Pictures/gif: files written record by record, and what their frames look like, checked against Pillow."""
import io, os, struct
import numpy
from PIL import Image
from golden import folder, photo, save_golden

OUT = folder("gif")
KEEP, CLEAR, RESTORE = 1, 2, 3


def lzw(indices, bits):
    """Compresses indices (GIF 89a, appendix F) into blocks."""
    clear, stop = 1 << bits, (1 << bits) + 1
    out, held, count = bytearray(), 0, 0
    table, size = {bytes([i]): i for i in range(clear)}, bits + 1

    def put(code):
        nonlocal held, count
        held |= code << count
        count += size
        while count >= 8:
            out.append(held & 255)
            held >>= 8
            count -= 8

    put(clear)
    known = b""
    for index in indices:
        longer = known + bytes([index])
        if longer in table:
            known = longer
            continue
        put(table[known])
        table[longer] = len(table) + 2
        if len(table) + 2 > 1 << size:
            size += 1
        if len(table) + 2 >= 4095:
            put(clear)
            table, size = {bytes([i]): i for i in range(clear)}, bits + 1
        known = bytes([index])
    put(table[known])
    put(stop)
    out.append(held & 255)
    blocks = [out[i:i + 255] for i in range(0, len(out), 255)]
    return bytes([bits]) + b"".join(bytes([len(b)]) + b for b in blocks) + b"\0"


class Frame:
    """Indices at a place; `local` gives it a palette of its own."""
    def __init__(self, indices, palette=None, left=0, top=0, disposal=0, delay=10, transparent=None, interlaced=False):
        self.indices, self.palette, self.left, self.top = indices, palette, left, top
        self.disposal, self.delay, self.transparent, self.interlaced = disposal, delay, transparent, interlaced

    def data(self):
        height, width = self.indices.shape
        flags = 0x40 if self.interlaced else 0
        local = b""
        if self.palette is not None:
            flags |= 0x80 | (len(self.palette).bit_length() - 2)
            local = self.palette.astype(numpy.uint8).tobytes()
        rows = list(range(height))
        if self.interlaced:
            rows = rows[0::8] + rows[4::8] + rows[2::4] + rows[1::2]
        control = struct.pack("<BBBBHBB", 0x21, 0xF9, 4, self.disposal << 2 | (self.transparent is not None),
                              self.delay, self.transparent or 0, 0)
        place = struct.pack("<BHHHHB", 0x2C, self.left, self.top, width, height, flags)
        return control + place + local + lzw(self.indices[rows].astype(numpy.uint8).tobytes(), 8)


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

few = numpy.arange(48, dtype=numpy.uint8).reshape(6, 8) % 4
four = numpy.array([[0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255]])
with open(os.path.join(OUT, "tiny.gif"), "wb") as file:
    file.write(gif((8, 6), four, [
        Frame(few, delay=5), Frame(few[:3, :4], four[::-1], 2, 2, RESTORE, 7, 1, True), Frame(few[:2], left=5)], 2))
