"""What the scripts share: photographs, and decoded pictures for comparison, NAME.rgba, as Golden.swift reads them."""
import io, os, struct
import numpy
from PIL import Image, ImageCms, ImageOps

HERE = os.path.dirname(os.path.abspath(__file__))
PHOTOS = os.path.join(HERE, "../../Samples/Scrolling/Assets/photos")
SRGB = ImageCms.createProfile("sRGB")


def folder(name):
    path = os.path.join(HERE, "../DipperTests/Pictures", name)
    os.makedirs(path, exist_ok=True)
    return path


def photo(name, size):
    return Image.open(os.path.join(PHOTOS, name)).convert("RGB").resize(size, Image.LANCZOS)


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def soft_alpha(picture):
    """The picture with an alpha that falls from the middle to the corners, where it is 0."""
    width, height = picture.size
    y, x = numpy.mgrid[0:height, 0:width]
    distance = numpy.hypot(x / width - 0.5, y / height - 0.5)
    alpha = numpy.clip(300 - 520 * distance, 0, 255).astype(numpy.uint8)
    picture = picture.convert("RGBA")
    picture.putalpha(Image.fromarray(alpha))
    return picture


def with_sprite(background, left, top):
    frame = background.convert("RGBA")
    frame.alpha_composite(soft_alpha(photo("dragonfly.jpg", (20, 14))), (left, top))
    return frame


def moving():
    """Three opaque frames."""
    first = photo("coffee-cup.jpg", (40, 30))
    return [first.convert("RGBA"), with_sprite(first, 4, 3), with_sprite(first, 16, 12)]


def floating():
    """Three frames with alpha."""
    return [with_sprite(Image.new("RGBA", (40, 30)), *place) for place in [(4, 3), (16, 12), (8, 8)]]


def shown(picture, icc=None):
    """Upright and in sRGB."""
    if icc:
        source = ImageCms.ImageCmsProfile(io.BytesIO(icc))
        mode = "RGB" if picture.mode in ("CMYK", "L") else picture.mode
        picture = ImageCms.profileToProfile(picture, source, SRGB, outputMode=mode)
    return ImageOps.exif_transpose(picture)


def save_golden(path, picture):
    """picture: a Pillow picture, or rows x columns x RGBA."""
    pixels = numpy.asarray(picture.convert("RGBA") if isinstance(picture, Image.Image) else picture)
    with open(path, "wb") as file:
        file.write(struct.pack("<II", pixels.shape[1], pixels.shape[0]) + pixels.astype(numpy.uint8).tobytes())


def save_goldens(path, change=lambda picture: picture):
    """Writes what Pillow decodes of each frame, changed, beside the file."""
    decoded, name = Image.open(path), os.path.splitext(path)[0]
    frames = getattr(decoded, "n_frames", 1)
    for index in range(frames):
        decoded.seek(index)
        picture = change(shown(decoded.copy(), decoded.info.get("icc_profile")))
        save_golden(f"{name}.{index}.rgba" if frames > 1 else f"{name}.rgba", picture)
