#!/usr/bin/env python3
"""Checks that the summaries of documentation comments stand alone: none begins with words that lean on a neighbour.

    summaries.py FOLDER...
"""

import re
import sys
from pathlib import Path

LEANING = re.compile(r"\s*/// (The same|Such as|Of|What|Who|Whom|Whose|Those|That of|Both)\b")


def main():
    found = []
    # Not the packages that a build has fetched into a hidden folder.
    paths = (path for folder in sys.argv[1:] for path in Path(folder).rglob("*.swift"))
    for path in sorted(path for path in paths if not any(part.startswith(".") for part in path.parts)):
        before = ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if LEANING.match(line) and not before.strip().startswith("///"):
                found.append(f"{path}:{number}: {line.strip()}")
            before = line
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
