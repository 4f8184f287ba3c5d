# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The keys of NVIDIA's GPU Feature Discovery, which the command ``gpu-plugin labels`` follows. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from .schema import Key
from .strict_yaml import invalid

UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
PART: Final = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
INFINITE: Final = "infinite"
SHORTEST, LONGEST = 1.0, 366 * 86400.0
LONGEST_TEXT: Final = 64


def interval(where: str, text: str) -> float | None:
    """Return the seconds of a duration such as 1m30s, None for ever. ConfigError: it is none.

    A number without a unit is nanoseconds, as in NVIDIA's own.
    """
    if text == INFINITE:
        return None
    if len(text) > LONGEST_TEXT:
        raise invalid(where, text, f"a duration of at most {LONGEST_TEXT} characters")
    if re.fullmatch("[0-9]+", text):
        seconds = int(text) / 1e9
    elif re.fullmatch(f"({PART})+", text):
        seconds = sum(float(count) * UNITS[unit] for count, unit in re.findall(PART, text))
    else:
        raise invalid(where, text, f"a duration such as 60s or 1m30s, or {INFINITE}")
    if not SHORTEST <= seconds <= LONGEST:
        raise invalid(where, text, "from 1s to a year (a number without a unit is nanoseconds)")
    return seconds


def _key(name: str, default: Any, flags: tuple[str, ...], text: str, **more: Any) -> Any:
    """Return the field of a key of ``flags.gfd``; its variable is GFD_ and its name."""
    variable = "GFD_" + re.sub("([A-Z])", r"_\1", name).upper()
    return Key(f"flags.gfd.{name}", default, flags, text, (variable,), **more).field()


@dataclass(frozen=True)
class Gfd:
    """How labels are made, and where they are written.

    ``sleep`` is in seconds, None is for ever. ``node_feature_api`` is None where nobody chose.
    """

    oneshot: bool = _key("oneshot", False, ("--oneshot", "--once"), "do it once")
    no_timestamp: bool = _key(
        "noTimestamp", False, ("--no-timestamp",), "leave out the label with the time of the start"
    )
    sleep: float | None = _key(
        "sleepInterval",
        "60s",
        ("--sleep-interval",),
        "how long to wait between two looks at the GPUs",
        may_be_whole=True,
        read=interval,
    )
    output_file: str = _key(
        "outputFile",
        "/etc/kubernetes/node-feature-discovery/features.d/gfd",
        ("--output-file", "--output", "-o"),
        "where a file of labels goes; empty is standard output",
    )
    machine_type_file: str = _key(
        "machineTypeFile",
        "/sys/class/dmi/id/product_name",
        ("--machine-type-file",),
        "the file that names the machine",
    )
    node_feature_api: bool | None = Key(
        "flags.useNodeFeatureAPI",
        None,
        ("--use-node-feature-api",),
        "publish labels as a NodeFeature object, or with false as a file",
        ("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"),
    ).field()
