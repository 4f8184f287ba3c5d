# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tables of releases from the collection's own: the driver's branches and bulletins, and Kubernetes' versions."""

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
from ansible_collections.gpu.node.plugins.module_utils._driver.releases import known

from tests.support.paths import REPOSITORY

UNKNOWN = "not found"


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


def write() -> None:
    """Write both."""
    DRIVER.write()
    KUBERNETES.write()


if __name__ == "__main__":
    sys.exit(write())
