# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Components that the node's sources have no package of, refused by name."""

from __future__ import annotations

import typing as t

from ..._base.errors import InputError
from ..select import UnknownVersion
from ..state import Desired, Observed
from . import packages as components

HINT = "name NVIDIA's repository in repository with source: repository, or leave {} out"


class NotOffered(UnknownVersion):
    """A component that the sources have no package of."""


def missing(observed: Observed, desired: Desired) -> t.Optional[NotOffered]:
    """Return the error for the first component whose packages are not offered, None where there is none.

    Where the sources do not even have the rest of the driver yet, only DCGM is known to be missing: no
    distribution has it.
    """
    names = observed.names
    offered = bool(observed.versions(names.user_space[0])) if names.user_space else False
    for one in components.named(desired.components):
        if one == "compute" or not (offered or one == "dcgm"):
            continue
        lacking = [name for name in _parts(observed, one) if not observed.versions(name)]
        if lacking:
            return _error(one, lacking, observed)
    return None


def _parts(observed: Observed, component: str) -> t.Sequence[str]:
    if component == "dcgm":
        return [one for one in observed.names.user_space if one.startswith(components.DCGM)]
    return components.packages(observed.names, component)


def _error(component: str, lacking: t.Sequence[str], observed: Observed) -> NotOffered:
    nvidia = f"NVIDIA's repository for {observed.names.title}"
    where = (component != "dcgm" and observed.family.archive) or nvidia
    expected = f"a component that the node's sources have: no source offers {', '.join(lacking)}"
    error = InputError.of("components", component, f"{expected}, and {where} does")
    return NotOffered(error.message, cause=error.cause, hint=HINT.format(component))
