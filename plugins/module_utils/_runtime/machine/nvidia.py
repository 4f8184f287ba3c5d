# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a runtime of the node goes through NVIDIA's."""

from __future__ import annotations

import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from ..nvidia import HOOKS, PROGRAM, runs_nvidia
from ..state import Wanted
from .engines import choose
from .record import Records


def without(host: Host, *, leaving: bool = False) -> t.Tuple[str, ...]:
    """Return the kubelet's runtimes by name where none goes through NVIDIA's; none where one does or that is not known.

    ``leaving``: a handler that we have set up does not count, as this run takes it back.
    """
    try:
        found = [one for one in choose(host, "auto") if one.unit]
        views = [one.view(one.kind.config_path, Wanted(mode="")) for one in found]
        ours = _ours(host) if leaving else set()
    except NodeError:
        return ()
    if any(runs_nvidia(view.effective, ours) for view in views) or _hook(host):
        return ()
    return tuple(one.kind.name for one in found)


def _ours(host: Host) -> t.Set[str]:
    """Return the handlers that we have set up, by their names."""
    paths = [entry.path for one in Records(host).all().values() for entry in one.entries]
    return {path[path.index("runtimes") + 1] for path in paths if "runtimes" in path[:-1]}


def _hook(host: Host) -> bool:
    """Tell whether CRI-O runs NVIDIA's hook."""
    files = [f"{folder}/{name}" for folder in HOOKS for name in host.listdir(folder)]
    return any(PROGRAM in (host.read(one) or "") for one in files)
