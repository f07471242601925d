"""Makes Pictures/processed: three pictures, and what each processor is to make of them, computed here from the formulas
that its documentation names. Colours are multiplied by alpha and in floating point on the way."""
import os
import numpy as np
from PIL import Image
from golden import folder, photo, save_golden, soft_alpha
from profiles import linear, srgb

OUT = folder("processed")
SIZE = (40, 30)


def premultiplied(picture):
    """As the tests read a golden: rounded to bytes, then 0...1."""
    pixels = np.asarray(picture.convert("RGBA")).astype(int)
    pixels[..., :3] = (pixels[..., :3] * pixels[..., 3:] + 127) // 255
    return pixels / 255


def save(name, pixels):
    pixels = np.clip(pixels, 0, 1)
    alpha = np.round(pixels[..., 3:] * 255)
    # By the rounded alpha, so that multiplying again gives the colours back.
    colors = np.divide(pixels[..., :3] * 255, alpha, out=np.zeros_like(pixels[..., :3]), where=alpha > 0)
    straight = np.concatenate([np.round(np.clip(colors, 0, 1) * 255), alpha], axis=2)
    save_golden(os.path.join(OUT, name + ".rgba"), straight)


def keep(name, picture):
    save_golden(os.path.join(OUT, name + ".rgba"), picture)
    return premultiplied(picture)


photograph = keep("photo", photo("mountain-trail.jpg", SIZE))
soft = keep("soft", soft_alpha(photo("dragonfly.jpg", SIZE)))
small = soft_alpha(photo("coffee-cup.jpg", (24, 18)))
layer = keep("layer", small)
backdrop = soft[6:24, 8:32]


def color(hex, alpha=1.0):
    return np.round(np.array([(hex >> shift & 255) * alpha for shift in (16, 8, 0)] + [alpha * 255])) / 255


def over(source, below):
    return source + below * (1 - source[..., 3:])


# Sizes and frames.

def resized(pixels, width, height):
    planes = [
        np.asarray(Image.fromarray((pixels[..., c] * 255).astype(np.float32)).resize((width, height), Image.LANCZOS))
        for c in range(4)]
    result = np.stack(planes, axis=2) / 255
    alpha = np.clip(result[..., 3:], 0, 1)
    return np.concatenate([np.clip(result[..., :3], 0, alpha), alpha], axis=2)


def framed(pixels, width, height, x, y, background):
    frame = np.zeros((height, width, 4)) + background
    part = pixels[max(0, -y):height - y, max(0, -x):width - x]
    area = np.s_[max(0, y):max(0, y) + part.shape[0], max(0, x):max(0, x) + part.shape[1]]
    frame[area] = over(part, frame[area])
    return frame


clear = np.zeros(4)
save("resize-fit", resized(soft, 20, 15))
save("resize-stretch", resized(photograph, 25, 30))
save("scale-up", resized(soft, 60, 45))
save("crop-center", photograph[7:23, 10:30])
save("crop-corner", photograph[14:, 20:])
save("crop-rectangle", photograph[:20, 30:])
save("fitting-fit", framed(resized(soft, 32, 24), 32, 32, 0, 4, color(0x336699)))
save("fitting-fill-top", framed(resized(photograph, 32, 24), 16, 24, 0, 0, clear))
save("fitting-center", framed(layer, 40, 14, 8, -2, color(0xff8000, 0.5)))
save("fitting-corner", framed(photograph, 30, 40, -10, 10, clear))


# Shapes: 32 x 32 points in each pixel say how much of it is inside.

def coverage(width, height, radius, corners, inset=0.0):
    points = (np.arange(32) + 0.5) / 32
    x = (np.arange(width)[:, None] + points).ravel()[None, :]
    y = (np.arange(height)[:, None] + points).ravel()[:, None]
    left, top, right, bottom = inset, inset, width - inset, height - inset
    radius = max(0.0, radius - inset)
    inside = (x > left) & (x < right) & (y > top) & (y < bottom)
    for corner, cx, cy in (("tl", left, top), ("tr", right, top), ("bl", left, bottom), ("br", right, bottom)):
        if corner in corners:
            mx = left + radius if corner[1] == "l" else right - radius
            my = top + radius if corner[0] == "t" else bottom - radius
            square = ((x < mx) if corner[1] == "l" else (x > mx)) & ((y < my) if corner[0] == "t" else (y > my))
            inside &= ~(square & ((x - mx) ** 2 + (y - my) ** 2 > radius ** 2))
    return inside.reshape(height, 32, width, 32).mean(axis=(1, 3))[..., None]


