"""Makes Pictures/webp by Pillow, and what Pillow makes of them."""
import os
import profiles
from golden import exif, floating, folder, moving, photo, save_goldens, soft_alpha

OUT = folder("webp")


def save(name, picture, has_golden=True, **options):
    path = os.path.join(OUT, name + ".webp")
    picture.save(path, "WEBP", **{"method": 4} | options)
    if has_golden:
        save_goldens(path)


coffee = photo("coffee-cup.jpg", (63, 47))
save("lossy", coffee, quality=80)
save("lossless", coffee, lossless=True)
save("alpha-lossy", soft_alpha(coffee), quality=80)
save("alpha-lossless", soft_alpha(coffee), lossless=True)
save("profile", coffee, quality=90, icc_profile=profiles.rgb("Wide", profiles.WIDE, profiles.gamma(2.2)))
save("turned", coffee, quality=80, exif=exif(6))
save("turned-alpha", soft_alpha(coffee), quality=80, exif=exif(7))
first, *rest = moving()
save("moving", first, save_all=True, append_images=rest, duration=[50, 100, 250], loop=3, lossless=True)
first, *rest = floating()
save("floating", first, save_all=True, append_images=rest, duration=[40, 0, 90], loop=0, quality=80)

# For damage.
small, other = photo("coffee-cup.jpg", (10, 8)), photo("dragonfly.jpg", (10, 8))
save("tiny", small, False, quality=30)
save("tiny-lossless", soft_alpha(small.quantize(8).convert("RGB")), False, lossless=True)
save("tiny-moving", soft_alpha(small), False, method=0, save_all=True, append_images=[soft_alpha(other)], quality=20)
