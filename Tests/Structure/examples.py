"""Writes the Swift examples of the documentation comments, and the files of the tutorials' steps, into one file, so that
they are compiled with the tests: an example in a function, a file in a type of its own, after the file that the step of
a test continues. What the examples use without declaring it stands in Tests/DocExamples/Surroundings.swift."""

import pathlib
import re
import subprocess
import sys

OF_PICTURES = re.compile(r"[gG]etImage|[iI]mageRequest|ImageBinding|codecs|ImageCache|\bimage\b|Image\b|animation")


def blocks(path):
    """Yields the line and the code of each example."""
    block = None
    for number, line in enumerate(path.read_text().split("\n"), 1):
        comment = re.match(r"\s*///(?: (.*))?$", line)
        text = (comment.group(1) or "") if comment else None
        if text is None:
            block = None
        elif block is None:
            if text == "```swift":
                block, start = [], number
        elif text == "```":
            yield start, block
            block = None
        else:
            block.append(text)


def steps():
    """Yields a type for each step of the tutorials, whose files are NAME-NUMBER.swift and NAME-test.swift."""
    files = sorted(pathlib.Path("Sources").glob("*/*.docc/Resources/*.swift"))
    for path in files:
        name, number = path.stem.rsplit("-", 1)
        before = [each for each in files if each.stem.rsplit("-", 1)[0] == name and each < path][-1:]
        parts = [*before, path] if number == "test" else [path]
        yield f"enum {name.title().replace('-', '')}{number.title()} {{\n"
        for part in parts:
            yield f'#sourceLocation(file: "{part}", line: 1)\n'
            for line in part.read_text().splitlines():
                # The file has the imports of all, and the program has another main type.
                yield "\n" if line.startswith(("import ", "@testable import ")) or line == "@main" else f"    {line}".rstrip() + "\n"
        yield "#sourceLocation()\n}\n\n"


def main(target):
    paths = subprocess.run(["git", "ls-files", "Sources/*.swift"], capture_output=True, text=True, check=True).stdout
    functions = {"PictureExamples": [], "DataExamples": []}
    for path in map(pathlib.Path, paths.split()):
        # The examples of these two need GTK and hiredis.
        if not path.exists() or path.parts[1] in ("DipperGTK", "DipperRedis"):
            continue
        for start, code in blocks(path):
            # Packages that this one does not use.
            if any(line.startswith("import ") for line in code):
                continue
            isOfPictures = path.parts[1] == "Dipper" or OF_PICTURES.search("\n".join(code))
            place = f'#sourceLocation(file: "{path}", line: {start + 1})'
            functions["PictureExamples" if isOfPictures else "DataExamples"].append(
                f"    static func line{start}Of{re.sub('[^A-Za-z]', '', path.stem)}() async throws {{\n{place}\n"
                + "\n".join(f"        {line}".rstrip() for line in code)
                + "\n#sourceLocation()\n    }\n"
            )
    text = "// swift-format-ignore-file\nimport Dipper\nimport DipperInspector\nimport DipperTesting\nimport DipperTracing\nimport Dispatch\nimport Foundation\nimport Testing\n\n"
    text += "".join(steps()).rstrip("\n") + "\n"
    for owner, all in functions.items():
        text += f"\nextension {owner} {{\n" + "\n".join(all) + "}\n"
    file = pathlib.Path(target)
    # An unchanged file is not compiled again.
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


main(sys.argv[1])
