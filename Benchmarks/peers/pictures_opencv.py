"""OpenCV; see pictures.h for what comes in and what goes out. It decodes nothing here."""

import sys
import time

import cv2

cv2.setNumThreads(1)
pictures = {}

for line in sys.stdin:
    action, name, width, height = line.split()
    if name not in pictures:
        pictures[name] = cv2.cvtColor(cv2.imread(name), cv2.COLOR_BGR2RGBA)
    cpu, wall = time.process_time(), time.perf_counter()
    # Its INTER_LANCZOS4 takes eight pixels of the source whatever the size; only INTER_AREA uses all.
    cv2.resize(pictures[name], (int(width), int(height)), interpolation=cv2.INTER_AREA)
    wall = time.perf_counter() - wall
    print((time.process_time() - cpu) * 1e3, wall * 1e3, flush=True)
