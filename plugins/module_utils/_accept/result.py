# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The result of a GPU's test: a verdict, figures, faults, and what could not be measured."""

from __future__ import annotations

import dataclasses
import typing as t

PASSED, FAILED, INCOMPLETE, UNTESTED = "passed", "failed", "incomplete", "untested"
QUICK, STANDARD = LEVELS = ("quick", "standard")
# The tools of level standard: the names of their programs, and what they are called.
DCGMI, NVBANDWIDTH, ALL_REDUCE = "dcgmi", "nvbandwidth", "all_reduce_perf"
TOOLS: t.Mapping[str, str] = {
    DCGMI: "dcgmi diag",
    NVBANDWIDTH: "nvbandwidth",
    ALL_REDUCE: "nccl-tests",
}


@dataclasses.dataclass
class GpuResult:
    """The result of a GPU's load test: figures by name, faults, and by what was not measured the reason.

    ``tools`` are the versions of the tools by which it has passed, by their names.
    """

    verdict: str = INCOMPLETE
    figures: t.Dict[str, float] = dataclasses.field(default_factory=dict)
    faults: t.List[str] = dataclasses.field(default_factory=list)
    unmeasured: t.Dict[str, str] = dataclasses.field(default_factory=dict)
    level: str = QUICK
    dcgm_level: int = 0
    tools: t.Dict[str, str] = dataclasses.field(default_factory=dict)
