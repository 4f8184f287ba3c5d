# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module's answer as its RETURN documents it, and nothing else: a node may answer what it likes.

Sizes are bounded here, before anything reads the answer. What reaches this has been received whole by Ansible already.
"""

from __future__ import annotations

import ast
import functools
import os
import typing as t

import yaml

MODULES = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "modules"
)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# A report on a node with 16 GPUs, each with seven instances and their users, has some 100 KiB in 5,000 values.
MOST_CHARACTERS = 4 << 20
MOST_VALUES = 100_000
DEEPEST = 20
MOST_WARNINGS = 50
SHOWN_KEYS = 5

Answer = t.Dict[str, t.Any]
Shape = t.Mapping[str, t.Any]
# What Ansible itself reads of any answer, and what _machine/run.py adds to those of all modules.
COMMON: Shape = {
    "changed": {"type": "bool"},
    "failed": {"type": "bool"},
    "skipped": {"type": "bool"},
    "unreachable": {"type": "bool"},
    "msg": {"type": "str"},
    "rc": {"type": "int"},
    "module_stdout": {"type": "str"},
    "module_stderr": {"type": "str"},
    "diff": {"type": "raw"},
    # The module's options, its secrets masked, which Ansible shows with -vvv and logs.
    "invocation": {"type": "dict", "contains": {"module_args": {"type": "dict"}}},
    "cause": {"type": "str"},
    "hint": {"type": "str"},
    "key": {"type": "str"},
    "nvml_code": {"type": "int"},
    "steps": {"type": "list"},
    "reboot_required": {"type": "bool"},
    "reboot_reasons": {"type": "list", "elements": "str"},
    "restart_required": {"type": "list", "elements": "str"},
    "blocked_by": {"type": "list", "elements": "str"},
}
# Ansible makes objects of its own of these before an action sees them.
MESSAGES = ("warnings", "deprecations")
# What Ansible itself puts into an answer after it was parsed.
INTERNAL = ("_ansible_parsed", "exception")
# What Ansible's own exit_json adds to an answer with the path of a file that is there. Nobody is warned of it.
OF_A_FILE = ("uid", "gid", "owner", "group", "mode", "secontext", "state", "size")
TYPES: t.Mapping[str, t.Tuple[type, ...]] = {
    "str": (str,),
    "path": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "list": (list,),
    "dict": (dict,),
    "complex": (dict,),
}


class Checked(t.NamedTuple):
    """An answer without what is not documented, what was left out, and what is wrong with the rest of it."""

    answer: Answer
    dropped: t.Tuple[str, ...]
    problem: str


@functools.cache
def documented(module: str) -> Shape:
    """Return the RETURN of a module of this collection, by the module's short name."""
    with open(os.path.join(MODULES, f"{module}.py"), encoding="utf-8") as stream:
        body = ast.parse(stream.read()).body
    (text,) = (
        ast.literal_eval(node.value)
        for node in body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RETURN"
    )
    shape: Shape = yaml.load(text, LOADER) or {}
    return shape


def check(answer: Answer, shape: Shape, *, whole: bool = False) -> Checked:
    """Check an answer against the RETURN of its module.

    A key that isn't documented is left out. A value of another type or out of bounds makes the answer useless, which is
    then empty but for the names of what was left out. So does, where it has to be ``whole``, what is not there or null
    though RETURN says that it is returned on success.
    """
    known = {**COMMON, **shape}
    silent = (*MESSAGES, *INTERNAL, *(OF_A_FILE if "path" in known else ()))
    dropped = tuple(key for key in answer if key not in known and key not in silent)
    documented_keys = {key: answer[key] for key in answer if key in known}
    whole = whole and not has_failed(answer)
    problem = _too_much(documented_keys) or _mismatch_of_keys(documented_keys, known, whole)
    if problem:
        return Checked({}, dropped, problem)
    checked = {key: _documented_part(value, known[key]) for key, value in documented_keys.items()}
    for key in MESSAGES:
        if isinstance(answer.get(key), list):
            checked[key] = answer[key][:MOST_WARNINGS]
    checked.update({key: answer[key] for key in INTERNAL if key in answer})
    return Checked(checked, dropped, "")


def has_failed(answer: t.Mapping[str, t.Any]) -> bool:
    """Return whether an answer says that the module did not do its work, whatever else it has then."""
    return any(bool(answer.get(key)) for key in ("failed", "skipped", "unreachable"))


def _too_much(answer: Answer) -> str:
    """Return what of an answer is out of bounds, without recursion, as it may be nested as deep as anybody likes."""
    characters = values = 0
    level: t.List[t.Any] = [answer]
    for _depth in range(DEEPEST):
        deeper: t.List[t.Any] = []
        for value in level:
            if isinstance(value, dict):
                deeper += (*value, *value.values())
            elif isinstance(value, list):
                deeper += value
            elif isinstance(value, str):
                characters += len(value)
        values += len(level)
        if characters > MOST_CHARACTERS:
            return f"it has more than {MOST_CHARACTERS} characters"
        if values + len(deeper) > MOST_VALUES:
            return f"it has more than {MOST_VALUES} values"
        if not deeper:
            return ""
        level = deeper
    return f"it is nested more than {DEEPEST} deep"


def _mismatch_of_keys(answer: t.Mapping[str, t.Any], shape: Shape, whole: bool) -> str:
    for key, described in shape.items():
        if key not in answer:
            if whole and described.get("returned") in ("success", "always"):
                return f"{key} is missing"
        elif problem := _mismatch(answer[key], described, whole):
            return f"{key}{problem}"
    return ""


def _mismatch(value: t.Any, described: Shape, whole: bool) -> str:
    """Return how a value differs from its description, behind its name; empty if it doesn't."""
    kind = described.get("type", "raw")
    is_conditional = described.get("returned") not in ("success", "always", None)
    if value is None and (is_conditional or not whole):
        return ""
    if kind in TYPES and not _is_of(value, kind):
        return f": expected {kind}, got {type(value).__name__}"
    contains: Shape = described.get("contains", {})
    if isinstance(value, list):
        element = {"type": described.get("elements", "raw"), "contains": contains}
        problems = (_mismatch(item, element, whole) for item in value)
        return next((f"[]{problem}" for problem in problems if problem), "")
    if isinstance(value, dict) and contains:
        is_whole = whole and not (is_conditional and not value)
        for key, inner in contains.items():
            if key not in value:
                if is_whole and inner.get("returned") is None:
                    return f".{key} is missing"
            elif problem := _mismatch(value[key], inner, whole):
                return f".{key}{problem}"
    return ""


def _is_of(value: t.Any, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "bool" or not isinstance(value, bool))


def _documented_part(value: t.Any, described: Shape) -> t.Any:
    """Return a value without keys that its description doesn't have, where it names any."""
    contains: t.Optional[Shape] = described.get("contains")
    if not contains:
        return value
    if isinstance(value, list):
        return [_documented_part(item, described) for item in value]
    if isinstance(value, dict):
        return {
            key: _documented_part(value[key], contains[key]) for key in contains if key in value
        }
    return value


def described_keys(keys: t.Sequence[str]) -> str:
    """Return keys in words, as many as a line takes; the keys are a node's own words."""
    shown = ", ".join(repr(str(key)[:40]) for key in keys[:SHOWN_KEYS])
    return f"{shown} and {len(keys) - SHOWN_KEYS} more" if len(keys) > SHOWN_KEYS else shown
