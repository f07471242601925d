#!/usr/bin/env python3
"""Checks that the folders of a module depend on each other in one direction.

A file depends on a folder if it names a type or a function that is declared there at the top level, or a member that an
extension there adds to a type of another module; in the file of a nested type, the type's name means the nested one. A
file may use its own folder and the folders further down in the list.
The folder "." holds the files at the root of the module. Types that a file uses without naming them are not seen.
"""

import collections
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
LAYERS = {
    "Sources/DipperData": [
        ".", "Prefetching", "Objects", "Engine", "Tiers", "Storage", "Leases", "Network", "Observing", "Requests", "HTTP",
        "Loop", "Model", "Support", "Redaction",
    ],
    "Sources/Dipper": [
        "Display", ".", "Loading", "Requests", "Video", "Animation", "Codecs", "Isolation", "Processing", "Resampling", "Image",
    ],
}

MODIFIERS = r"(?P<modifiers>(?:@\w+(?:\([^)]*\))?\s+|\w+\s+)*?)"
TYPE = re.compile(r"^" + MODIFIERS + r"(?:struct|class|enum|protocol|actor|typealias)\s+(?P<name>[A-Z]\w*)", re.MULTILINE)
NESTED = re.compile(r"^ +" + MODIFIERS + r"(?:struct|class|enum|protocol|actor|typealias)\s+([A-Z]\w*)", re.MULTILINE)
FUNCTION = re.compile(r"^" + MODIFIERS + r"func\s+(?P<name>\w+)", re.MULTILINE)
EXTENSION = re.compile(r"^" + MODIFIERS + r"extension\s+(?P<type>\w+)[^{]*\{(?P<body>.*?)^\}", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"^    " + MODIFIERS + r"(?:func|var)\s+(?P<name>\w+)", re.MULTILINE)
ANY_MEMBER = re.compile(r"\b(?:func|var|let|case)\s+(\w+)")


def interpolations(literal):
    """The code within a string literal."""
    found = []
    start = literal.find("\\(")
    while start >= 0:
        depth, end = 1, start + 2
        while depth and end < len(literal):
            depth += {"(": 1, ")": -1}.get(literal[end], 0)
            end += 1
        found.append(literal[start + 2:end - 1])
        start = literal.find("\\(", end)
    return '"' + " ".join(found) + '"'


def code(path):
    """The text of a file without comments and string literals; what is compiled conditionally is not indented."""
    text = re.sub(r"^\s*//.*", "", path.read_text(), flags=re.MULTILINE)
    text = re.sub(r'"""[\s\S]*?"""', lambda match: interpolations(match[0]), text)
    text = re.sub(r'"(?:\\\([^"\n]*?\)|\\.|[^"\\\n])*"', lambda match: interpolations(match[0]), text)
    lines, depth = [], 0
    for line in re.sub(r"//.*", "", text).split("\n"):
        word = line.strip()
        depth -= word.startswith("#endif")
        lines.append(line[4 * depth:] if line[:4 * depth].isspace() else line)
        depth += word.startswith("#if")
    return "\n".join(lines)


class Module:
    def __init__(self, module, layers):
        self.root, self.layers = PACKAGE / module, layers
        # Without the code of the tutorials.
        paths = (path for path in sorted(self.root.rglob("*.swift")) if ".docc" not in str(path))
        self.sources = {path: code(path) for path in paths}
        self.folder = {path: (path.relative_to(self.root).parts[:-1] or (".",))[0] for path in self.sources}
        self.types = self.homes(TYPE)
        self.functions = self.homes(FUNCTION)
        self.members = self.added_members()

    def homes(self, declaration):
        """The folders in which each name is declared."""
        homes = collections.defaultdict(set)
        for path, text in self.sources.items():
            for match in declaration.finditer(text):
                if "private" not in match["modifiers"]:
                    homes[match["name"]].add(self.folder[path])
        return homes

    def added_members(self):
        """The members that extensions add to types of other modules, if nothing else in the module has their names."""
        count = collections.Counter(name for text in self.sources.values() for name in ANY_MEMBER.findall(text))
        homes = collections.defaultdict(set)
        for path, text in self.sources.items():
            for extension in EXTENSION.finditer(text):
                if extension["type"] in self.types or "private" in extension["modifiers"]:
                    continue
                for match in MEMBER.finditer(extension["body"]):
                    if "private" not in match["modifiers"] and count[match["name"]] == 1:
                        homes[match["name"]].add(self.folder[path])
        return homes

    def violations(self):
        for name in self.layers:
            if name not in self.folder.values():
                yield f"{self.root.name}: there is no folder {name}"
        for path, text in self.sources.items():
            if self.folder[path] not in self.layers:
                yield f"{path}: the folder {self.folder[path]} has no place in the order"
                continue
            place = self.layers.index(self.folder[path])
            nested = {match[2] for match in NESTED.finditer(text)}
            named = set(re.findall(r"\b[A-Z]\w*", text)) - nested
            used = [(name, self.types[name]) for name in named & self.types.keys()]
            used += [(name, self.functions[name])
                     for name in set(re.findall(r"(?<![.\w])(?<!func )(\w+)\(", text)) & self.functions.keys()]
            used += [(name, self.members[name]) for name in set(re.findall(r"\.(\w+)", text)) & self.members.keys()]
            for name, homes in sorted(used):
                if all(home in self.layers and self.layers.index(home) < place for home in homes):
                    yield f"{path.relative_to(PACKAGE)}: uses {name} of {', '.join(homes)}, above {self.folder[path]}"


def main():
    found = [line for module, layers in LAYERS.items() for line in Module(module, layers).violations()]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
