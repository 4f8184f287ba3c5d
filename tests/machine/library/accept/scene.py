# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node whose GPUs are tested under load: NVML and CUDA are simulated, and the kernels run from their PTX."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import typing as t
from pathlib import Path

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpu.node.plugins.module_utils._accept import capability
from ansible_collections.gpu.node.plugins.module_utils._accept.machine import (
    accepted,
    load,
    processes,
    tools,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.record import PATH
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.findings import ToolRun
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._generated.accept import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.nvml.real import open_nvml
from ansible_collections.gpu.node.plugins.module_utils._machine.run import _converge
from ansible_collections.gpu.node.plugins.module_utils._node.gate import PATH as GATE
from ansible_collections.gpu.node.plugins.module_utils._node.gate import UNIT

from tests.fakes.accept import recorded
from tests.machine.library.repair.reset.scene import Node, Scene

MULTIPROCESSORS = 4
# The kernels are interpreted: a process of the test does a few iterations, on little memory.
# A tool that notes its arguments and environment, writes its file if it has one, and prints what was recorded.
TOOL = """#!/bin/sh
printf '%s\\n' "$@" > '{folder}/argv'
env > '{folder}/environment'
for last; do :; done
[ ! -e '{folder}/document' ] || cat '{folder}/document' > "$last"
cat '{folder}/output'
{then}
exit {status}
"""
QUICK = f"import {load.__name__} as load; load.FIRST_ITERATIONS = 2; load.SPARE = 0; "


class AcceptNode(Node):
    """The machine, with programs that really run."""

    def which(self, name: str) -> str | None:
        return name if Path(name).is_absolute() else None

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _answer(self, words: tuple[str, ...], **how: t.Any) -> Completed:
        if UNIT not in words and words[1:] != ("daemon-reload",):
            return super()._answer(words, **how)
        if words[1] == "show":
            state = "enabled" if f"enable {UNIT}" in self.log else "disabled"
            return Completed(0, f"Id={UNIT}\nActiveState=inactive\nUnitFileState={state}\n", "")
        self._note(" ".join(words[1:]))
        return Completed(0, "", "")

    def write(self, path: str, text: str, **how: t.Any) -> str | None:
        if self._die_before == path and '"started"' not in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(path, text, **how)

    def remove(self, path: str) -> bool:
        if self._die_before == path:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().remove(path)


def main(path: str, root: str, smi: str, asked: str, die_before: str) -> None:
    """Run the module's capability as the module does, and print its answer."""
    processes.CODE = processes.CODE.replace("main(", f"{QUICK}main(")
    params = json.loads(asked)
    processes.OTHER_SECONDS = processes.LINK_SECONDS = params.pop("limit", 60.0)
    tools.DIAG_SECONDS = dict.fromkeys(tools.DIAG_SECONDS, params.pop("tool_limit", 60.0))
    tools.LARGEST = recorded.LARGEST
    check = params.pop("check", False)
    node = AcceptNode(Path(path), Path(root), smi, die_before)
    completed: list[Step] = []
    try:
        validated = ArgumentSpecValidator(SPEC["argument_spec"]).validate(params)
        assert not validated.error_messages
        accept = capability.AcceptCapability(
            node,  # type: ignore[arg-type]
            validated.validated_parameters,
            check_mode=check,
        )
        accept._options = accept._options._replace(duration=0)  # one round
        answer = _converge(check, True, accept, completed)
    except NodeError as error:
        answer = {"failed": str(error), "changed": bool(completed), **error.details}
    with contextlib.suppress(NodeError), open_nvml() as nvml:
        told = accepted.unaccepted_of(node, nvml.gpus()[0])  # type: ignore[arg-type]
        answer["unaccepted"] = told._asdict()
    print(json.dumps(answer, default=str), flush=True)


class AcceptScene(Scene):
    """A simulated node between tests."""

    runs = __name__
    cuda: Path
    fault = ""
    bad_gpu = ""

    def environment(self) -> dict[str, str]:
        folders = [str(self.cuda), self.sim.env.get("LD_LIBRARY_PATH", "")]
        return {
            **super().environment(),
            "LD_LIBRARY_PATH": os.pathsep.join(filter(None, folders)),
            "NODE_CUDA": self.fault,
            "NODE_CUDA_GPU": self.bad_gpu,
            "NODE_CUDA_MULTIPROCESSORS": str(MULTIPROCESSORS),
            "NODE_CUDA_MEMORY": "1",
        }

    def tool(self, name: str, run: ToolRun, then: str = "") -> str:
        """Return the path of a new tool that prints what was recorded; ``then`` is a line that it runs after it."""
        folder = self.sim.folder / f"tool-{name}"
        folder.mkdir(exist_ok=True)
        (folder / "output").write_text(run.output)
        if run.document:
            (folder / "document").write_text(run.document)
        path = folder / name
        path.write_text(TOOL.format(folder=folder, then=then, status=run.status))
        path.chmod(0o755)
        return str(path)

    def called(self, name: str) -> tuple[list[str], dict[str, str]]:
        """Return the arguments and the environment with which a tool has run, which are empty if it has not."""
        folder = self.sim.folder / f"tool-{name}"
        if not (folder / "argv").exists():
            return [], {}
        lines = (folder / "environment").read_text().splitlines()
        environment = dict(line.partition("=")[::2] for line in lines)
        return (folder / "argv").read_text().splitlines(), environment

    @property
    def gate(self) -> dict[str, t.Any]:
        """The file of the gate."""
        gate: dict[str, t.Any] = json.loads(self["files"][GATE])
        return gate

    @property
    def record(self) -> dict[str, t.Any]:
        """The record of the node, by UUID."""
        gpus: dict[str, t.Any] = json.loads(self["files"][PATH])["gpus"]
        return gpus
