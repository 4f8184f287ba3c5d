# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An answer that may be missing for two reasons: there is nothing, or it is not known."""

from __future__ import annotations

import dataclasses
import typing as t

T = t.TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Known(t.Generic[T]):
    """The answer."""

    value: T


@dataclasses.dataclass(frozen=True)
class Absent:
    """There is nothing that could answer, such as on a node without a kubelet."""


@dataclasses.dataclass(frozen=True)
class Unknown:
    """The program that should know did not answer, or has forgotten. It is never taken for "nothing"."""

    reason: str


Knowledge = t.Union[Known[T], Absent, Unknown]
