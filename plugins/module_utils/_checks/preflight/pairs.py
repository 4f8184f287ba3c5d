# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Options whose values exclude each other, as one table.

docs/evidence/operations/preflight.md has each pair with its test, also those that modules refuse by themselves.
"""

from __future__ import annotations

import typing as t

from ..._base.dra.names import DRA
from ..._base.visible_devices import BY_CDI, strategies, value_at
from .layout import OFF, selection
from .machine.modules import Params, configurations


class Pair(t.NamedTuple):
    """Two values that exclude each other. ``variables`` returns the variables with the first where both are set."""

    variables: t.Callable[[t.Mapping[str, Params]], t.List[str]]
    message: str


def warnings(options: t.Mapping[str, Params]) -> t.List[str]:
    """Return the warnings of a node.

    Args:
        options: those of modules that accept theirs, by the modules' names.
    """
    return [f"{variable}: {pair.message}" for pair in PAIRS for variable in pair.variables(options)]


def _whole_and_divided(options: t.Mapping[str, Params]) -> t.List[str]:
    mig, plugin = options.get("mig", {}), options.get("device_plugin", {})
    if mig.get("state") != "present" or plugin.get("state") != "started":
        return []
    label, specs = selection(mig)
    divides = label != OFF if specs is None else any(spec.enabled for spec in specs)
    if not divides or plugin["allocation"] == DRA:
        return []
    return [
        variable
        for variable, config in configurations(plugin).items()
        if value_at(config, "flags", "migstrategy") == "none"
        and not set(BY_CDI).isdisjoint(strategies(config))
    ]


PAIRS: t.Sequence[Pair] = (
    Pair(
        _whole_and_divided,
        "migStrategy none advertises no GPU in MIG mode, as CDI describes no whole GPU that is, and the MIG layout"
        " makes such. Next step: set migStrategy to mixed or single, or choose a layout without MIG",
    ),
)
