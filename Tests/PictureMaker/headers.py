"""Makes Pictures/headers: a small file of every format and kind, and `expected.json` with what Pillow reads.

Needs Pillow, pillow-heif and pillow-jxl-plugin.
"""
import io, json, pathlib, struct
import numpy
import pillow_heif
import pillow_jxl  # noqa: F401
from PIL import Image, ImageCms, ImageOps
from golden import SRGB, exif, folder as in_pictures
from png_file import png

pillow_heif.register_heif_opener()
folder = pathlib.Path(in_pictures("headers"))
profile = ImageCms.ImageCmsProfile(SRGB).tobytes()


def picture(mode="RGB", shift=0, size=(40, 24)):
    image = Image.new("RGBA", size)
    image.putdata(
        [((x * 6 + shift) % 256, y * 9 % 256, (x + y) * 3 % 256, 255 - x * 4 % 256)
         for y in range(size[1]) for x in range(size[0])])
    return image.convert(mode)


def save(name, image, **options):
    image.save(folder / name, **options)


for turn in range(1, 9):
    save(f"turned{turn}.jpg", picture(), exif=exif(turn), quality=30)
    save(f"turned{turn}.avif", picture(), exif=exif(turn), quality=30)
save("gray.jpg", picture("L"), quality=30)
save("progressive.jpg", picture(), quality=30, progressive=True)
save("cmyk.jpg", picture("RGB").convert("CMYK"), quality=30)
save("profile.jpg", picture(), quality=30, icc_profile=profile)
save("restarts.jpg", picture(), quality=30, restart_marker_rows=1, comment=b"a comment")

for mode in ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"]:
    base = picture("L") if mode == "I;16" else picture(mode)
    save(f"mode-{mode.replace(';', '')}.png", base.convert("I;16") if mode == "I;16" else base)
save("key.png", picture("L"), transparency=7)
save("profile-turned6.png", picture(), icc_profile=profile, exif=exif(6))
save("moving.png", picture(), save_all=True, append_images=[picture(shift=90)], duration=100)
(folder / "interlaced.png").write_bytes(png(numpy.asarray(picture(size=(10, 6))), 8, 2, interlaced=True))

frames = [picture("P", shift) for shift in (0, 60, 120)]
save("still.gif", picture("P"))
save("moving-once.gif", frames[0], save_all=True, append_images=frames[1:], duration=80)
save("moving-for-ever.gif", frames[0], save_all=True, append_images=frames[1:], duration=80, loop=0)
save("moving-3.gif", frames[0], save_all=True, append_images=frames[1:], duration=80, loop=3)
save("plain-rows.gif", picture("P"), interlace=0, transparency=3)

save("lossy.webp", picture(), quality=30)
save("lossy-alpha.webp", picture("RGBA"), quality=30)
save("lossless.webp", picture(), lossless=True)
save("lossless-alpha.webp", picture("RGBA"), lossless=True)
save("profile-turned6.webp", picture(), quality=30, icc_profile=profile, exif=exif(6))
colors = [picture("RGBA", shift) for shift in (0, 60, 120)]
save("moving.webp", colors[0], save_all=True, append_images=colors[1:], duration=80, loop=0, quality=30)
save("moving-4.webp", colors[0], save_all=True, append_images=colors[1:], duration=80, loop=4, quality=30)

save("alpha.avif", picture("RGBA"), quality=30)
save("profile.avif", picture(), quality=30, icc_profile=profile)
save("moving.avif", picture(), save_all=True, append_images=[picture(shift=s) for s in (60, 120)], duration=80, quality=30)
save("plain.heic", picture(), quality=30)
save("alpha.heic", picture("RGBA"), quality=30)
save("plain.jxl", picture(), quality=30)
save("large.jxl", Image.new("RGB", (3000, 301), (9, 8, 7)), lossless=True)
save("alpha.jxl", picture("RGBA"), lossless=True)

for mode in ["1", "L", "P", "RGB", "RGBA", "CMYK"]:
    save(f"mode-{mode}.tiff", picture("RGB").convert(mode) if mode == "CMYK" else picture(mode), compression="tiff_lzw")
save("turned8-profile.tiff", picture(), exif=exif(8), icc_profile=profile, compression="tiff_lzw")
save("highest-first.tiff", picture("L").convert("I;16B"))
for mode in ["1", "L", "P", "RGB", "RGBA"]:
    save(f"mode-{mode}.bmp", picture(mode, size=(10, 6)))
pixels = picture("RGB", size=(4, 2)).tobytes("raw", "BGR")
old = struct.pack("<2sIHHI", b"BM", 26 + len(pixels), 0, 0, 26) + struct.pack("<IHHHH", 12, 4, 2, 1, 24) + pixels
(folder / "os2.bmp").write_bytes(old)
(folder / "top-first.bmp").write_bytes(
    struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    + struct.pack("<IiiHHIIiiII", 40, 4, -2, 1, 24, 0, len(pixels), 0, 0, 0, 0) + pixels)
save("sizes.ico", picture("RGBA", size=(256, 256)).resize((256, 256)), sizes=[(16, 16), (48, 48)])
save("large.ico", Image.new("RGBA", (256, 256), (1, 2, 3, 4)), sizes=[(32, 32), (256, 256)])

headers = []
for path in sorted(folder.iterdir()):
    if path.suffix in (".json", ".md"):
        continue
    image = Image.open(io.BytesIO(path.read_bytes()))
    # Before the pixels are loaded: Pillow turns those of TIFF at once.
    orientation = image.getexif().get(0x0112, 1)
    turned = ImageOps.exif_transpose(image)
    frames = getattr(image, "n_frames", 1)
    progressive = bool(image.info.get("progressive") or image.info.get("interlace"))
    if image.format == "GIF":
        # Pillow does not say, but interlaces what has one frame.
        progressive = frames == 1 and path.name != "plain-rows.gif"
    headers.append(json.dumps({
        "name": path.name, "width": turned.width, "height": turned.height, "turn": orientation, "frameCount": frames,
        "loopCount": image.info.get("loop"),
        "hasAlpha": image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info,
        "isProgressive": progressive, "hasColorProfile": "icc_profile" in image.info}))
(folder / "expected.json").write_text("[\n" + ",\n".join(headers) + "\n]\n")
