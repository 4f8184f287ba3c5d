# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The acceptance of a node's GPUs, for a report: whether each is accepted, and the figures of its last test."""

from __future__ import annotations

import typing as t

from ..._accept.record import Acceptance, JudgedGpu

Json = t.Dict[str, t.Any]
ACCEPTED, FAILED, UNTESTED = STATES = ("accepted", "failed", "untested")
# What a row has, by the types of JSON. ``at`` is in seconds since 1970, 0 if the GPU was never tested, and ``reason``
# says why it is not accepted as it is. The verdict, the board, and the driver are those of the last test.
ROW: t.Mapping[str, t.Any] = {
    **dict.fromkeys(("gpu", "state", "reason", "verdict", "level", "board", "driver"), str),
    "at": int,
    "faults": [str],
    "figures": {str: float},
}
NEVER_TESTED = Acceptance("", level="")


def rows(gpus: t.Iterable[JudgedGpu]) -> t.List[Json]:
    """Return the acceptance of GPUs, JSON-able."""
    return [_row(gpu) for gpu in gpus]


def _row(gpu: JudgedGpu) -> Json:
    acceptance = gpu.acceptance or NEVER_TESTED
    return {
        "gpu": gpu.uuid,
        "state": FAILED if acceptance.faults else UNTESTED if gpu.reason else ACCEPTED,
        "reason": gpu.reason,
        "verdict": acceptance.verdict,
        "level": acceptance.level,
        "board": acceptance.identity.board,
        "driver": acceptance.identity.driver,
        "at": int(acceptance.at),
        "faults": list(acceptance.faults),
        "figures": dict(acceptance.figures),
    }
