# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What goes wrong with a selector. Pure."""

from __future__ import annotations

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.text.shown import cut


class CelError(Exception):
    """An expression that can't be evaluated for a device; Kubernetes stops scheduling the pod then."""


def not_understood(expression: str, what: str) -> NodeError:
    """Return the error for an expression outside the part of CEL that is read here."""
    return NodeError(
        f"the selector {cut(expression)!r} is not understood",
        cause=what,
        hint="docs/fractions/simulate.md lists what is",
    )
