"""Makes Pictures/metadata: small pictures with Exif or XMP data, written by Pillow."""
import os
from PIL import Image, PngImagePlugin, TiffImagePlugin
from golden import folder

OUT = folder("metadata")
picture = Image.new("RGB", (8, 6), (90, 120, 60))


def fraction(numerator, denominator=1):
    return TiffImagePlugin.IFDRational(numerator, denominator)


exif = Image.Exif()
exif[0x0112] = 6
exif[0x010F] = "Dipper Optics "
exif[0x0110] = "Ladle 3"
exif[0x0132] = "2027:01:02 03:04:05"
details = exif.get_ifd(0x8769)
details[0x9003] = "2026:05:17 12:34:56"
details[0x9011] = "-03:30"
place = exif.get_ifd(0x8825)
place[1], place[2] = "S", (fraction(22), fraction(54), fraction(6801, 100))
place[3], place[4] = "W", (fraction(43), fraction(12), fraction(30))
place[5], place[6] = b"\1", fraction(75, 10)

xmp = """<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""
 tiff:Make="Ladle" tiff:Orientation = '8' exif:GPSLatitude="48,12,30N" exif:GPSLongitude="16,22.5E"
 xmp:CreateDate="2020-01-01">
<tiff:Model> Ladle 7 </tiff:Model><exif:DateTimeOriginal>2026-05-17T12:34:56.78Z</exif:DateTimeOriginal>
</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>"""


def save(name, **options):
    picture.save(os.path.join(OUT, name), **options)


for kind in ("jpg", "png", "webp", "tiff"):
    save(f"exif.{kind}", exif=exif)
save("xmp.jpg", xmp=xmp.encode())
save("xmp.webp", xmp=xmp.encode())
save("both.jpg", exif=exif, xmp=xmp.encode())
texts = PngImagePlugin.PngInfo()
texts.add_itxt("XML:com.adobe.xmp", xmp)
save("xmp.png", pnginfo=texts)
