# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a runtime goes through NVIDIA's, without which some strategies of the device plugin give nothing."""

from __future__ import annotations

import posixpath
import typing as t

from ..._base.errors import InputError, NodeError
from ..._machine.host import Host
from ..state import RuntimeOptions
from .engines import choose
from .record import Records

# Also its variants (.cdi, .legacy) and its hook (-hook).
PROGRAM = "nvidia-container-runtime"
HOOKS = tuple(f"{folder}/containers/oci/hooks.d" for folder in ("/usr/share", "/etc", "/run"))
STEP = (
    "set deviceListStrategy: [cdi-annotations, cdi-cri], the role's default; or container_runtime_mode: runtime_class"
    " with container_toolkit_state: present, for pods that name its RuntimeClass"
)


def without(host: Host, *, leaving: bool = False) -> t.Tuple[str, ...]:
    """Return the kubelet's runtimes by name where none goes through NVIDIA's; none if one does or that is not known.

    ``leaving``: a handler that we have set up does not count, as this run takes it back.
    """
    try:
        runtimes = [runtime for runtime in choose(host, "auto") if runtime.unit]
        views = [runtime.view(runtime.path(), RuntimeOptions(mode="")) for runtime in runtimes]
        written = Records(host).all().values() if leaving else ()
    except NodeError:
        return ()
    paths = [entry.path for file in written for entry in file.entries]
    ours = {path[path.index("runtimes") + 1] for path in paths if "runtimes" in path[:-1]}
    hooks = [f"{folder}/{name}" for folder in HOOKS for name in host.listdir(folder)]
    if any(runs_nvidia(view.effective, ours) for view in views):
        return ()
    if any(PROGRAM in (host.read(hook) or "") for hook in hooks):  # CRI-O's
        return ()
    return tuple(runtime.kind.name for runtime in runtimes)


def runs_nvidia(config: t.Any, but: t.Container[str] = ()) -> bool:
    """Return whether a runtime's configuration has a handler with NVIDIA's program; ``but`` are names of handlers."""
    if isinstance(config, dict):
        handlers = config.get("runtimes")
        if isinstance(handlers, dict):
            counted = {name: handler for name, handler in handlers.items() if name not in but}
            config = {**config, "runtimes": counted}
        return any(runs_nvidia(value, but) for value in config.values())
    if isinstance(config, list):
        return any(runs_nvidia(item, but) for item in config)
    return isinstance(config, str) and posixpath.basename(config).startswith(PROGRAM)


def refusal(variable: str, chosen: t.Sequence[str], runtimes: t.Sequence[str]) -> InputError:
    """Return the error of a configuration whose strategies none of the node's runtimes carries out."""
    expected = (
        f"one that reaches containers: these do through NVIDIA's runtime alone, and {' and '.join(runtimes)} of this"
        " node has no handler of it, so pods would start without a GPU"
    )
    error = InputError.of(f"{variable}: flags.plugin.deviceListStrategy", list(chosen), expected)
    return InputError(error.message, cause=error.cause, hint=STEP, key=variable)
