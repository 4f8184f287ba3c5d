# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The processes of the load test, each within its time, and what the GPUs tell meanwhile."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import threading
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ..._base.gpu import LoadReading, NvmlError
from ..._machine.limited import Programs
from ..._machine.nvml import faults
from ..._machine.nvml.load import load_reading
from ..._machine.nvml.real import open_nvml
from ..._machine.nvml.within import begin
from ..answers import parse_answers
from ..verdict import ProcessAnswers
from . import load
from .load import LoadRequest

# The modules of this process, which may be in an archive, are those of the new one.
CODE = (
    f"import sys; sys.path[:0] = sys.argv[2:]; from {load.__name__} import main; main(sys.argv[1])"
)
MOST_OUTPUT = 1 << 20  # bytes
# What no healthy GPU needs, also where all of a node are initialized anew for each process.
OTHER_SECONDS = 120.0  # for all but arithmetic
LINK_SECONDS, SECONDS_A_GPU = 60.0, 5.0  # for links
READ_EVERY = 1.0  # seconds
MOST_READINGS = 4096  # of a GPU
PATIENCE = 5.0  # seconds for the last reading


def run_loads(
    programs: Programs, gpus: t.Sequence[str], seconds: int
) -> t.Dict[str, ProcessAnswers]:
    """Test GPUs side by side, by UUID."""
    limit = 2 * seconds + OTHER_SECONDS
    run = functools.partial(_run, programs, limit=limit)
    with ThreadPoolExecutor(max_workers=len(gpus)) as executor:
        futures = {
            uuid: executor.submit(run, LoadRequest((uuid,), seconds=seconds)) for uuid in gpus
        }
        return {uuid: future.result() for uuid, future in futures.items()}


def run_links(programs: Programs, cpus: t.Mapping[str, t.Tuple[int, ...]]) -> ProcessAnswers:
    """Measure the links of GPUs, given with the CPUs of their NUMA nodes."""
    request = LoadRequest(tuple(cpus), links=True, cpus=cpus)
    return _run(programs, request, limit=LINK_SECONDS + SECONDS_A_GPU * len(cpus))


def _run(programs: Programs, request: LoadRequest, *, limit: float) -> ProcessAnswers:
    argv = [sys.executable, "-I", "-c", CODE, json.dumps(request._asdict()), *sys.path]
    output, ended = programs.answer(argv, MOST_OUTPUT, seconds=limit)
    answers = parse_answers(output.decode("utf-8", "replace"))
    problem = ended.problem
    if ended.rc:
        signal = f"signal {-ended.rc}" if ended.rc < 0 else f"status {ended.rc}"
        problem = ": ".join(filter(None, (f"it ended with {signal}", answers.last_line)))
    return ProcessAnswers(answers, problem)


class Readings:
    """Reads GPUs, given by their PCI addresses, again and again during a with statement."""

    def __init__(self, addresses: t.Iterable[str]) -> None:
        self._readings: t.Dict[str, t.List[LoadReading]] = {address: [] for address in addresses}
        self._ends, self._ended = threading.Event(), threading.Event()

    def __enter__(self) -> Readings:
        begin(self._read)
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.set()
        self._ended.wait(PATIENCE)  # a driver that hangs keeps nobody

    def of(self, address: str) -> t.Tuple[LoadReading, ...]:
        """Return the readings of a GPU."""
        return tuple(self._readings[address])

    def _read(self) -> None:
        with contextlib.suppress(NvmlError), open_nvml():
            while not self._ends.wait(READ_EVERY):
                for address, readings in self._readings.items():
                    with contextlib.suppress(NvmlError):
                        readings.append(load_reading(faults.at(address)))
                    del readings[:-MOST_READINGS]
        self._ended.set()
