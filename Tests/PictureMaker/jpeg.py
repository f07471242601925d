"""Makes Pictures/jpeg, and beside each what Pillow decodes it to. Needs libjpeg-turbo's cjpeg."""
import io, os, subprocess, tempfile
import numpy
from PIL import Image, ImageCms, ImageOps
import profiles
from golden import PHOTOS, SRGB, exif, folder, save_golden, shown

OUT = folder("jpeg")


def photo(name, size):
    return ImageOps.fit(Image.open(os.path.join(PHOTOS, name)).convert("RGB"), size, Image.LANCZOS)


def decoded(data):
    image = Image.open(io.BytesIO(data))
    icc = image.info.get("icc_profile")
    if image.mode == "CMYK" and not icc:
        # What each ink and black let through, multiplied, with Pillow's rounding left out. Pillow takes all CMYK for
        # inverted, as Adobe writes it, and turns it round.
        light = 255 - numpy.asarray(image)
        light = (light if "adobe" in image.info else 255 - light).astype(float)
        return Image.fromarray((light[..., :3] * light[..., 3:] / 255).round().astype(numpy.uint8))
    return shown(image, icc)


def golden(name, image):
    save_golden(os.path.join(OUT, name + ".rgba"), image)


def write(name, data, has_golden=True):
    with open(os.path.join(OUT, name + ".jpg"), "wb") as file:
        file.write(data)
    if has_golden:
        golden(name, decoded(data))


def encode(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **{"quality": 88, **options})
    return out.getvalue()


def cjpeg(image, *options):
    out = io.BytesIO()
    image.save(out, "PPM")
    return subprocess.run(["cjpeg", "-quality", "88", *options], input=out.getvalue(), stdout=-1, check=True).stdout


def segments(data):
    """Marker segments before the first scan, then the rest."""
    position = 2
    while data[position + 1] != 0xDA:
        length = int.from_bytes(data[position + 2:position + 4], "big") + 2
        yield data[position:position + length]
        position += length
    yield data[position:]


cup = photo("coffee-cup.jpg", (61, 43))
cat = photo("tabby-cat.jpg", (61, 43))

for value in range(1, 9):
    write(f"orientation-{value}", encode(photo("coffee-cup.jpg", (29, 20)), exif=exif(value)))

write("grey", encode(cat.convert("L")))
write("444", encode(cup, subsampling="4:4:4"))
write("422", encode(cup, subsampling="4:2:2"))
write("420", encode(cup, subsampling="4:2:0"))
write("440", cjpeg(cup, "-sample", "1x2"))
write("411", cjpeg(cup, "-sample", "4x1"))
write("rgb", encode(cup, keep_rgb=True))
write("progressive", encode(cat, progressive=True))
write("progressive-grey", encode(cat.convert("L"), progressive=True))
write("restart", cjpeg(cat, "-restart", "1"))
write("restart-blocks", cjpeg(cat, "-restart", "2B"))
write("arithmetic", cjpeg(cat, "-arithmetic"))
write("arithmetic-progressive", cjpeg(cat, "-arithmetic", "-progressive"))
write("pixel", encode(Image.new("RGB", (1, 1), (200, 90, 30))))
write("column", encode(cup.crop((20, 0, 21, 43))))
write("17x33", encode(photo("tabby-cat.jpg", (17, 33))))

# One scan for each component, not progressive.
with tempfile.NamedTemporaryFile("w") as script:
    print("0;\n1;\n2;", file=script, flush=True)
    write("scans", cjpeg(cat, "-scans", script.name))

inks = cup.convert("CMYK")
# Black for the dark parts, as printers use it.
values = numpy.asarray(inks).astype(int)
black = values[..., :3].min(axis=2) * 3 // 4
values = numpy.dstack([values[..., :3] - black[..., None], black]).clip(0, 255).astype(numpy.uint8)
inks = Image.fromarray(values, "CMYK")
write("cmyk-adobe", encode(inks))
plain = encode(Image.fromarray(255 - values, "CMYK"))
write("cmyk", b"\xff\xd8" + b"".join(part for part in segments(plain) if part[1] != 0xEE))
write("cmyk-profile", encode(inks, icc_profile=profiles.cmyk("Some inks")))
# YCCK is the YCbCr of the inks, with black inverted, and a note of it in the segment of Adobe.
ycc = numpy.asarray(Image.fromarray(values[..., :3]).convert("YCbCr"))
ycck = encode(Image.fromarray(255 - numpy.dstack([ycc, 255 - values[..., 3:]]), "CMYK"))
ycck = [part[:-1] + b"\2" if part[1] == 0xEE else part for part in segments(ycck)]
write("ycck", b"\xff\xd8" + b"".join(ycck))

write("profile-wide", encode(cup, icc_profile=profiles.rgb("Wide", profiles.WIDE, profiles.srgb_curve())))
adobe = profiles.rgb("Like Adobe RGB", profiles.ADOBE, profiles.gamma(563 / 256))
write("profile-adobe", encode(cat, icc_profile=adobe))
write("profile-grey", encode(cat.convert("L"), icc_profile=profiles.grey("Grey 1.8", profiles.gamma(1.8))))
plain = encode(cat, icc_profile=ImageCms.ImageCmsProfile(SRGB).tobytes())
write("profile-srgb", plain, has_golden=False)
golden("profile-srgb", Image.open(io.BytesIO(plain)))

# To be made smaller: each with the whole picture reduced.
for name, options in (("large", {}), ("large-progressive", {"progressive": True})):
    data = encode(photo("coffee-cup.jpg", (400, 300)), quality=80, **options)
    write(name, data, has_golden=False)
    if not options:
        whole = Image.open(io.BytesIO(data))
        for width, height in ((200, 150), (100, 75), (80, 60), (50, 38), (40, 30)):
            golden(f"large-{width}", whole.resize((width, height), Image.LANCZOS))
