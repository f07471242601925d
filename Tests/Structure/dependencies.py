#!/usr/bin/env python3
"""Checks that a program which uses a library of the package gets no other packages than those that the library links.

    swift package dump-package | dependencies.py

SwiftPM neither fetches nor builds a package of which no target of the products in use depends.
"""

import json
import sys

COMMON = {"swift-log", "swift-metrics"}
MORE = {"DipperTracing": {"swift-distributed-tracing"}}


def packages(name, targets, seen):
    """The packages that a target depends on, itself or by another target."""
    if name in seen:
        return set()
    if name not in targets:
        return {name}
    seen.add(name)
    found = set()
    for dependency in targets[name]["dependencies"]:
        (kind, [first, second, *_]), = dependency.items()
        found |= {second} if kind == "product" else packages(first, targets, seen)
    return found


def main():
    manifest = json.load(sys.stdin)
    targets = {target["name"]: target for target in manifest["targets"]}
    libraries = [product for product in manifest["products"] if "library" in product["type"]]
    wrong = []
    for library in libraries:
        name, found = library["name"], set()
        for target in library["targets"]:
            found |= packages(target, targets, set())
        found -= COMMON | MORE.get(name, set())
        if found:
            wrong.append(f"{name} depends on {', '.join(sorted(found))}")
    if wrong or not libraries:
        sys.exit("\n".join(wrong) or "there is no library")


if __name__ == "__main__":
    main()
