# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The way back from an adoption: to the driver that was there, or to the one that is, where that one is gone."""

from __future__ import annotations

import typing as t

from ..state import Observed


def exchanged(observed: Observed) -> t.Dict[str, str]:
    """Return the earlier versions of what is others' and that we have changed or removed since."""
    record = observed.record
    return {
        name: version
        for name, version in sorted(record.others.items())
        if name in record.exchanged and observed.installed(name) != version
    }


def reason(observed: Observed) -> str:
    """Return why the driver that was there cannot be put back, empty where it can, or never went."""
    if observed.record.replaced:
        return f"the driver {observed.record.replaced} was from NVIDIA's installer"
    if observed.back is None:
        words = (f"{name} {version}" for name, version in exchanged(observed).items())
        return f"not all of {', '.join(words)} can be had any more"
    return ""


def summary(observed: Observed, removal: str) -> str:
    """Return what the removal comes to, in words."""
    why = reason(observed)
    if why:
        return f"leave the driver as it is, since {why}; forget the record of additions"
    words = [f"{name} ({version})" for name, version in (observed.back or {}).items()]
    return f"put back {', '.join(words)}; {removal}" if words else removal
