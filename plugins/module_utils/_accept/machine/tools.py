# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tools of other vendors, which run one after the other, on the node itself or in containers.

dcgmi starts DCGM in its own process if no host engine runs, as DCGM's services are stopped during a test.
"""

from __future__ import annotations

import os
import stat
import tempfile
import typing as t

from ..._base.errors import NodeError
from ..._base.text import json_data
from ..._machine.host import Host
from ..._repair.reset.state import ResetGpu
from ..plan import AcceptOptions, ToolSource
from ..result import ALL_REDUCE, DCGMI, NVBANDWIDTH, TOOLS
from ..tools import dcgm, nccl, nvbandwidth
from ..tools.dcgm import DiagGpu
from ..tools.findings import ToolResult, ToolRun
from .commands import Commands
from .containers import ToolContainer
from .load import NO_MPS

DIAG_SECONDS: t.Mapping[int, float] = {2: 1800.0, 3: 7200.0}
BANDWIDTH_SECONDS, SECONDS_A_LINK = 120.0, 20.0
ALL_REDUCE_SECONDS = 600.0
SMALLEST, LARGEST = (
    8 << 20,
    1 << 30,
)  # bytes that are reduced, from one size to the next twice as many
CHECKS = 10  # of each size: one of them misses corruption that is rare
ABSENT = "it is not installed: install it, name its path or image in tools, or leave it out by an empty path"
NOT_USABLE = "the load test of the GPU did not pass"


class InstalledTool:
    """A tool that is installed on the node.

    Args:
        host: The machine.
        path: The tool's path.
    """

    def __init__(self, host: Host, path: str) -> None:
        self._commands, self._path = Commands(host), path

    def run(
        self,
        args: t.Sequence[str],
        environment: t.Mapping[str, str],
        seconds: float,
        _folder: str = "",
    ) -> ToolRun:
        """Run the tool, which is killed after so many seconds."""
        return self._commands.run([self._path, *args], seconds, environment)


Tool = t.Union[InstalledTool, ToolContainer]


class ToolProcesses:
    """Runs the tools of a test at level standard.

    Args:
        host: The machine.
        options: What was asked for: the tools, and the level of dcgmi diag.
        pairs: The UUIDs of GPUs that can access each other, from one to the other.
    """

    def __init__(self, host: Host, options: AcceptOptions, pairs: nvbandwidth.Pairs) -> None:
        self._host, self._options, self._pairs = host, options, pairs

    def test(self, gpus: t.Sequence[ResetGpu]) -> t.Dict[str, ToolResult]:
        """Return the results of the tools for GPUs, by the tools' names."""
        return {name: self._run(name, gpus) for name in self._options.required.tools}

    def skip(self, gpus: t.Sequence[ResetGpu]) -> t.Dict[str, ToolResult]:
        """Return the results for GPUs that the tools are not to test."""
        names = self._options.required.tools
        return {name: _unmeasured(name, gpus, NOT_USABLE) for name in names}

    def _run(self, name: str, gpus: t.Sequence[ResetGpu]) -> ToolResult:
        source = self._options.tools.get(name) or ToolSource()
        try:
            tool = self._find(name, source, gpus)
        except NodeError as error:
            return _unmeasured(name, gpus, str(error))
        if name == DCGMI:
            return self._diagnose(tool, gpus, sees_all=not source.image)
        return {NVBANDWIDTH: self._measure_bandwidth, ALL_REDUCE: self._reduce}[name](tool, gpus)

    def _find(self, name: str, source: ToolSource, gpus: t.Sequence[ResetGpu]) -> Tool:
        """Return a tool.

        Raises:
            NodeError: if it is not there; its text says what helps.
        """
        if source.image:
            return ToolContainer(self._host, name, source, [gpu.uuid for gpu in gpus])
        path = self._host.which(source.path or name)
        if path is None:
            raise NodeError(ABSENT)
        return InstalledTool(self._host, path)

    def _diagnose(self, tool: Tool, gpus: t.Sequence[ResetGpu], *, sees_all: bool) -> ToolResult:
        numbers = {gpu.uuid: gpu.number for gpu in gpus if gpu.number is not None}
        if len(numbers) < len(gpus):
            return _unmeasured(DCGMI, gpus, "NVML's indices of the GPUs are not known")
        # In a container NVML counts the GPUs that are there, in the same order.
        seen = (
            numbers
            if sees_all
            else {uuid: at for at, uuid in enumerate(sorted(numbers, key=numbers.__getitem__))}
        )
        known = [DiagGpu(gpu.uuid, seen[gpu.uuid], gpu.serial) for gpu in gpus]
        level = self._options.dcgm_level
        indices = ",".join(str(gpu.number) for gpu in known)
        args = ["diag", "-r", str(level), "-j", "-i", indices]
        return dcgm.parse_diag(tool.run(args, {}, DIAG_SECONDS[level]), known, level)

    def _measure_bandwidth(self, tool: Tool, gpus: t.Sequence[ResetGpu]) -> ToolResult:
        uuids = [gpu.uuid for gpu in gpus]
        pairs = [pair for pair in self._pairs if set(pair) <= set(uuids)]
        args = ["-j", "-t", *nvbandwidth.bandwidth_tests(pairs)]
        seconds = BANDWIDTH_SECONDS + SECONDS_A_LINK * (len(uuids) + len(pairs))
        run = tool.run(args, _visible(uuids), seconds)
        return nvbandwidth.parse_bandwidth(run, uuids, pairs)

    def _reduce(self, tool: Tool, gpus: t.Sequence[ResetGpu]) -> ToolResult:
        uuids = [gpu.uuid for gpu in gpus]
        with tempfile.TemporaryDirectory(prefix="gpu-node-") as folder:
            file = f"{folder}/nccl.json"
            sizes = ["-b", str(SMALLEST), "-e", str(LARGEST), "-f", "2"]
            args = ["-g", str(len(uuids)), *sizes, "-c", str(CHECKS), "-J", file]
            run = tool.run(args, _visible(uuids), ALL_REDUCE_SECONDS, folder)
            run = run._replace(document=_read(file))
        return nccl.parse_all_reduce(run, uuids, LARGEST)


def _unmeasured(name: str, gpus: t.Sequence[ResetGpu], reason: str) -> ToolResult:
    result = ToolResult(TOOLS[name], tuple(gpu.uuid for gpu in gpus))
    result.add_unmeasured(reason)
    return result


def _visible(uuids: t.Sequence[str]) -> t.Dict[str, str]:
    """Return the settings of CUDA by which a process sees these GPUs alone, in this order, without MPS."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(uuids), "CUDA_MPS_PIPE_DIRECTORY": NO_MPS}


def _read(path: str) -> str:
    """Return a file that a tool has written, empty if there is none, cut off if it is too long.

    A container may have put anything at its place: a link is not followed, and a pipe not waited for.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return file.read(json_data.LONGEST).decode("utf-8", "replace") if is_file else ""
