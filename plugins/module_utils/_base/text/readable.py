# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Values as texts for people."""

from __future__ import annotations

import json
import re
import typing as t

from .json_data import levels

# A text that could be read as another value is shown with quotes.
AMBIGUOUS = re.compile(
    r"|true|false|null|[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|\s.*|.*\s|[\[{\"'#&*!|>%@-].*",
    re.DOTALL | re.IGNORECASE,
)


def as_yaml(value: t.Any) -> str:
    """Return a value as YAML for people, without a line end, and with texts of several lines as blocks."""
    try:
        for _level in levels(value):
            pass
    except ValueError as error:  # the depth of an answer is not ours
        return f"({error})"
    return "\n".join(_yaml(value))


def _yaml(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            nested = isinstance(member, (dict, list)) and bool(member)
            if nested or _is_block(member):
                yield f"{_scalar(key)}:{'' if nested else ' |'}"
                yield from (f"  {line}" for line in _yaml(member))
            else:
                yield f"{_scalar(key)}: {_scalar(member)}"
    elif isinstance(value, list) and value:
        for member in value:
            inner = list(_yaml(member))
            block = ["|"] if _is_block(member) else []
            yield from (f"{'  ' if n else '- '}{line}" for n, line in enumerate(block + inner))
    elif _is_block(value):
        yield from value.rstrip("\n").split("\n")
    else:
        yield _scalar(value)


def _is_block(value: t.Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip("\n")


def _scalar(value: t.Any) -> str:
    if isinstance(value, str) and not AMBIGUOUS.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def would(summary: str) -> str:
    """Return a step for check mode: "GPU 6: would destroy 1g", not "would GPU 6: destroy 1g"."""
    match = re.match(r"(?:GPU \d+(?: \([^)]*\))?|/\S+): ", summary)
    subject = match.group() if match else ""
    return f"{subject}would {summary[len(subject) :]}"