ALL = ("tl", "tr", "bl", "br")
save("round", photograph * coverage(40, 30, 10, ALL))
save("round-some", over(soft * coverage(40, 30, 20.5, ("tl", "br")), color(0x204060)))
save("circle", photograph[:, 5:35] * coverage(30, 30, 15, ALL))


def bordered(pixels, width, radius, line, corners=ALL):
    outer, inner = coverage(40, 30, radius, corners), coverage(40, 30, radius, corners, width)
    return pixels * (1 - line[3]) * (outer - inner) + pixels * inner + line * (outer - inner) + pixels * (1 - outer)


save("border", bordered(soft, 2.5, 0, color(0xff0000, 0.6)))
# The picture is round already: what its edge pixels have is all inside the shape.
outer, inner = coverage(40, 30, 12, ALL), coverage(40, 30, 12, ALL, 3)
save("border-round", photograph * inner + color(0xffffff) * (outer - inner))


# Colours.

def straight(pixels):
    return np.divide(pixels[..., :3], pixels[..., 3:], out=np.zeros_like(pixels[..., :3]), where=pixels[..., 3:] > 0)


def with_colors(pixels, colors):
    return np.concatenate([np.clip(colors, 0, 1) * pixels[..., 3:], pixels[..., 3:]], axis=2)


def luma(colors):
    return (colors * [0.2126, 0.7152, 0.0722]).sum(axis=-1, keepdims=True)


def controlled(pixels, brightness=0.0, contrast=1.0, saturation=1.0, exposure=0.0):
    c = srgb(linear(straight(pixels)) * 2 ** exposure)
    grey = luma(c)
    c = grey + (c - grey) * saturation
    c = (c - 0.5) * contrast + 0.5
    return with_colors(pixels, c + brightness)


save("colors-brightness", controlled(soft, brightness=0.2))
save("colors-contrast", controlled(soft, contrast=1.6))
save("colors-saturation", controlled(photograph, saturation=2))
save("colors-exposure", controlled(photograph, exposure=0.7))
save("colors-all", controlled(soft, -0.1, 1.3, 0.4, -0.8))
save("black-white", with_colors(soft, np.repeat(luma(straight(soft)), 3, axis=2)))
sepia = luma(straight(soft)) * np.array([0xC0, 0x90, 0x60]) / 255
save("monochrome", with_colors(soft, straight(soft) * 0.25 + sepia * 0.75))


def atop(line, pixels):
    return np.concatenate(
        [line[:3] * pixels[..., 3:] + pixels[..., :3] * (1 - line[3]), pixels[..., 3:]], axis=2)


save("tint", atop(color(0x00a0ff, 0.4), soft))
save("overlay", atop(color(0xff2000, 0.75), soft))


# Blending: W3C Compositing and Blending Level 1, sections 9 and 10; s is the source, b the backdrop.

FACTORS = {
    "clear": (0, 0), "source": (1, 0), "destination": (0, 1), "over": (1, "1-s"), "destinationOver": ("1-b", 1),
    "in": ("b", 0), "destinationIn": (0, "s"), "out": ("1-b", 0), "destinationOut": (0, "1-s"),
    "atop": ("b", "1-s"), "destinationAtop": ("1-b", "s"), "xor": ("1-b", "1-s"), "plus": (1, 1)}


def saturation(c):
    return c.max(axis=-1, keepdims=True) - c.min(axis=-1, keepdims=True)


def lum(c):
    return (c * [0.3, 0.59, 0.11]).sum(axis=-1, keepdims=True)


