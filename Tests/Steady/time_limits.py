#!/usr/bin/env python3
"""Fails if a test has no time limit: neither its own nor one of a suite that it is in.

    time_limits.py FOLDER...
"""

import re
import sys
from pathlib import Path

DECLARATION = re.compile(r"\b(?:struct|class|enum|actor|extension)\s+([A-Z]\w*(?:\.\w+)*)")
ATTRIBUTE = re.compile(r"@(Suite|Test)\b")


def blank(source):
    """The source with the contents of comments and string literals replaced by blanks, of the same length."""
    out = list(source)
    position = 0

    def wipe(start, end):
        for index in range(start, end):
            if out[index] != "\n":
                out[index] = " "

    def skip_string(start):
        opening = re.compile(r'(#*)("""|")').match(source, start)
        hashes, quote = opening.groups()
        index = opening.end()
        while index < len(source):
            if source.startswith(quote + hashes, index):
                wipe(start, index + len(quote + hashes))
                return index + len(quote + hashes)
            if source.startswith("\\" + hashes + "(", index):
                index += 2 + len(hashes)
                depth = 1
                while depth and index < len(source):
                    if source[index] == '"':
                        index = skip_string(index)
                        continue
                    depth += {"(": 1, ")": -1}.get(source[index], 0)
                    index += 1
            elif source.startswith("\\" + hashes, index):
                index += 2 + len(hashes)
            else:
                index += 1
        return index

    while position < len(source):
        if source.startswith("//", position):
            end = source.find("\n", position)
            end = len(source) if end < 0 else end
            wipe(position, end)
            position = end
        elif source.startswith("/*", position):
            end = source.find("*/", position) + 2
            wipe(position, end)
            position = end
        elif re.compile(r'#*"').match(source, position):
            position = skip_string(position)
        else:
            position += 1
    return "".join(out)


def attributes(code):
    """Each @Suite and @Test: its name, its start, its end, and whether it sets a time limit."""
    for match in ATTRIBUTE.finditer(code):
        end = match.end()
        if code[end : end + 1] == "(":
            depth = 0
            while True:
                depth += {"(": 1, ")": -1}.get(code[end], 0)
                end += 1
                if depth == 0:
                    break
        yield match.group(1), match.start(), end, ".timeLimit(" in code[match.start() : end]


def types(code):
    """Each type and extension: its name with those around it, and where its body begins and ends."""
    stack = []
    header = 0
    for index, character in enumerate(code):
        if character == "{":
            found = DECLARATION.findall(code, header, index)
            stack.append((found[-1] if found else None, index))
        elif character == "}" and stack:
            name, start = stack.pop()
            if name:
                yield ".".join([outer for outer, _ in stack if outer] + [name]), start, index
        if character in "{};":
            header = index + 1


class File:
    def __init__(self, path):
        self.path = path
        self.source = path.read_text()
        self.code = blank(self.source)
        self.types = list(types(self.code))
        self.attributes = list(attributes(self.code))

    def suites(self):
        """Each type with @Suite: its name, where the attribute ends, and whether it sets a time limit."""
        for kind, _, end, is_limited in self.attributes:
            if kind == "Suite":
                name, start, _ = min((t for t in self.types if t[1] > end), key=lambda t: t[1])
                yield name, end, is_limited

    def tests(self):
        """Each test: the line, the type that it is in, and whether it has a time limit of its own."""
        for kind, start, _, is_limited in self.attributes:
            if kind == "Test":
                around = [t for t in self.types if t[1] < start < t[2]]
                name = max(around, key=lambda t: t[1])[0] if around else None
                yield self.code.count("\n", 0, start) + 1, name, is_limited


def unlimited(folder):
    """The tests of a target without a time limit: file, line and type."""
    files = [File(path) for path in sorted(folder.rglob("*.swift"))]
    limited = {name for file in files for name, _, is_limited in file.suites() if is_limited}
    for file in files:
        for line, name, is_limited in file.tests():
            parts = name.split(".") if name else []
            outer = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
            if not is_limited and not outer & limited:
                yield file.path, line, name


def main():
    missing = [found for folder in sys.argv[1:] for found in unlimited(Path(folder))]
    for path, line, name in missing:
        where = f"give {name} @Suite(…, .timeLimit(.minutes(1)))" if name else "add .timeLimit(.minutes(1))"
        print(f"{path}:{line}: error: this test has no time limit: {where}", file=sys.stderr)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
