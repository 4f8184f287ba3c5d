# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The keys of NVIDIA's GPU Feature Discovery, which the command ``gpu-plugin labels`` follows. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .._shared._core.errors import InputError

UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
PART: Final = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
SLEEP: Final = "flags.gfd.sleepInterval"
INFINITE: Final = "infinite"
SHORTEST, LONGEST = 1.0, 366 * 86400.0
LONGEST_TEXT: Final = 64


@dataclass(frozen=True)
class Gfd:
    """How labels are made, and where they are written.

    ``sleep`` is in seconds, None is for ever. ``node_feature_api`` is None where nobody chose.
    """

    oneshot: bool = False
    no_timestamp: bool = False
    sleep: float | None = 60.0
    output_file: str = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
    machine_type_file: str = "/sys/class/dmi/id/product_name"
    node_feature_api: bool | None = None


def gfd(values: Mapping[str, Any]) -> Gfd:
    """Return the settings from values by key. InputError: the interval is none."""
    return Gfd(
        oneshot=values["flags.gfd.oneshot"],
        no_timestamp=values["flags.gfd.noTimestamp"],
        sleep=interval(SLEEP, values[SLEEP]),
        output_file=values["flags.gfd.outputFile"],
        machine_type_file=values["flags.gfd.machineTypeFile"],
        node_feature_api=values["flags.useNodeFeatureAPI"],
    )


def interval(where: str, text: str) -> float | None:
    """Return the seconds of a duration such as 1m30s, None for ever. InputError: it is none.

    A number without a unit is nanoseconds, as in NVIDIA's own.
    """
    if text == INFINITE:
        return None
    if len(text) > LONGEST_TEXT:
        raise InputError.of(where, text, f"a duration of at most {LONGEST_TEXT} characters")
    if re.fullmatch("[0-9]+", text):
        seconds = int(text) / 1e9
    elif re.fullmatch(f"({PART})+", text):
        seconds = sum(float(count) * UNITS[unit] for count, unit in re.findall(PART, text))
    else:
        raise InputError.of(where, text, f"a duration such as 60s or 1m30s, or {INFINITE}")
    if not SHORTEST <= seconds <= LONGEST:
        raise InputError.of(
            where, text, "from 1s to a year (a number without a unit is nanoseconds)"
        )
    return seconds
