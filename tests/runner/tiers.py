# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which tests ``make test`` has, and which only ``make test-all``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def long_but_first(values: Iterable[Any]) -> list[Any]:
    """Return the values of a parameter, all but the first marked as long."""
    first, *others = values
    return [first, *(_long(value) for value in others)]


def _long(value: Any) -> Any:
    if hasattr(value, "marks"):  # a pytest.param, which is a tuple too
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.long], id=value.id)
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.long)
