# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tools of other vendors, which run one after the other, each within its time and without a shell.

Their environment is a new one: nccl-tests writes all of it into its file. dcgmi starts DCGM in its own process if no
host engine runs, as DCGM's services are stopped during a test.
"""

from __future__ import annotations

import tempfile
import typing as t
from pathlib import Path

from ..._base.text import json_data
from ..._machine.host import Host
from ..._machine.limited import Programs
from ..._repair.reset.state import ResetGpu
from ..plan import AcceptOptions
from ..result import ALL_REDUCE, DCGMI, NVBANDWIDTH, TOOLS
from ..tools import dcgm, nccl, nvbandwidth
from ..tools.dcgm import DiagGpu
from ..tools.findings import ToolResult, ToolRun
from .load import NO_MPS

ENV = "/usr/bin/env"
INHERITED = ("HOME", "LC_ALL", "LD_LIBRARY_PATH", "PATH")
MOST_OUTPUT = 1 << 20  # bytes
DIAG_SECONDS: t.Mapping[int, float] = {2: 1800.0, 3: 7200.0}
BANDWIDTH_SECONDS, SECONDS_A_LINK = 120.0, 20.0
ALL_REDUCE_SECONDS = 600.0
SMALLEST, LARGEST = (
    8 << 20,
    1 << 30,
)  # bytes that are reduced, from one size to the next twice as many
CHECKS = 10  # of each size: one of them misses corruption that is rare
ABSENT = "it is not installed: install it, name its path in tools, or leave it out by an empty path"
NOT_USABLE = "the load test of the GPU did not pass"


class ToolProcesses:
    """Runs the tools of a test at level standard.

    Args:
        host: The machine.
        options: What was asked for: the tools, and the level of dcgmi diag.
        pairs: The UUIDs of GPUs that can access each other, from one to the other.
    """

    def __init__(self, host: Host, options: AcceptOptions, pairs: nvbandwidth.Pairs) -> None:
        self._host, self._options, self._pairs = host, options, pairs
        self._programs = Programs(host)

    def test(self, gpus: t.Sequence[ResetGpu]) -> t.Dict[str, ToolResult]:
        """Return the results of the tools for GPUs, by the tools' names."""
        return {name: self._run(name, gpus) for name in self._options.required.tools}

    def skip(self, gpus: t.Sequence[ResetGpu]) -> t.Dict[str, ToolResult]:
        """Return the results for GPUs that the tools are not to test."""
        names = self._options.required.tools
        return {name: _unmeasured(name, gpus, NOT_USABLE) for name in names}

    def _run(self, name: str, gpus: t.Sequence[ResetGpu]) -> ToolResult:
        path = self._host.which(self._options.tools.get(name) or name)
        if path is None:
            return _unmeasured(name, gpus, ABSENT)
        run = {
            DCGMI: self._diagnose,
            NVBANDWIDTH: self._measure_bandwidth,
            ALL_REDUCE: self._reduce,
        }[name]
        return run(path, gpus)

    def _diagnose(self, path: str, gpus: t.Sequence[ResetGpu]) -> ToolResult:
        known = [
            DiagGpu(gpu.uuid, gpu.number, gpu.serial) for gpu in gpus if gpu.number is not None
        ]
        if len(known) < len(gpus):
            return _unmeasured(DCGMI, gpus, "NVML's indices of the GPUs are not known")
        level = self._options.dcgm_level
        indices = ",".join(str(gpu.number) for gpu in known)
        argv = [path, "diag", "-r", str(level), "-j", "-i", indices]
        return dcgm.parse_diag(self._answer(argv, {}, DIAG_SECONDS[level]), known, level)

    def _measure_bandwidth(self, path: str, gpus: t.Sequence[ResetGpu]) -> ToolResult:
        uuids = [gpu.uuid for gpu in gpus]
        pairs = [pair for pair in self._pairs if set(pair) <= set(uuids)]
        argv = [path, "-j", "-t", *nvbandwidth.bandwidth_tests(pairs)]
        seconds = BANDWIDTH_SECONDS + SECONDS_A_LINK * (len(uuids) + len(pairs))
        run = self._answer(argv, _visible(uuids), seconds)
        return nvbandwidth.parse_bandwidth(run, uuids, pairs)

    def _reduce(self, path: str, gpus: t.Sequence[ResetGpu]) -> ToolResult:
        uuids = [gpu.uuid for gpu in gpus]
        with tempfile.TemporaryDirectory(prefix="gpu-node-") as folder:
            file = Path(folder) / "nccl.json"
            sizes = ["-b", str(SMALLEST), "-e", str(LARGEST), "-f", "2"]
            argv = [path, "-g", str(len(uuids)), *sizes, "-c", str(CHECKS), "-J", str(file)]
            run = self._answer(argv, _visible(uuids), ALL_REDUCE_SECONDS)
            run = run._replace(document=_read(file))
        return nccl.parse_all_reduce(run, uuids, LARGEST)

    def _answer(
        self, argv: t.Sequence[str], environment: t.Mapping[str, str], seconds: float
    ) -> ToolRun:
        """Run a tool with nothing of this process's environment but where programs and libraries are."""
        inherited = {
            name: value for name, value in self._host.environment().items() if name in INHERITED
        }
        settings = [f"{name}={value}" for name, value in {**inherited, **environment}.items()]
        output, ended = self._programs.answer(
            [ENV, "-i", *settings, *argv], MOST_OUTPUT, seconds=seconds
        )
        return ToolRun(ended.rc, output.decode("utf-8", "replace"), problem=ended.problem)


def _unmeasured(name: str, gpus: t.Sequence[ResetGpu], reason: str) -> ToolResult:
    result = ToolResult(TOOLS[name], tuple(gpu.uuid for gpu in gpus))
    result.add_unmeasured(reason)
    return result


def _visible(uuids: t.Sequence[str]) -> t.Dict[str, str]:
    """Return the settings of CUDA by which a process sees these GPUs alone, in this order, without MPS."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuids), "CUDA_MPS_PIPE_DIRECTORY": NO_MPS}


def _read(path: Path) -> str:
    """Return a file that a tool has written, empty if there is none, cut off if it is too long."""
    try:
        with path.open("rb") as file:
            return file.read(json_data.LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""
