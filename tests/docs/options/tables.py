# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tables of options in options/, the one place where an option is written, and what each reader wants of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import yaml

from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "options"
SHARED = "shared"
Option = dict[str, Any]
Options = dict[str, Option]
# What Ansible checks, what it shows, and what the argument specs of a role have.
CHECKED = ("type", "elements", "choices", "default", "required", "no_log", "apply_defaults")
CHECKED += ("aliases", "deprecated_aliases")
SHOWN = ("description", "type", "elements", "choices", "default", "required", "aliases")
SHOWN += ("version_added",)
GIVEN = ("description", "type", "elements", "choices", "default", "required", "no_log")
# What else an option of a table may have.
KEYS = {*CHECKED, *SHOWN, "like", "variable", "omit", "value", "defined", "role", "suboptions"}
# By its type, a variable that stands for an option that is not given.
EMPTY = {"dict": {}, "raw": {}, "list": []}


class Table(NamedTuple):
    """A capability: its modules' options, its role's entry points and calls, and variables that are no options."""

    name: str
    modules: dict[str, Options]
    entries: dict[str, Any]
    calls: dict[str, Any]
    variables: Options


@cache
def tables() -> list[Table]:
    """Return all tables, by their names."""
    paths = (path for path in sorted(FOLDER.glob("*.yml")) if path.stem != SHARED)
    return [_table(path.stem, **yaml.safe_load(path.read_text())) for path in paths]


def checked(option: Option) -> Option:
    """Return an option as in an argument_spec."""
    found = {key: option[key] for key in CHECKED if key in option}
    if "suboptions" in option:
        found["options"] = {name: checked(one) for name, one in option["suboptions"].items()}
    return found


def shown(option: Option) -> Option:
    """Return an option as in a module's documentation."""
    found = {key: option[key] for key in SHOWN if key in option}
    if "suboptions" in option:
        found["suboptions"] = {name: shown(one) for name, one in option["suboptions"].items()}
    return found


def variables(table: Table) -> Options:
    """Return the variables that the role has, each as its argument specs have it."""
    found = {}
    for module in table.modules:
        for path, option in walk(table, module):
            if "role" in option:
                found[named(module, path, option)] = _of_role(option)
    return {**found, **table.variables}


def walk(table: Table, module: str) -> Iterator[tuple[str, Option]]:
    """Yield each option of a module by its name, ``whole.part`` for those of an option."""
    for name, option in table.modules[module].items():
        yield name, option
        for part, one in option.get("suboptions", {}).items():
            yield f"{name}.{part}", one


def named(module: str, path: str, option: Option) -> str:
    """Return the variable that an option is given by its role, empty where it has none."""
    known: str = option.get("variable", f"{module}_{path}" if "role" in option else "")
    return known


def call(table: Table, module: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Return what the role gives its module: ``asked`` has values that are ``set``, and the ``only`` options given.

    Its ``within`` names the mapping that has the variables, of a module that runs on the controller.
    """
    own, given = variables(table), asked.get("set", {})
    within = f"{asked['within']}." if "within" in asked else ""
    wanted = asked.get("only", [*table.modules[module]])

    def value(path: str, option: Option) -> Any:
        variable = named(module, path, option)
        if path in given or "value" in option:
            return given.get(path, option.get("value"))
        if not variable:
            parts = {
                name: value(f"{path}.{name}", one)
                for name, one in option.get("suboptions", {}).items()
            }
            return {name: one for name, one in parts.items() if one is not None} or None
        if option.get("omit"):
            return f"{{{{ {within}{variable} or omit }}}}"
        known = own.get(variable, {"defined": False}).get("defined", True)
        return f"{{{{ {within}{variable}{'' if known else f' | default({_jinja(option)})'} }}}}"

    found = {name: value(name, one) for name, one in table.modules[module].items()}
    return {
        name: one
        for name, one in found.items()
        if one is not None and (name in wanted or name in given)
    }


def _jinja(option: Option) -> str:
    default = option["default"]
    return str(default).lower() if isinstance(default, bool) else repr(default)


def _table(
    name: str,
    *,
    options: Options | None = None,
    modules: dict[str, Options] | None = None,
    role: dict[str, Any] | None = None,
    calls: dict[str, Any] | None = None,
    variables: Options | None = None,
) -> Table:
    """Return a table of what its file has; a table of one module's options has that module's name."""
    modules = modules or ({name: options} if options else {})
    modules = {module: whole(one) for module, one in modules.items()}
    return Table(name, modules, role or {}, calls or {}, whole(variables or {}))


@cache
def _shared() -> Options:
    found: Options = yaml.safe_load((FOLDER / f"{SHARED}.yml").read_text())
    return found


def whole(options: Options) -> Options:
    """Return options with what each shares with others. ValueError names a key that nothing reads."""
    for name, option in options.items():
        if unknown := option.keys() - KEYS:
            raise ValueError(f"{name}: unknown {sorted(unknown)}: expected some of {sorted(KEYS)}")
    return {name: _merged(option) for name, option in options.items()}


def _merged(option: Option) -> Option:
    like = _shared()[option["like"]] if "like" in option else {}
    found = {"type": "str", **like, **option}
    parts = {**like.get("suboptions", {}), **option.get("suboptions", {})}
    return {**found, "suboptions": whole(parts)} if parts else found


def _of_role(option: Option) -> Option:
    """Return a variable: the option that it is given to, and what the role says otherwise."""
    found = {key: option[key] for key in GIVEN if key in option and key != "required"}
    if option.get("omit"):
        found["type"] = "str" if found["type"] == "path" else found["type"]
        found.setdefault("default", EMPTY.get(found["type"], ""))
    role = option["role"]
    more = role if isinstance(role, dict) else {"help": role}
    found.update({"description" if key == "help" else key: one for key, one in more.items()})
    return {key: one for key, one in found.items() if one is not None}
