"""Makes Pictures/avif, by Pillow and, for what Pillow does not write, by avifenc; and what Pillow makes of them.

Colours of wide primaries are brought into sRGB here by their definition (ITU-T H.273), since Pillow does not.
"""
import io, os, subprocess, tempfile
import numpy
from PIL import Image, ImageCms, ImageOps
from golden import folder, photo, save_golden, soft_alpha
from profile_maker import wide_profile

OUT = folder("avif")
sRGB = ImageCms.createProfile("sRGB")
PRIMARIES = {
    1: ((0.64, 0.33), (0.3, 0.6), (0.15, 0.06)), 9: ((0.708, 0.292), (0.17, 0.797), (0.131, 0.046)),
    12: ((0.68, 0.32), (0.265, 0.69), (0.15, 0.06))}


def to_xyz(number):
    """From linear red, green and blue, for white D65."""
    columns = numpy.array([[x / y, 1, (1 - x - y) / y] for x, y in PRIMARIES[number]]).T
    white = numpy.array([0.3127 / 0.329, 1, (1 - 0.3127 - 0.329) / 0.329])
    return columns * numpy.linalg.solve(columns, white)


def srgb_light(v):
    return numpy.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4)


def video_light(v):
    return numpy.where(v < 0.081, v / 4.5, ((v + 0.099) / 1.099) ** (1 / 0.45))


def into_srgb(picture, primaries, light):
    pixels = numpy.asarray(picture.convert("RGBA")).astype(float) / 255
    linear = light(pixels[..., :3]) @ (numpy.linalg.inv(to_xyz(1)) @ to_xyz(primaries)).T
    linear = linear.clip(0, 1)
    pixels[..., :3] = numpy.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return (pixels * 255).round()


def golden(name, change=None):
    decoded = Image.open(os.path.join(OUT, name + ".avif"))
    frames = getattr(decoded, "n_frames", 1)
    for index in range(frames):
        decoded.seek(index)
        shown = ImageOps.exif_transpose(decoded.copy())
        if profile := decoded.info.get("icc_profile"):
            shown = ImageCms.profileToProfile(
                shown, ImageCms.ImageCmsProfile(io.BytesIO(profile)), sRGB, outputMode=shown.mode)
        if change:
            shown = change(shown)
        save_golden(os.path.join(OUT, f"{name}.{index}.rgba" if frames > 1 else f"{name}.rgba"), shown)


def save(name, picture, **options):
    picture.save(os.path.join(OUT, name + ".avif"), "AVIF", **{"quality": 80, "speed": 8, "codec": "aom"} | options)
    golden(name)


def encode(name, picture, *options, change=None):
    with tempfile.TemporaryDirectory() as place:
        picture.save(os.path.join(place, "picture.png"))
        subprocess.run(
            ["avifenc", "-c", "aom", "-s", "8", "--min", "10", "--max", "20", *options,
             os.path.join(place, "picture.png"), os.path.join(OUT, name + ".avif")], check=True, capture_output=True)
    golden(name, change)


coffee = photo("coffee-cup.jpg", (63, 47))
save("half-chroma", coffee, subsampling="4:2:0")
save("full-chroma", coffee, subsampling="4:4:4")
save("grey", coffee.convert("L"))
save("alpha", soft_alpha(coffee))
save("multiplied-alpha", soft_alpha(coffee), alpha_premultiplied=True)
save("profile", coffee, icc_profile=wide_profile())
# Taller than the bands in which it is converted.
save("tall", photo("dragonfly.jpg", (24, 201)), subsampling="4:2:0")
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    save(f"orientation-{orientation}", photo("coffee-cup.jpg", (24, 17)), exif=exif)
encode("ten-bits", coffee, "-d", "10")
encode("twelve-bits-alpha", soft_alpha(coffee), "-d", "12", "-y", "420")
encode("p3", coffee, "--cicp", "12/13/6", change=lambda picture: into_srgb(picture, 12, srgb_light))
encode("bt2020", coffee, "-d", "10", "--cicp", "9/14/9", change=lambda picture: into_srgb(picture, 9, video_light))
encode("pq", coffee, "-d", "10", "--cicp", "9/16/9")
os.remove(os.path.join(OUT, "pq.rgba"))
encode("cropped", coffee, "--crop", "10,8,40,30", "-y", "420", change=lambda picture: picture.crop((10, 8, 50, 38)))
encode("grid", photo("coffee-cup.jpg", (128, 128)), "-g", "2x2")

size = (40, 30)
first, sprite = photo("coffee-cup.jpg", size), soft_alpha(photo("dragonfly.jpg", (20, 14)))


def with_sprite(background, left, top):
    frame = background.convert("RGBA")
    frame.alpha_composite(sprite, (left, top))
    return frame


moving = [first, with_sprite(first, 4, 3).convert("RGB"), with_sprite(first, 16, 12).convert("RGB")]
save("moving", moving[0], save_all=True, append_images=moving[1:], duration=[50, 100, 250])
clear = Image.new("RGBA", size)
floating = [with_sprite(clear, 4, 3), with_sprite(clear, 16, 12), with_sprite(clear, 8, 8)]
save("floating", floating[0], save_all=True, append_images=floating[1:], duration=[40, 80, 90])

# For damage: no golden.
small, other = photo("coffee-cup.jpg", (10, 8)), photo("dragonfly.jpg", (10, 8))
soft_alpha(small).save(os.path.join(OUT, "tiny.avif"), codec="aom", quality=20)
small.save(os.path.join(OUT, "tiny-moving.avif"), codec="aom", quality=20, save_all=True, append_images=[other])

# A long side: no golden.
Image.new("RGB", (40_000, 8), (200, 30, 60)).save(os.path.join(OUT, "wide.avif"), codec="aom", quality=50, speed=10)
