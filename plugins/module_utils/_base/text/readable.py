# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Values as texts that people read."""

from __future__ import annotations

import json
import re
import typing as t

from .json_data import levels

# A text that could be taken for something else is shown with quotes.
AMBIGUOUS = re.compile(
    r"|true|false|null|[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|\s.*|.*\s|[\[{\"'#&*!|>%@-].*",
    re.DOTALL | re.IGNORECASE,
)


def as_yaml(value: t.Any) -> str:
    """Return a value as YAML for people, without a line end: texts of several lines are as they are."""
    try:
        for _level in levels(value):
            pass
    except ValueError as error:  # whoever answers chooses the depth
        return f"({error})"
    return "\n".join(_yaml(value))


def _yaml(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from _member(f"{_scalar(key)}:", member)
    elif isinstance(value, list) and value:
        for member in value:
            inner = list(_yaml(member))
            block = ["|"] if _is_block(member) else []
            yield from (f"{'  ' if n else '- '}{line}" for n, line in enumerate(block + inner))
    elif _is_block(value):
        yield from value.rstrip("\n").split("\n")
    else:
        yield _scalar(value)


def _member(key: str, value: t.Any) -> t.Iterator[str]:
    nested = isinstance(value, (dict, list)) and bool(value)
    if not nested and not _is_block(value):
        yield f"{key} {_scalar(value)}"
        return
    yield key if nested else f"{key} |"
    yield from (f"  {line}" for line in _yaml(value))


def _is_block(value: t.Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip("\n")


def _scalar(value: t.Any) -> str:
    if isinstance(value, str) and not AMBIGUOUS.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def would(summary: str) -> str:
    """Return a step as check mode says it: "GPU 6: would destroy 1g", not "would GPU 6: destroy 1g"."""
    named = re.match(r"(?:GPU \d+(?: \([^)]*\))?|/\S+): ", summary)
    subject = named.group() if named else ""
    return f"{subject}would {summary[len(subject) :]}"
