# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The variables that the collection's roles and playbooks read, from their own files."""

from __future__ import annotations

import functools
import re
from typing import Any

import yaml

from tests.support.paths import REPOSITORY

NAME = re.compile(r"\b__[a-z]\w*")


@functools.cache
def options() -> dict[str, str]:
    """Return the type of each option of the roles and playbooks, by its name."""
    types: dict[str, str] = {}
    for path in sorted(REPOSITORY.glob("roles/*/meta/argument_specs.yml")):
        for spec in yaml.safe_load(path.read_text())["argument_specs"].values():
            for name, option in (spec.get("options") or {}).items():
                types[name] = option.get("type", "str")
    return types


@functools.cache
def private() -> frozenset[str]:
    """Return the names that roles and playbooks have for themselves."""
    paths = [*REPOSITORY.glob("roles/**/*.yml"), *REPOSITORY.glob("playbooks/**/*.yml")]
    return frozenset(name for path in paths for name in NAME.findall(path.read_text()))


def forged(program: str) -> dict[str, Any]:
    """Return a value of its type for each variable; what is text runs a program where it is evaluated."""
    text = f"forged {{{{ lookup('pipe', '{program}') }}}}"
    values: dict[str, Any] = {
        "bool": True,
        "dict": {"forged": text},
        "float": 4242.5,
        "int": 4242,
        "list": [text],
    }
    public = {name: values.get(kind, text) for name, kind in options().items()}
    return {**dict.fromkeys(private(), text), **public}
