"""Makes Pictures/webp by Pillow, and what Pillow makes of them."""
import io, os
from PIL import Image, ImageCms, ImageOps
from golden import folder, photo, save_golden, soft_alpha
from profile_maker import wide_profile

OUT = folder("webp")
sRGB = ImageCms.createProfile("sRGB")


def save(name, picture, golden=None, **options):
    path = os.path.join(OUT, name + ".webp")
    picture.save(path, "WEBP", method=4, **options)
    decoded = Image.open(path)
    frames = getattr(decoded, "n_frames", 1)
    for index in range(frames):
        decoded.seek(index)
        shown = ImageOps.exif_transpose(decoded.copy())
        if profile := decoded.info.get("icc_profile"):
            shown = ImageCms.profileToProfile(
                shown, ImageCms.ImageCmsProfile(io.BytesIO(profile)), sRGB, outputMode=shown.mode)
        save_golden(os.path.join(OUT, f"{name}.{index}.rgba" if frames > 1 else f"{name}.rgba"), shown)


coffee = photo("coffee-cup.jpg", (63, 47))
save("lossy", coffee, quality=80)
save("lossless", coffee, lossless=True)
save("alpha-lossy", soft_alpha(coffee), quality=80)
save("alpha-lossless", soft_alpha(coffee), lossless=True)
save("profile", coffee, quality=90, icc_profile=wide_profile())
turned = Image.Exif()
turned[0x0112] = 6
save("turned", coffee, quality=80, exif=turned)
turned[0x0112] = 7
save("turned-alpha", soft_alpha(coffee), quality=80, exif=turned)

size = (40, 30)
first, sprite = photo("coffee-cup.jpg", size), soft_alpha(photo("dragonfly.jpg", (20, 14)))


def with_sprite(background, left, top):
    frame = background.convert("RGBA")
    frame.alpha_composite(sprite, (left, top))
    return frame


moving = [first.convert("RGBA"), with_sprite(first, 4, 3), with_sprite(first, 16, 12)]
save("moving", moving[0], save_all=True, append_images=moving[1:], duration=[50, 100, 250], loop=3, lossless=True)
clear = Image.new("RGBA", size)
floating = [with_sprite(clear, 4, 3), with_sprite(clear, 16, 12), with_sprite(clear, 8, 8)]
save("floating", floating[0], save_all=True, append_images=floating[1:], duration=[40, 0, 90], loop=0, quality=80)

# For damage: no golden.
small, other = photo("coffee-cup.jpg", (10, 8)), photo("dragonfly.jpg", (10, 8))
small.save(os.path.join(OUT, "tiny.webp"), quality=30)
soft_alpha(small.quantize(8).convert("RGB")).save(os.path.join(OUT, "tiny-lossless.webp"), lossless=True)
soft_alpha(small).save(
    os.path.join(OUT, "tiny-moving.webp"), save_all=True, append_images=[soft_alpha(other)], quality=20)
