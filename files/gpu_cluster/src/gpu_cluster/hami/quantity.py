# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whole numbers that Kubernetes writes as quantities: 3, 3k, 10Gi, 1e3. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from gpu_plugin._shared._base.errors import InputError
from gpu_plugin.cluster.quantity import of

MIB: Final = 1 << 20
# Of what a pod's author wrote: longer ones, and larger exponents, are not worth the room.
FORM: Final = re.compile(
    r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2}|[A-Za-z]{0,2})"
)


def whole(value: Any) -> int | None:
    """Return the whole number that a quantity is, None where it is none."""
    if not FORM.fullmatch(str(value)):
        return None
    try:
        number = of(value, "quantity")
    except InputError:
        return None
    return number if isinstance(number, int) else None
