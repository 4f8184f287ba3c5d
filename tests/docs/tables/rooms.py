# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The picture of the rooms in docs/development/architecture.md, drawn from the contracts that import-linter keeps."""

from __future__ import annotations

import configparser

from tests.support.paths import REPOSITORY

PAGE = REPOSITORY / "docs/development/architecture.md"
MARKS = ("<!-- rooms: written by make docs-tables -->", "<!-- rooms: end -->")
CONTRACTS = {"rooms": "the library", "layers": "the device plugin", "cluster": "in the cluster"}


def layers(contract: str) -> list[list[str]]:
    """Return the rooms of a contract, those beside each other in one list, the uppermost first."""
    parser = configparser.ConfigParser()
    parser.read(REPOSITORY / ".importlinter")
    lines = parser[f"importlinter:contract:{contract}"]["layers"].strip().splitlines()
    return [[one.strip().rpartition(".")[2] for one in line.split("|")] for line in lines]


def picture() -> str:
    """Return the picture: each room may know those below it, and never one above or beside it."""
    lines = ["```mermaid", "flowchart TB"]
    for contract, title in CONTRACTS.items():
        lines.append(f'  subgraph {contract}["{title}"]')
        rows = layers(contract)
        for number, row in enumerate(rows):
            lines.append(f'    {contract}{number}["{" &nbsp; ".join(row)}"]')
        lines += [f"    {contract}{n} --> {contract}{n + 1}" for n in range(len(rows) - 1)]
        lines.append("  end")
    return "\n".join([*lines, "```"]) + "\n"


def shown() -> str:
    """Return the picture that the page has. ValueError: its marks are gone."""
    text = PAGE.read_text()
    return text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])].strip() + "\n"


def write() -> None:
    """Draw the picture on the page."""
    PAGE.write_text(PAGE.read_text().replace(shown(), picture()))


if __name__ == "__main__":
    write()
