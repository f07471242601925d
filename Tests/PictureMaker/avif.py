"""Makes Pictures/avif, by Pillow and, for what Pillow does not write, by avifenc; and what Pillow makes of them.

Colours of wide primaries are brought into sRGB here by their definition (ITU-T H.273), since Pillow does not.
"""
import os, subprocess, tempfile
import numpy
from PIL import Image
import profiles
from golden import exif, floating, folder, moving, photo, save_goldens, soft_alpha

OUT = folder("avif")


def video_light(v):
    return numpy.where(v < 0.081, v / 4.5, ((v + 0.099) / 1.099) ** (1 / 0.45))


def path(name):
    return os.path.join(OUT, name + ".avif")


def save(name, picture, has_golden=True, **options):
    picture.save(path(name), "AVIF", **{"quality": 80, "speed": 8, "codec": "aom"} | options)
    if has_golden:
        save_goldens(path(name))


def encode(name, picture, *options, change=lambda picture: picture):
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        picture.save(file.name)
        command = ["avifenc", "-c", "aom", "-s", "8", "--min", "10", "--max", "20", *options, file.name, path(name)]
        subprocess.run(command, check=True, capture_output=True)
    if change:
        save_goldens(path(name), change)


coffee = photo("coffee-cup.jpg", (63, 47))
save("half-chroma", coffee, subsampling="4:2:0")
save("full-chroma", coffee, subsampling="4:4:4")
save("grey", coffee.convert("L"))
save("alpha", soft_alpha(coffee))
save("multiplied-alpha", soft_alpha(coffee), alpha_premultiplied=True)
save("profile", coffee, icc_profile=profiles.rgb("Wide", profiles.WIDE, profiles.gamma(2.2)))
# Taller than the bands in which it is converted.
save("tall", photo("dragonfly.jpg", (24, 201)), subsampling="4:2:0")
for orientation in range(1, 9):
    save(f"orientation-{orientation}", photo("coffee-cup.jpg", (24, 17)), exif=exif(orientation))
encode("ten-bits", coffee, "-d", "10")
encode("twelve-bits-alpha", soft_alpha(coffee), "-d", "12", "-y", "420")
encode("p3", coffee, "--cicp", "12/13/6", change=lambda picture: profiles.into_srgb(picture, profiles.P3, profiles.linear))
encode("bt2020", coffee, "-d", "10", "--cicp", "9/14/9",
       change=lambda picture: profiles.into_srgb(picture, profiles.BT2020, video_light))
encode("pq", coffee, "-d", "10", "--cicp", "9/16/9", change=None)
encode("cropped", coffee, "--crop", "10,8,40,30", "-y", "420", change=lambda picture: picture.crop((10, 8, 50, 38)))
encode("grid", photo("coffee-cup.jpg", (128, 128)), "-g", "2x2")
first, *rest = [frame.convert("RGB") for frame in moving()]
save("moving", first, save_all=True, append_images=rest, duration=[50, 100, 250])
first, *rest = floating()
save("floating", first, save_all=True, append_images=rest, duration=[40, 80, 90])

# For damage, and a long side.
small, other = photo("coffee-cup.jpg", (10, 8)), photo("dragonfly.jpg", (10, 8))
save("tiny", soft_alpha(small), False, quality=20, speed=6)
save("tiny-moving", small, False, quality=20, speed=6, save_all=True, append_images=[other])
save("wide", Image.new("RGB", (40_000, 8), (200, 30, 60)), False, quality=50, speed=10)
