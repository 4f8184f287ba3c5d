# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a name is one of this collection: a variable, a key of the device plugin, a module or a command."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cache
from typing import Any

import gpu_cluster.cli
import gpu_plugin.cli
import yaml
from gpu_plugin.config import allocation, configuration, sharing

from tests.docs.options import tables
from tests.support.paths import REPOSITORY

COMMANDS = {"gpu-plugin": gpu_plugin.cli, "gpu-cluster": gpu_cluster.cli}
ENTITY = "gpu.node."


@cache
def variables() -> dict[str, str]:
    """Return the roles' variables with the role of each."""
    found: dict[str, str] = {}
    for path in sorted((REPOSITORY / "roles").glob("*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found |= dict.fromkeys(entry.get("options") or {}, path.parents[1].name)
    return found


@cache
def modules() -> dict[str, Mapping[str, Any]]:
    """Return the modules' options by the modules' names."""
    return {module: one for table in tables.tables() for module, one in table.modules.items()}


@cache
def entities() -> set[str]:
    """Return the names of modules, roles and playbooks."""
    playbooks = {path.stem for path in (REPOSITORY / "playbooks").glob("*.yml")}
    roles = {path.name for path in (REPOSITORY / "roles").iterdir()}
    return playbooks | roles | set(modules())


@cache
def keys() -> set[str]:
    """Return what the device plugin's configuration knows: keys, flags and variables of the environment."""
    found = {*sharing.KEYS, *allocation.KEYS, configuration.DISABLE, configuration.ENABLE}
    for key in configuration.KEYS:
        found |= {key.path, *key.flags, *key.env}
    return found


def known(name: str) -> bool:
    """Return whether a name is ours: ``mig_config``, ``dcgm_exporter.address``, ``flags.migStrategy``,
    ``gpu.node.drain``, ``gpu.node.drain: timeout`` or ``gpu-plugin run --kubelet-socket``."""
    program, _space, words = name.partition(" ")
    if program in COMMANDS:
        return _command(program, *words.split())
    if name.startswith(ENTITY):
        entity, _colon, option = name.removeprefix(ENTITY).partition(": ")
        return entity in entities() and (not option or option in modules().get(entity, {}))
    variable, _dot, below = name.partition(".")
    if below and variable in variables():
        option = variable.removeprefix(f"{variables()[variable]}_")
        return below in (modules()[variables()[variable]][option].get("suboptions") or {})
    return name in variables() or name in keys()


def _command(program: str, name: str, *flags: str) -> bool:
    actions = COMMANDS[program]._parser()._actions
    group = next(one for one in actions if isinstance(one, argparse._SubParsersAction))
    if name not in group.choices:
        return False
    parser = group.choices[name]
    if parser.fill is not None:
        fill, parser.fill = parser.fill, None
        fill(parser)
    return all(flag in parser._option_string_actions for flag in flags)
