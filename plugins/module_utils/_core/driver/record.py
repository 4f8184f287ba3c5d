# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What nvidia_driver has added to a node."""

from __future__ import annotations

import dataclasses
import typing as t

from ..packages import record


@dataclasses.dataclass(frozen=True)
class Record(record.Record):
    """The additions; of the packages, ``requested`` are those that were asked for.

    ``sources``, ``service`` and ``fabric`` say that a sources file is there and services were enabled,
    ``modprobe`` that our modprobe file, or what an initramfs has of it, must go.
    ``runfile`` is what NVIDIA's installer brought, "version flavour", or "?" where it was cut off.
    ``stream`` is the module stream that was enabled, ``stream_before`` the one that was enabled then.
    """

    sources: bool = False
    service: bool = False
    modprobe: bool = False
    fabric: bool = False
    requested: t.FrozenSet[str] = frozenset()
    runfile: str = ""
    stream: str = ""
    stream_before: str = ""
