# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's runtime, without which some strategies of the device plugin give containers nothing."""

from __future__ import annotations

import posixpath
import typing as t

from .._base.errors import InputError

# Also its variants (.cdi, .legacy) and its hook (-hook).
PROGRAM = "nvidia-container-runtime"
HOOKS = tuple(f"{one}/containers/oci/hooks.d" for one in ("/usr/share", "/etc", "/run"))
STEP = (
    "set deviceListStrategy: [cdi-cri], the role's default; or container_runtime_mode: runtime_class with"
    " container_toolkit_state: present, for pods that name its RuntimeClass"
)


def runs_nvidia(found: t.Any, but: t.Container[str] = ()) -> bool:
    """Tell whether a runtime's configuration has a handler with NVIDIA's program; ``but`` are names of handlers."""
    if isinstance(found, dict):
        handlers = found.get("runtimes")
        left = {**found, "runtimes": _without(handlers, but)} if handlers else found
        return any(runs_nvidia(one, but) for one in left.values())
    if isinstance(found, list):
        return any(runs_nvidia(one, but) for one in found)
    return isinstance(found, str) and posixpath.basename(found).startswith(PROGRAM)


def _without(handlers: t.Any, but: t.Container[str]) -> t.Any:
    if not isinstance(handlers, dict):
        return handlers
    return {name: one for name, one in handlers.items() if name not in but}


def refusal(variable: str, chosen: t.Sequence[str], runtimes: t.Sequence[str]) -> InputError:
    """Return the error of a configuration whose strategies none of the node's runtimes carries out."""
    expected = (
        f"one that reaches containers: these do through NVIDIA's runtime alone, and {' and '.join(runtimes)} of this"
        " node has no handler of it, so pods would start without a GPU"
    )
    found = InputError.of(f"{variable}: flags.plugin.deviceListStrategy", list(chosen), expected)
    return InputError(found.message, cause=found.cause, hint=STEP, key=variable)
