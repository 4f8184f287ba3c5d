# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The refusal of a pod. Pure."""

from __future__ import annotations

from typing import Any

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.text.shown import shown


class Refused(NodeError):
    """A pod can't be admitted as it is. The message begins with the field."""


def refused(field: str, value: Any, why: str, hint: str = "") -> Refused:
    """Return the error that names a field of the pod, its value and why that is refused."""
    return Refused(f"{field}: {shown(value)} can't be", cause=why, hint=hint, field=field)
