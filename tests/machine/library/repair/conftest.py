# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine with simulated GPUs, on which NVIDIA's genuine programs look for faults."""

from __future__ import annotations

import functools
import json
import os
import shutil
import tarfile
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.limited import Programs
from ansible_collections.gpu.node.plugins.module_utils._repair.evidence.capability import (
    EvidenceCapability,
)
from ansible_collections.gpu.node.plugins.modules import gpu_evidence
from nvsim import genuine
from nvsim.testing import Sim, start

from tests.fakes.library.in_process import said_by
from tests.support.helper_process import runs

Answer = dict[str, t.Any]
NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


class SimHost(Host):
    """A machine whose PCI bus and driver are a simulated one's, and whose records are the test's own."""

    def __init__(self, sim: Sim, folder: Path) -> None:
        super().__init__()
        self.sim, self.folder = sim, folder
        self.programs = folder / "bin"
        self.programs.mkdir()
        self._path = f"{self.programs}:{self._path}"

    def _at(self, path: str) -> str:
        if path.startswith(("/sys/", "/proc/driver/")):
            return f"{self.sim.root}{path}"
        return path.replace("/var/lib/gpu-node", str(self.folder / "lib"), 1)

    def environment(self) -> dict[str, str]:
        return {**self.sim.env, "PATH": self._path, "LC_ALL": "C"}

    def read_bytes(self, path: str) -> t.Optional[bytes]:
        return super().read_bytes(self._at(path))

    def listdir(self, path: str) -> list[str]:
        return super().listdir(self._at(path))

    def leads_to(self, path: str) -> str:
        return super().leads_to(self._at(path)).removeprefix(str(self.sim.root))

    def install(self, name: str, script: str) -> None:
        """Put a program before those of the system."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


class Scene:
    """The machine, and evidence of it in a folder of the test's own."""

    def __init__(self, sim: Sim, folder: Path) -> None:
        self.sim, self.host, self.tmp = sim, SimHost(sim, folder), folder
        self.warnings: list[str] = []
        self.folder = folder / "evidence"
        self.hung = folder / "hung"
        self.at = NOW

    def now(self) -> float:
        """Return a clock that goes forward whenever another program hangs."""
        return 1e6 * len(self.pids())

    def pids(self) -> list[str]:
        """Return the processes that have begun to hang."""
        return self.hung.read_text().split() if self.hung.exists() else []

    def hang(self, program: str, then: str = "sleep 100000") -> None:
        """Let a program hang."""
        self.host.install(program, f'echo $$ >> "{self.hung}"; exec {then}')

    def hung_are_gone(self) -> bool:
        """Return whether no program that hung is left."""
        return not any(map(runs, self.pids()))

    def evidence(self, *, check: bool = False, **given: t.Any) -> Answer:
        """Return what the module answers; each call is a minute after the one before it."""
        self.at += 60
        made = functools.partial(
            EvidenceCapability,
            self.host,
            programs=Programs(self.host, self.now),
            current_time=lambda: self.at,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gpu_evidence, "EvidenceCapability", lambda _host, params: made(params))
            asked = {"path": str(self.folder), "bug_report": "never", **given}
            answer: Answer = json.loads(
                said_by(gpu_evidence, asked, self.tmp, self.warnings, check_mode=check)
            )
        return answer

    def read(self, answer: Answer) -> dict[str, bytes]:
        """Return the files of an archive by their names."""
        with tarfile.open(answer["path"]) as tar:
            members = {one.name.partition("/")[2]: tar.extractfile(one) for one in tar}
            return {name: file.read() for name, file in members.items() if file}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    if os.geteuid() != 0:
        pytest.skip("NVIDIA's bug report needs root")
    with start("h100-80", 2) as sim:
        found = Scene(sim, tmp_path)
        report = genuine.program("nvidia-driver-bin", "nvidia-bug-report.sh")
        for program in (genuine.nvidia_smi(), report):
            shutil.copy2(program, found.host.programs)
        yield found
