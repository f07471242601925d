#!/usr/bin/env python3
"""Writes the public declarations of each library into API/NAME.txt, one a line, from the modules of a debug build; with
--check, compares them with the files there, and prints the lines that differ.

    api.py [--check] [--swift PROGRAM] [--libraries NAME...] BUILD_FOLDER

Members that the compiler makes, and protocols that another one of the same type includes, are left out.
"""

import argparse
import difflib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2]
# Without DipperGTK and DipperTracing, which are in a build with their traits.
LIBRARIES = ["Dipper", "DipperData", "DipperInspector", "DipperTesting"]
# The protocols that a protocol includes. The last three are those of every type, or of every Sendable one.
IMPLIED = {
    "Hashable": ["Equatable"], "Comparable": ["Equatable"], "OptionSet": ["RawRepresentable", "SetAlgebra", "Equatable"],
    "SetAlgebra": ["ExpressibleByArrayLiteral"], "LocalizedError": ["Error"], "Error": ["Sendable"],
    "RandomAccessCollection": ["BidirectionalCollection", "Collection", "Sequence"],
    "ExpressibleByStringLiteral": ["ExpressibleByExtendedGraphemeClusterLiteral", "ExpressibleByUnicodeScalarLiteral"],
    "": ["Copyable", "Escapable", "SendableMetatype"],
}
KEYWORD = re.compile(
    r"\b(func|var|let|case|struct|class|enum|protocol|actor|typealias|associatedtype|macro|init|subscript)\b")


def flags(build):
    """What the compiler must know to load the modules: where they are, and the modules and headers in C."""
    maps = [*PACKAGE.glob("Sources/*/module.modulemap"), *PACKAGE.glob("Sources/*/include/module.modulemap")]
    maps += [path for path in Path(build).glob("*.build/module.modulemap")
             if (PACKAGE / "Sources" / path.parent.stem).is_dir()]
    libraries = re.findall(r'pkgConfig: "([^"]+)"', (PACKAGE / "Package.swift").read_text())
    for library in libraries:
        found = subprocess.run(["pkg-config", "--cflags", library], capture_output=True, text=True)
        for flag in found.stdout.split():
            yield from ["-Xcc", flag]
    # One C target may include the headers of another.
    for folder in PACKAGE.glob("Sources/*/include"):
        yield from ["-Xcc", f"-I{folder}"]
    for path in maps:
        yield from ["-Xcc", f"-fmodule-map-file={path}"]
    yield from ["-I", str(Path(build) / "Modules")]


def target(swift):
    info = subprocess.run([swift, "-print-target-info"], capture_output=True, text=True, check=True)
    return json.loads(info.stdout)["target"]["unversionedTriple"]


def where(symbol):
    """The constraints of the extension in which a member is declared."""
    signs = {"conformance": ":", "superclass": ":", "sameType": " =="}
    found = [f"{each['lhs']}{signs[each['kind']]} {each['rhs']}"
             for each in symbol.get("swiftExtension", {}).get("constraints", [])]
    return f" where {', '.join(found)}" if found else ""


def line(symbol, protocols):
    """A declaration as one reads it in Swift, with the type before its name."""
    text = "".join(fragment["spelling"] for fragment in symbol["declarationFragments"])
    text = re.sub(r"\s+", " ", text).strip()
    owner = "".join(f"{name}." for name in symbol["pathComponents"][:-1])
    keyword = KEYWORD.search(text)
    # An initializer or a subscript has no name of its own.
    place = keyword.start() if keyword[1] in ("init", "subscript") else keyword.end() + 1
    text = text[:place] + owner + text[place:]
    if protocols:
        start, divider, end = text.partition(" where ")
        text = f"{start}: {', '.join(sorted(protocols))}{divider}{end}"
    constraints = where(symbol)
    return text if constraints in text else text + constraints


def plain(identifier):
    """The name of a type of another module, from its mangled form, in which each name follows its length."""
    names, rest = [], identifier.removeprefix("s:")
    while number := re.match(r"\d+", rest):
        end = number.end() + int(number[0])
        names.append(rest[number.end():end])
        rest = rest[end:]
    return ".".join(names[1:]) or identifier


def declarations(library, folder):
    """The lines of a library, in the order of the names."""
    found = set()
    graphs = [json.loads(path.read_text()) for path in Path(folder).glob(f"{library}[.@]*symbols.json")]
    symbols = [symbol for graph in graphs for symbol in graph["symbols"]]
    names = {symbol["identifier"]["precise"]: ".".join(symbol["pathComponents"]) for symbol in symbols}
    # Their raw values make an initializer.
    enums = {f"{'.'.join(symbol['pathComponents'])}.init(rawValue:)" for symbol in symbols
             if symbol["kind"]["identifier"] == "swift.enum"}
    for graph in graphs:
        protocols, others = {}, {}
        for each in graph["relationships"]:
            name = names.get(each["target"]) or each.get("targetFallback", each["target"]).split(".", 1)[-1]
            if each["kind"] in ("conformsTo", "inheritsFrom"):
                protocols.setdefault(each["source"], set()).add(name)
            elif each["kind"] == "memberOf":
                others[each["target"]] = name
        for all in protocols.values():
            all -= {implied for name in [*all, ""] for implied in IMPLIED.get(name, [])}
        for symbol in graph["symbols"]:
            own = protocols.pop(symbol["identifier"]["precise"], set())
            if ".".join(symbol["pathComponents"]) not in enums:
                found.add((tuple(symbol["pathComponents"]), line(symbol, own)))
        # Types of other modules.
        for identifier, all in protocols.items():
            name = others.get(identifier, plain(identifier))
            for protocol in all:
                found.add(((name,), f"extension {name}: {protocol}"))
    return [text for _, text in sorted(found)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--swift", default="swift")
    parser.add_argument("--libraries", nargs="+", default=LIBRARIES)
    parser.add_argument("build")
    arguments = parser.parse_args()
    (PACKAGE / "API").mkdir(exist_ok=True)
    options, triple, isSame = list(flags(arguments.build)), target(arguments.swift), True
    for library in arguments.libraries:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [arguments.swift, "symbolgraph-extract", "-module-name", library, "-target", triple,
                 "-output-dir", folder, "-minimum-access-level", "public", "-skip-synthesized-members",
                 "-skip-inherited-docs", *options],
                check=True)
            new = declarations(library, folder)
        file = PACKAGE / "API" / f"{library}.txt"
        if not arguments.check:
            file.write_text("\n".join(new) + "\n")
            continue
        old = file.read_text().splitlines() if file.exists() else []
        changes = [each for each in difflib.unified_diff(old, new, n=0, lineterm="")
                   if each[:1] in "+-" and each[:3] not in ("+++", "---")]
        if changes:
            isSame = False
            print(f"{file.relative_to(PACKAGE)}:", *changes, sep="\n")
    if not isSame:
        sys.exit("The public declarations have changed. If that is meant, run `make api`, commit API, and add a line to "
                 "CHANGELOG.md.")


if __name__ == "__main__":
    main()
