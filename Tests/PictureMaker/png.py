"""Makes Pictures/png, and what Pillow and numpy make of them."""
import io, os, struct, zlib
import numpy as np
from PIL import Image
import profiles
from golden import folder, photo, save_golden, shown
from png_file import chunk, png

OUT = folder("png")


def write(name, data, pixels=None):
    """The file, and what it shows: of Pillow unless it is given."""
    with open(os.path.join(OUT, name + ".png"), "wb") as file:
        file.write(data)
    save_golden(os.path.join(OUT, name + ".rgba"), Image.open(io.BytesIO(data)) if pixels is None else pixels)


def opaque(rgb):
    return np.dstack([rgb, np.full(rgb.shape[:2], 255)])


def number(*values):
    return struct.pack(f">{len(values)}I", *values)


def palette_chunk(colors):
    return chunk(b"PLTE", colors.astype(np.uint8).tobytes())


picture = photo("tabby-cat.jpg", (45, 31))
rgb = np.asarray(picture).astype(int)
height, width = rgb.shape[:2]
grey = np.asarray(picture.convert("L")).astype(int)
alpha = np.clip(np.add.outer(np.arange(height) * 6, np.arange(width) * 6) - 60, 0, 255)
noise = np.random.default_rng(7).integers(0, 256, (height, width, 4))

for depth in 1, 2, 4, 8:
    top = (1 << depth) - 1
    shades = grey * top // 255
    seen = np.repeat((shades * 255 // top)[:, :, None], 3, 2)
    write(f"grey{depth}", png(shades[:, :, None], depth, 0), opaque(seen))
    # One grey stands for nothing.
    nothing = int(np.median(shades))
    key = chunk(b"tRNS", struct.pack(">H", nothing))
    write(f"grey{depth}-trns", png(shades[:, :, None], depth, 0, [key]),
          np.dstack([seen, np.where(shades == nothing, 0, 255)]))

    indexed = picture.quantize(min(200, 1 << depth), method=Image.Quantize.MEDIANCUT, dither=0)
    palette = np.array(indexed.getpalette()).reshape(-1, 3)[: min(200, 1 << depth)]
    index = np.asarray(indexed).astype(int)
    write(f"palette{depth}", png(index[:, :, None], depth, 3, [palette_chunk(palette)]), opaque(palette[index]))
    # Fewer alphas than colours: the rest is opaque.
    alphas = (np.arange(len(palette)) * 37 % 256)[: max(1, len(palette) // 2)]
    all_alphas = np.concatenate([alphas, np.full(len(palette) - len(alphas), 255)])
    trns = chunk(b"tRNS", alphas.astype(np.uint8).tobytes())
    write(f"palette{depth}-trns", png(index[:, :, None], depth, 3, [palette_chunk(palette), trns]),
          np.dstack([palette[index], all_alphas[index]]))

rgba = np.dstack([rgb, alpha])
write("rgb8", png(rgb, 8, 2, pieces=5))
write("rgba8", png(rgba, 8, 6))
write("rgba8-opaque", png(opaque(rgb), 8, 6))
write("greyalpha8", png(np.dstack([grey, alpha]), 8, 4))
# One colour stands for nothing.
coarse = rgb // 64 * 64
write("rgb8-trns", png(coarse, 8, 2, [chunk(b"tRNS", struct.pack(">HHH", *coarse[20, 30]))]))

# 16 bits: v * 255 / 65535, rounded.
deep = np.dstack([rgb, alpha]) * 256 + noise
small = (deep * 255 + 32767) // 65535
small_grey = np.repeat(small[:, :, :1], 3, 2)
write("rgb16", png(deep[:, :, :3], 16, 2), opaque(small[:, :, :3]))
write("rgba16", png(deep, 16, 6), small)
write("grey16", png(deep[:, :, :1], 16, 0), opaque(small_grey))
write("greyalpha16", png(deep[:, :, [0, 3]], 16, 4), np.dstack([small_grey, small[:, :, 3]]))
# In 16 bits only the one colour is meant, not those that look like it.
key = chunk(b"tRNS", struct.pack(">HHH", *deep[20, 30, :3]))
gone = (deep[:, :, :3] == deep[20, 30, :3]).all(2)
write("rgb16-trns", png(deep[:, :, :3], 16, 2, [key]), np.dstack([small[:, :, :3], np.where(gone, 0, 255)]))

for name, samples, depth, kind, extra in [
    ("rgb8", rgb, 8, 2, []), ("rgba8", rgba, 8, 6, []), ("grey1", (grey // 128)[:, :, None], 1, 0, []),
    ("palette4", index[:, :, None] % 16, 4, 3, [palette_chunk(palette[:16])]),
    ("tiny", rgb[:3, :2], 8, 2, [])]:
    write(name + "-interlaced", png(samples, depth, kind, extra, interlaced=True))

# Orientation 6: to be turned clockwise by a quarter.
exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
write("exif6", png(rgb, 8, 2, [chunk(b"eXIf", exif)]), opaque(np.rot90(rgb, -1)))


# Colours: linear gamma, the primaries of Display P3, and a profile of these.
def rounded(values):
    return np.floor(values * 255 + 0.5).astype(int)


plain = chunk(b"gAMA", number(45455))
linear = png(rgb, 8, 2, [chunk(b"gAMA", number(100000))])
write("gamma-linear", linear, opaque(rounded(profiles.srgb(rgb / 255))))
write("gamma-srgb", png(rgb, 8, 2, [plain]), opaque(rgb))
write("srgb", png(rgb, 8, 2, [chunk(b"sRGB", b"\0"), plain]), opaque(rgb))
convert = np.linalg.solve(profiles.to_xyz(profiles.BT709), profiles.to_xyz(profiles.P3))
chrm = chunk(b"cHRM", number(*[round(v * 100000) for point in (profiles.D65, *profiles.P3) for v in point]))
write("chrm-p3", png(rgb, 8, 2, [plain, chrm]),
      opaque(rounded(profiles.srgb(np.einsum("ij,yxj->yxi", convert, (rgb / 255) ** 2.2)))))
icc = profiles.rgb("P3", profiles.WIDE, profiles.gamma(2.2))
iccp = chunk(b"iCCP", b"P3\0\0" + zlib.compress(icc))
in_srgb = np.asarray(shown(picture, icc))
write("icc-p3", png(rgb, 8, 2, [iccp]), opaque(in_srgb))
write("icc-p3-alpha", png(rgba, 8, 6, [iccp]), np.dstack([in_srgb, alpha]))
