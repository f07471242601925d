#!/usr/bin/env python3
"""Checks that the folders of a module depend on each other in one direction.

A file depends on a folder if it names a type that is declared there at the top level. It may name types of its own
folder and of folders further down in the list. The folder "." holds the files at the root of the module.
"""

import collections
import re
import sys
from pathlib import Path

LAYERS = {
    "Sources/DipperData": [
        ".", "Prefetching", "Jobs", "Scheduling", "Tiers", "Storage", "Transport", "Network", "Pressure", "Observing",
        "Requests", "HTTP", "Support", "Model", "Redaction",
    ],
    "Sources/Dipper": [
        "Display", ".", "Loading", "Video", "Requests", "Serializing", "Animation", "Codecs", "Processing",
        "Resampling", "Image",
    ],
}

DECLARATION = re.compile(
    r"^(?:@\w+(?:\([^)]*\))?\s+)*(?P<modifiers>(?:(?:public|package|internal|private|fileprivate|final|indirect)\s+)*)"
    r"(?:struct|class|enum|protocol|actor|typealias)\s+(?P<name>\w+)", re.MULTILINE)


def code(path):
    """The text of a file without comments and string literals."""
    text = re.sub(r'"""[\s\S]*?"""', '""', path.read_text())
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"//.*", "", text)


def violations(module, layers):
    root = Path(module)
    sources = {path: code(path) for path in sorted(root.rglob("*.swift"))}
    folder = {path: (path.relative_to(root).parts[:-1] or (".",))[0] for path in sources}
    for path, name in folder.items():
        if name not in layers:
            yield f"{path}: the folder {name} has no place in the order"
    homes = collections.defaultdict(set)
    for path, text in sources.items():
        for match in DECLARATION.finditer(text):
            if "private" not in match["modifiers"]:
                homes[match["name"]].add(folder[path])
    for path, text in sources.items():
        place = layers.index(folder[path]) if folder[path] in layers else 0
        for name in sorted(set(re.findall(r"\b[A-Z]\w*", text)) & homes.keys()):
            above = [home for home in homes[name] if home in layers and layers.index(home) < place]
            if above and folder[path] not in homes[name]:
                yield f"{path}: names {name} of {above[0]}, which is above {folder[path]}"


def main():
    found = [line for module, layers in LAYERS.items() for line in violations(module, layers)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
