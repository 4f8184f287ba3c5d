# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Values as YAML and as Python, in the form that the linters of both want."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

WIDTH, CODE_WIDTH = 120, 100
STEP = 4
# libyaml's, where PyYAML has it, takes a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def block(value: Mapping[str, Any], indent: int = 0) -> str:
    """Return a mapping as YAML in lines, each of which ends with a line feed."""
    return "".join(f"{line}\n" for line in _mapping(value, indent))


def flow(value: Any) -> str:
    """Return a value as YAML in one line, without the quotes that it can do without."""
    if isinstance(value, str):
        plain = f"[{value}]", f"a: {value}"
        wanted: tuple[Any, Any] = [value], {"a": value}
        return value if tuple(map(_read, plain)) == wanted else json.dumps(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{flow(key)}: {flow(one)}' for key, one in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(flow, value))}]"
    return json.dumps(value)


def code(value: Any, indent: int, taken: int) -> str:
    """Return data as Python in the formatter's form; ``taken`` is how much of its last line others have."""
    line = _literal(value)
    if len(line) + taken <= CODE_WIDTH or not isinstance(value, (Mapping, list)) or not value:
        return line
    space, end = " " * (indent + STEP), " " * indent
    rows: Iterable[tuple[str, Any]] = (("", one) for one in value)
    if isinstance(value, Mapping):
        rows = ((f"{json.dumps(key)}: ", one) for key, one in value.items())
    inner = "".join(
        f"{space}{key}{code(one, indent + STEP, len(space + key) + 1)},\n" for key, one in rows
    )
    return "{}\n{}{}{}".format(
        "{["[isinstance(value, list)], inner, end, "}]"[isinstance(value, list)]
    )


def _literal(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            f"{{{', '.join(f'{json.dumps(key)}: {_literal(one)}' for key, one in value.items())}}}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _read(text: str) -> Any:
    try:
        return yaml.load(text, LOADER)
    except yaml.YAMLError:
        return None


def _mapping(value: Mapping[str, Any], indent: int) -> Iterable[str]:
    for key, one in value.items():
        yield from _entry(f"{' ' * indent}{flow(key)}:", one, indent + 2)


def _entry(head: str, value: Any, indent: int) -> Iterable[str]:
    """Yield the lines of a value behind its key or its dash; what it has more of is indented so far."""
    line = f"{head} {_scalar(value) if isinstance(value, str) else flow(value)}"
    nested = isinstance(value, Mapping) and any(
        isinstance(one, (Mapping, list)) for one in value.values()
    )
    if len(line) <= WIDTH and not nested and not (isinstance(value, list) and _sentences(value)):
        yield line
    elif isinstance(value, str):
        plain = head.endswith("-") and _scalar(value) == value
        folded = textwrap.wrap(
            value, WIDTH - indent, break_long_words=False, break_on_hyphens=False
        )
        yield f"{head} {folded.pop(0) if plain else '>-'}"
        yield from (f"{' ' * indent}{one}" for one in folded)
    elif isinstance(value, Mapping):
        yield head
        yield from _mapping(value, indent)
    else:
        yield head
        for one in value:
            yield from _entry(f"{' ' * indent}-", one, indent + 2)


def _scalar(value: str) -> str:
    return value if _read(f"a: {value}") == {"a": value} else json.dumps(value)


def _sentences(value: list[Any]) -> bool:
    return any(isinstance(one, str) and " " in one for one in value)
