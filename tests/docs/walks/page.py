# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tables of docs/development/walks.md, written as the tracer sees each errand: ``--show`` prints them alone.

What a file is for is the first sentence of its docstring.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from tests.docs.walks.tracer import Walk
from tests.support import environment
from tests.support.paths import REPOSITORY

PAGE = REPOSITORY / "docs/development/walks.md"
MARKS = ("<!-- walks: written by make docs-tables -->", "<!-- walks: end -->")
SENTENCE = re.compile(r"(.+?[^.])(?:\.(?=\s|$)|$)", re.DOTALL)
HEAD = "|  | File | First function | The file |\n| --- | --- | --- | --- |"
# What is left out of a file's name.
LEADING = re.compile("plugins/module_utils/|files/[a-z_]+/src/")


def walks() -> dict[str, tuple[str, Walk]]:
    """Do all errands; return what is followed in each, and its way, by the titles."""
    from tests.docs.walks.scenes import ERRANDS  # brings gRPC, NVML and the Kubernetes client in

    found = {}
    for one in ERRANDS:
        with tempfile.TemporaryDirectory(prefix="walk-") as folder, redirect_stderr(StringIO()):
            found[one.title] = one.value, one.walk(Path(folder))
    return found


def tables(found: Mapping[str, tuple[str, Walk]]) -> str:
    """Return the page's part that is written."""
    parts = []
    for title, (value, walk) in found.items():
        stops = sorted(walk.stops.items(), key=lambda stop: stop[1])
        rows = [
            f"| {number} | {shown(file)} | `{function}` {how} | {about(file)} |"
            for number, (file, (_call, function, how)) in enumerate(stops, 1)
        ]
        count = f"{len(walk.stops)} files, {len(walk.functions)} functions"
        parts.append("\n".join([f"## {title}: {count}\n", f"{value}\n", HEAD, *rows]))
    return "\n\n".join(parts)


def shown(file: str) -> str:
    """Return a file as a link, without the folders that say nothing."""
    return f"[`{LEADING.sub('', file)}`](../../{file})"


def about(file: str) -> str:
    """Return the first sentence that a file says of itself. ValueError: it says none."""
    text = ast.get_docstring(ast.parse((REPOSITORY / file).read_text()))
    sentence = SENTENCE.match(text or "")
    if sentence is None:
        raise ValueError(f"{file} does not say what it is for")
    return " ".join(sentence[1].split()).replace("|", "\\|")


def page() -> str:
    """Return the written part as the page has it. ValueError: its marks are gone."""
    text = PAGE.read_text()
    return text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])].strip()


def main() -> None:
    """Write the tables, and say what each errand comes to."""
    environment.settle()
    found = walks()
    sys.stderr = StringIO()  # threads of services go on until the process ends
    if "--show" in sys.argv:
        print(tables(found))
        return
    before, after = (PAGE.read_text().split(mark)[part] for part, mark in enumerate(MARKS))
    PAGE.write_text(f"{before}{MARKS[0]}\n{tables(found)}\n{MARKS[1]}{after}")
    for title, (_value, walk) in found.items():
        numbers = (len(walk.stops), len(walk.functions), walk.calls, walk.moves, len(walk.running))
        print(
            "{}: {} files, {} functions, {} calls, {} moves; {} files run".format(title, *numbers)
        )


if __name__ == "__main__":
    main()
