#!/usr/bin/env python3
"""Fails if a test has no time limit: neither its own nor one of the suite that it is in.

    time_limits.py FOLDER...

A suite is a type that is in no other type. Its extensions may be in other files.
"""

import re
import sys
from pathlib import Path

# String literals and comments, in which a bracket or an attribute means nothing.
BLANK = re.compile(r'#*"""[\s\S]*?"""#*|(#*)"(?:\\\1.|[^"\\\n]|\\(?!\1))*?"\1|//[^\n]*|/\*[\s\S]*?\*/')
# Arguments in brackets, in which there may be brackets, four deep.
ARGUMENTS = r"\([^()]*\)"
for _ in range(3):
    ARGUMENTS = r"\((?:[^()]|" + ARGUMENTS + r")*\)"
TYPE = re.compile(
    rf"^(?P<indent> *)(?P<attributes>(?:@\w+(?:{ARGUMENTS})?\s+)*)(?:\w+ )*?"
    r"(?:struct|class|enum|actor|extension) (?P<name>[A-Z][\w.]*)[^{]*\{[\s\S]*?^(?P=indent)\}", re.MULTILINE)
TEST = re.compile(rf"@Test\b(?:{ARGUMENTS})?")


def unlimited(folder):
    """The tests of a target without a time limit: file, line and type."""
    codes = {path: BLANK.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), path.read_text())
             for path in sorted(folder.rglob("*.swift"))}
    types = [(path, match) for path, code in codes.items() for match in TYPE.finditer(code)]
    limited = {match["name"] for _, match in types if ".timeLimit(" in match["attributes"]}
    for path, code in codes.items():
        around = [match for place, match in types if place == path]
        for test in TEST.finditer(code):
            name = next((match["name"] for match in around if match.start() < test.start() < match.end()), None)
            if ".timeLimit(" not in test[0] and (name or "").split(".")[0] not in limited:
                yield path, code.count("\n", 0, test.start()) + 1, name


def main():
    missing = [found for folder in sys.argv[1:] for found in unlimited(Path(folder))]
    for path, line, name in missing:
        where = f"give {name} @Suite(…, .timeLimit(.minutes(1)))" if name else "add .timeLimit(.minutes(1))"
        print(f"{path}:{line}: error: this test has no time limit: {where}", file=sys.stderr)
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
