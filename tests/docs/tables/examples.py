# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The YAML examples of the pages: which are plays, and which set variables of the collection."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from tests.docs.tables import pages, variables

SPECS = {name: spec for role in variables.roles() for name, spec in variables.options(role).items()}
KEYS = ("type", "elements", "choices")
ROLES = [one for one in variables.roles() if one != "common"]
PREFIXES = ("gpu_nodes_", "node_labels_", *(f"{role}_" for role in ROLES))
# What a page of migration begins with.
OTHERS = re.compile(r"^Before\b[^\n]*:\n\n```yaml\n.*?^```\n", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A block of a page, with its number there and what it parses to."""

    page: str
    number: int
    text: str
    data: Any


def examples(page: Path) -> Iterator[Example]:
    """Yield the YAML blocks of a page, but for what other tools have. yaml.YAMLError: one does not parse."""
    ours = OTHERS.sub("", page.read_text())
    for number, text in enumerate(pages.blocks(ours, "yaml"), 1):
        for data in yaml.safe_load_all(text):
            yield Example(pages.name(page), number, text, data)


def is_playbook(data: Any) -> bool:
    """Return whether an example is a whole playbook."""
    return isinstance(data, list) and all(isinstance(one, dict) and "hosts" in one for one in data)


def settings(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables of the collection that an example sets, wherever it does, and their values."""
    if isinstance(data, dict):
        for name, value in data.items():
            if name in SPECS:
                yield name, value
            else:
                yield from settings(value)
    elif isinstance(data, list):
        for one in data:
            yield from settings(one)


def refused(name: str, value: Any) -> list[str]:
    """Return what the role's argument spec says against a value."""
    spec = {key: SPECS[name][key] for key in KEYS if key in SPECS[name]}
    result = ArgumentSpecValidator({name: spec}).validate({name: value})
    return [str(one) for one in result.error_messages]


def unknown(data: Any) -> dict[str, list[str]]:
    """Return what an example names that looks like a variable of ours and is none, with the nearest."""
    names = {one for one in _keys(data) if one.startswith(PREFIXES)} - set(SPECS)
    return {one: difflib.get_close_matches(one, SPECS, 1) for one in names}


def _keys(data: Any) -> Iterator[str]:
    """Yield the names that an example gives to values outside of the variables' own values."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield str(name)
            if name not in SPECS:
                yield from _keys(value)
    elif isinstance(data, list):
        for one in data:
            yield from _keys(one)
