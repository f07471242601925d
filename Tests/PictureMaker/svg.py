"""Writes what rsvg-convert (package librsvg2-bin) makes of the files in Pictures/svg, in their size and in others."""
import io, os, subprocess
from PIL import Image
from golden import folder, save_golden

OUT = folder("svg")


def drawn(name, *options):
    command = ["rsvg-convert", *options, os.path.join(OUT, name + ".svg")]
    return Image.open(io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout))


for name in ["shapes", "filter", "inside", "opaque"]:
    save_golden(os.path.join(OUT, name + ".rgba"), drawn(name))
save_golden(os.path.join(OUT, "shapes-large.rgba"), drawn("shapes", "-w", "144", "-h", "108"))
save_golden(os.path.join(OUT, "shapes-small.rgba"), drawn("shapes", "-w", "16", "-h", "12"))
