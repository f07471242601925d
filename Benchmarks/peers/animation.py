"""Pillow goes through all frames of an animation: milliseconds of the processor for each, and the peak of memory in MB."""

import resource
import sys
import time

from PIL import Image

with Image.open(sys.argv[1]) as picture:
    start = time.process_time()
    for number in range(picture.n_frames):
        picture.seek(number)
        picture.convert("RGBA")
    end = time.process_time()
    print((end - start) * 1e3 / picture.n_frames, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