def set_lum(c, value):
    c = c + value - lum(c)
    middle, least, most = lum(c), c.min(axis=-1, keepdims=True), c.max(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        c = np.where(least < 0, middle + (c - middle) * middle / (middle - least), c)
        c = np.where(most > 1, middle + (c - middle) * (1 - middle) / (most - middle), c)
    return c


def set_sat(c, value):
    least, range_ = c.min(axis=-1, keepdims=True), saturation(c)
    return np.divide((c - least) * value, range_, out=np.zeros_like(c), where=range_ > 0)


def dodge(s, b):
    with np.errstate(all="ignore"):
        return np.where(b == 0, 0, np.where(s == 1, 1, np.minimum(1, b / (1 - s))))


def burn(s, b):
    with np.errstate(all="ignore"):
        return np.where(b == 1, 1, np.where(s == 0, 0, 1 - np.minimum(1, (1 - b) / s)))


def soft_light(s, b):
    d = np.where(b <= 0.25, ((16 * b - 12) * b + 4) * b, np.sqrt(b))
    return np.where(s <= 0.5, b - (1 - 2 * s) * b * (1 - b), b + (2 * s - 1) * (d - b))


def hard_light(s, b):
    return np.where(s <= 0.5, b * 2 * s, b + 2 * s - 1 - b * (2 * s - 1))


MIXES = {
    "multiply": lambda s, b: s * b, "screen": lambda s, b: s + b - s * b, "overlay": lambda s, b: hard_light(b, s),
    "darken": np.minimum, "lighten": np.maximum, "colorDodge": dodge, "colorBurn": burn, "hardLight": hard_light,
    "softLight": soft_light, "difference": lambda s, b: abs(s - b), "exclusion": lambda s, b: s + b - 2 * s * b,
    "hue": lambda s, b: set_lum(set_sat(s, saturation(b)), lum(b)),
    "saturation": lambda s, b: set_lum(set_sat(b, saturation(s)), lum(b)),
    "color": lambda s, b: set_lum(s, lum(b)), "luminosity": lambda s, b: set_lum(b, lum(s))}


def blended(mode, source, below):
    sa, ba = source[..., 3:], below[..., 3:]
    if mode in FACTORS:
        terms = {"s": sa, "b": ba, "1-s": 1 - sa, "1-b": 1 - ba}
        fs, fb = (terms.get(factor, factor) for factor in FACTORS[mode])
        return np.minimum(source * fs + below * fb, 1)
    mixed = MIXES[mode](straight(source), straight(below))
    colors = source[..., :3] * (1 - ba) + below[..., :3] * (1 - sa) + sa * ba * mixed
    return np.concatenate([colors, sa + ba - sa * ba], axis=2)


save("backdrop", backdrop)
backdrop = premultiplied(Image.fromarray(
    np.frombuffer(open(os.path.join(OUT, "backdrop.rgba"), "rb").read()[8:], np.uint8).reshape(18, 24, 4)))
for mode in list(FACTORS) + list(MIXES):
    save(f"blend-{mode}", blended(mode, layer, backdrop))
save("blend-with-color", blended("multiply", np.zeros_like(soft) + color(0xff8040), soft))
save("blend-below", blended("over", soft, np.zeros_like(soft) + color(0x8000ff)))
mark = np.zeros_like(photograph)
mark[12:, 16:] = layer * 128 / 255
save("blend-mark", over(mark, photograph))


# Turning: straight lines between pixels, nothing outside.

def turned(pixels, degrees, background, size):
    angle = np.radians(degrees)
    cosine, sine = np.cos(angle), np.sin(angle)
    height, width = pixels.shape[:2]
    y, x = np.mgrid[0:size[1], 0:size[0]] + 0.5
    x, y = x - size[0] / 2, y - size[1] / 2
    sx, sy = cosine * x + sine * y + width / 2 - 0.5, -sine * x + cosine * y + height / 2 - 0.5
    wide = np.pad(pixels, ((1, 1), (1, 1), (0, 0)))
    x0, y0 = np.floor(sx).astype(int), np.floor(sy).astype(int)
    fx, fy = (sx - x0)[..., None], (sy - y0)[..., None]

    def at(column, row):
        return wide[np.clip(row + 1, 0, height + 1), np.clip(column + 1, 0, width + 1)]

    top = at(x0, y0) * (1 - fx) + at(x0 + 1, y0) * fx
    bottom = at(x0, y0 + 1) * (1 - fx) + at(x0 + 1, y0 + 1) * fx
    return over(top * (1 - fy) + bottom * fy, np.zeros(4) + background)


save("rotate-quarter", np.rot90(photograph, -1))
save("flip-horizontal", photograph[:, ::-1])
# 40 cos 30 + 30 sin 30 = 49.6, 40 sin 30 + 30 cos 30 = 46.0 (a little less)
save("rotate-30", turned(photograph, 30, color(0x208020), (50, 46)))
save("rotate-cut", turned(soft, -100, np.zeros(4), (40, 30)))
