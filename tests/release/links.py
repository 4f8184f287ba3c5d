# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The links of a tarball's pages to what the tarball leaves out: they lead to the repository."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

LINK = re.compile(r"(?P<begin>!?\[[^\]]*\]\()(?P<target>[^)#:\s]+)(?P<rest>[#)])")


def left_out(tree: Path, name: str) -> bool:
    """Return whether galaxy.yml keeps a file of the tree, or a folder that it is in, out of the tarball."""
    ignored = set(yaml.safe_load((tree / "galaxy.yml").read_text())["build_ignore"])
    return not ignored.isdisjoint([name, *map(str, Path(name).parents)])


def targets(page: Path, text: str, tree: Path) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each link to a file of the tree with that file's name from the top."""
    for link in LINK.finditer(text):
        yield link, os.path.relpath(os.path.normpath(page.parent / link["target"]), tree)


def lead_outside(tree: Path) -> None:
    """Rewrite the pages of a tree that is to become a tarball."""
    source = f"{yaml.safe_load((tree / 'galaxy.yml').read_text())['repository']}/blob/main"
    for page in [*tree.glob("*.md"), *(tree / "docs").rglob("*.md")]:
        text, parts, end = page.read_text(), [], 0
        for link, name in targets(page, text, tree):
            if left_out(tree, name):
                raw = "?raw=true" if link["begin"].startswith("!") else ""
                parts += [text[end : link.start("target")], f"{source}/{name}{raw}"]
                end = link.end("target")
        page.write_text("".join([*parts, text[end:]]))
