# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tables of releases from the collection's own: the driver's branches and options, and Kubernetes' versions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpu.node.plugins.module_utils._base.dra.versions import (
    FIRST,
    OLDEST,
    RECOMMENDED,
    TRAITS,
    Trait,
    text,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options import (
    known as known_options,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.declared import (
    called,
    in_words,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.releases import known

from tests.support.paths import REPOSITORY

UNKNOWN = "not found"
OPTIONS_HEAD = (
    "| Option | Takes | Default | Releases | What it does |\n| --- | --- | --- | --- | --- |"
)


def tables() -> str:
    """Return the tables in Markdown: the branches, and the bulletins with the floors of each branch."""
    branches, bulletins = known.TABLE["branches"], known.TABLE["bulletins"]
    lines = [f"As of {known.TABLE['as_of']}.", ""]
    lines += ["| Branch | Kind | First release | End of support |", "| --- | --- | --- | --- |"]
    for name, row in branches.items():
        end = row.get("end_of_support") or ("ended" if row.get("ended") else UNKNOWN)
        kind = row.get("kind", UNKNOWN)
        lines.append(f"| {name} | {kind} | {row['first_release']} | {end} |")
    lines += ["", "| Bulletin | Date | Floors |", "| --- | --- | --- |"]
    for row in reversed(bulletins):
        floors = ", ".join(row["floors"].values())
        lines.append(f"| [{row['id']}]({row['url']}) | {row['date']} | {floors} |")
    return "\n".join(lines)


def kubernetes() -> str:
    """Return the table of what versions of Kubernetes do, in Markdown."""
    lines = ["| Kubernetes | What it does | Reference | |", "| --- | --- | --- | --- |"]
    for one in TRAITS:
        refused = "refused" if one.mended and one.mended <= OLDEST else ""
        lines.append(f"| {_versions(one)} | {one.means} | {one.reference} | {refused} |")
    return "\n".join(lines)


def _versions(trait: Trait) -> str:
    since = f"from {text(trait.since)} on" if trait.since != FIRST else ""
    mended = f"before {text(trait.mended)}" if trait.mended else f"to {text(RECOMMENDED)} at least"
    return ", ".join(filter(None, (since, mended)))


def options() -> str:
    """Return a table for each module in Markdown."""
    found = [
        f"As of {known_options.READ}, of the releases of each branch up to {', '.join(known_options.LAST.values())}."
    ]
    for module, source in known_options.SOURCES.items():
        files = ", ".join(f"[{one.partition('kernel-open/')[2]}]({one})" for one in source.split())
        rows = [
            _option(name, one)
            for name, one in known_options.TABLE.items()
            if name.partition(".")[0] == module
        ]
        found.append(
            f"## {module.replace('_', '-')}\n\nFrom {files}.\n\n{OPTIONS_HEAD}\n" + "\n".join(rows)
        )
    return "\n\n".join(found)


def _option(name: str, one: known_options.Option) -> str:
    """Return an option's row."""
    default = f"`{one.default}`" if one.default else ""
    notes = [one.note] if one.note else []
    if one.note and one.noted != known_options.EVERY:
        notes = [f"{one.note} ({in_words(one.noted)})"]
    notes += [f"the {one.only} kernel modules alone heed it"] if one.only else []
    says = "; ".join((one.says, *notes))
    return f"| `{called(name)}` | {one.kind.expected} | {default} | {in_words(one.branches)} | {says} |"


class Place(NamedTuple):
    """Where what a function returns stands: a page, and between which marks."""

    page: Path
    name: str
    made: Callable[[], str]

    @property
    def marks(self) -> tuple[str, str]:
        """What stands before and behind it."""
        return f"<!-- {self.name}: written by make docs-tables -->", f"<!-- {self.name}: end -->"

    def shown(self) -> str:
        """Return what the page has. ValueError: its marks are gone."""
        text, (begin, end) = self.page.read_text(), self.marks
        return text[text.index(begin) + len(begin) : text.index(end)].strip()

    def write(self) -> None:
        """Write it on the page."""
        text, (begin, end) = self.page.read_text(), self.marks
        head, rest = text.split(begin)
        self.page.write_text(f"{head}{begin}\n\n{self.made()}\n\n{end}{rest.split(end)[1]}")


DRIVER = Place(REPOSITORY / "docs/driver/releases.md", "releases", tables)
KUBERNETES = Place(REPOSITORY / "docs/fractions/kubernetes.md", "kubernetes", kubernetes)
OPTIONS = Place(REPOSITORY / "docs/reference/module-options.md", "module options", options)


def write() -> None:
    """Write all."""
    for one in (DRIVER, KUBERNETES, OPTIONS):
        one.write()


if __name__ == "__main__":
    sys.exit(write())
