#!/usr/bin/env python3
"""Checks that each figure of the README's table stands in a table of the benchmark's results.

    figures.py README RESULTS
"""

import re
import sys


def figures(text):
    return re.findall(r"\d+(?:\.\d+)?", text)


def main():
    readme, results = (open(path, encoding="utf-8").read() for path in sys.argv[1:3])
    known = {figure for line in results.splitlines() if line.startswith("|") for figure in figures(line)}
    rows = readme.split("## Measured")[1].split("\n## ")[0].splitlines()
    wrong = []
    for row in rows:
        cells = row.split("|")[2:-1] if row.startswith("|") else []
        wrong += [figure for figure in figures(re.sub(r"HTTP/[\d.]+", "", " ".join(cells))) if figure not in known]
    if wrong:
        sys.exit(f"README.md has figures that {sys.argv[2]} has not: {', '.join(wrong)}")


main()
