"""Makes Pictures/jxl by cjxl, and what djxl makes of them (package libjxl-tools)."""
import os, subprocess, tempfile
from PIL import Image
import profiles
from golden import exif, floating, folder, moving, photo, save_golden, shown, soft_alpha

OUT = folder("jxl")


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


def decoded(path):
    """djxl turns the picture upright, and writes its profile."""
    with tempfile.TemporaryDirectory() as place:
        run("djxl", path, place + "/a.png")
        picture = Image.open(place + "/a.png")
        if picture.mode == "I;16":
            picture = picture.point(lambda value: value / 257).convert("L")
        picture.load()
        return picture


def encode(name, source, *options, has_golden=True, ending=".png", **saving):
    path = os.path.join(OUT, name + ".jxl")
    with tempfile.TemporaryDirectory() as place:
        source.save(place + "/a" + ending, **saving)
        run("cjxl", place + "/a" + ending, path, "-e", "4", *options)
    if has_golden:
        picture = decoded(path)
        save_golden(os.path.join(OUT, name + ".rgba"), shown(picture, picture.info.get("icc_profile")))
    return path


coffee = photo("coffee-cup.jpg", (63, 47))
wide = profiles.rgb("Wide", profiles.WIDE, profiles.gamma(2.2))
encode("lossy", coffee, "-d", "1")
encode("lossless", coffee, "-d", "0")
encode("modular", coffee, "-d", "1", "-m", "1")
encode("progressive", coffee, "-d", "1", "--progressive_dc=1", "--progressive_ac")
encode("container", coffee, "-d", "1", "--container=1")
encode("alpha", soft_alpha(coffee), "-d", "1")
encode("alpha-lossless", soft_alpha(coffee), "-d", "0")
encode("multiplied-alpha", soft_alpha(coffee), "-d", "0.5", "--premultiply=1")
encode("grey", coffee.convert("L"), "-d", "0")
encode("grey-lossy", coffee.convert("L"), "-d", "1")
encode("profile", coffee, "-d", "0", icc_profile=wide)
encode("profile-lossy", coffee, "-d", "0.5", icc_profile=wide)
encode("made-of-jpeg", coffee, ending=".jpg", quality=85)
# Several groups of 256 by 256 pixels.
encode("large", photo("dragonfly.jpg", (600, 300)), "-d", "2", has_golden=False)
for orientation in range(1, 9):
    encode(f"orientation-{orientation}", photo("coffee-cup.jpg", (24, 17)), "-d", "0.5", "-j", "0", ending=".jpg",
           quality=95, exif=exif(orientation))


def animate(name, frames, durations, loops, *options, has_golden=True):
    first, *rest = frames
    path = encode(name, first, *options, has_golden=False, save_all=True, append_images=rest, duration=durations,
                  loop=loops, disposal=1, blend=0)
    if has_golden:
        with tempfile.TemporaryDirectory() as place:
            run("djxl", path, place + "/a.apng")
            picture = Image.open(place + "/a.apng")
            for index in range(len(frames)):
                picture.seek(index)
                save_golden(os.path.join(OUT, f"{name}.{index}.rgba"), picture)


animate("moving", moving(), [50, 100, 250], 0, "-d", "0.5")
animate("floating", floating(), [40, 80, 90], 0, "-d", "0")

# For damage.
small, other = photo("coffee-cup.jpg", (10, 8)), photo("dragonfly.jpg", (10, 8))
encode("tiny", soft_alpha(small), "-d", "3", has_golden=False)
encode("tiny-lossless", small, "-d", "0", has_golden=False)
animate("tiny-moving", [small, other], [50, 60], 0, "-d", "3", has_golden=False)
