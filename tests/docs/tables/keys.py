# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The table of docs/device-plugin/configuration.md with each key of the configuration, from its schema."""

from __future__ import annotations

from gpu_plugin.config.configuration import KEYS
from gpu_plugin.config.schema import Key

from tests.support.paths import REPOSITORY

PAGE = REPOSITORY / "docs/device-plugin/configuration.md"
MARKS = ("<!-- keys: written by make docs-tables -->", "<!-- keys: end -->")


def code(*texts: str) -> str:
    """Return texts as code, separated by commas."""
    return ", ".join(f"`{one}`" for one in texts if one)


def default(key: Key) -> str:
    """Return a key's default as a file has it."""
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    items = key.default if isinstance(key.default, tuple) else (key.default,)
    return code(*(str(one) for one in items if one is not None)) or "none"


def row(key: Key) -> str:
    """Return a key's row: where it can be given, its default, and what it may be."""
    name = code(key.path) if key.in_file else "no key"
    text = key.help + (f": {code(*key.allowed)}" if key.allowed and key.help else "")
    return f"| {name} | {code(*key.flags)} | {code(*key.env)} | {default(key)} | {text} |"


def table() -> str:
    """Return the table of the keys that have a help; the others may only stand at their default."""
    head = ["| Key | Flags | Environment | Default | |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*head, *(row(key) for key in KEYS if key.help)])


def shown() -> str:
    """Return the table that the page has. ValueError: its marks are gone."""
    text = PAGE.read_text()
    return text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])].strip()


def write() -> None:
    """Write the table on the page."""
    head, rest = PAGE.read_text().split(MARKS[0])
    PAGE.write_text(f"{head}{MARKS[0]}\n\n{table()}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


if __name__ == "__main__":
    write()
