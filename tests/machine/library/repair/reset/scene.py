# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node whose GPUs are simulated and whose services are values, and a run of gpu.node.gpu_reset on it.

What it keeps on disk is in ``node.json``, so that a run that was killed is followed by another.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._generated.gpu_reset import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import _converge
from ansible_collections.gpu.node.plugins.module_utils._repair.machine import observe_nvml
from ansible_collections.gpu.node.plugins.module_utils._repair.reset import capability, machine
from nvsim.ctl import Client
from nvsim.testing import Sim

from tests.fakes.library.fakes import FakeHost
from tests.support import helper_process
from tests.support.waiting import LIMIT

BOOT_ID = "/proc/sys/kernel/random/boot_id"
PLUGIN, LABELS, DCGM = "gpu-device-plugin.service", "gpu-node-labels.service", "nvidia-dcgm.service"
DRM = "/sys/module/nvidia_drm"
SERVED = {
    "services": {PLUGIN: True, LABELS: False, DCGM: True},
    "files": {f"{DRM}/parameters/modeset": "Y\n", f"{DRM}/refcnt": "0\n"},
}
LISTED = {"stop_services": ["nvidia-dcgm"]}
OPEN = "n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)\n"
RESET = "nvidia-smi --gpu-reset -i 0"
SHOWN = ("/proc/driver/nvidia", "/sys/bus/pci")  # what the simulated driver shows of the machine


class Node(FakeHost):
    """A machine of dictionaries, but for what the simulated driver shows, and nvidia-smi, which is the genuine one."""

    def __init__(self, path: Path, root: Path, smi: str, die_before: str) -> None:
        told = json.loads(path.read_text())
        super().__init__({BOOT_ID: "boot-1\n", **told["files"]})
        self.links = told["links"]
        self.services: dict[str, bool] = told["services"]
        self._path, self._root, self._smi, self._die_before = path, root, smi, die_before
        self._real = Host()
        self.log: list[str] = told["log"]
        self._comes: str = told["comes"]
        self._holds: Client | None = None

    def keep(self) -> None:
        told = {"files": self.files, "links": self.links, "services": self.services}
        self._path.write_text(json.dumps({**told, "log": self.log, "comes": self._comes}))

    def run(self, argv: t.Sequence[str], **how: t.Any) -> Completed:
        done = self._answer(tuple(argv), **how)
        if how.get("check", True) and done.rc:
            raise NodeError(f"command failed with status {done.rc}", cause=done.out + done.err)
        return done

    def _answer(self, words: tuple[str, ...], **how: t.Any) -> Completed:
        if words[:2] == ("systemctl", "show"):
            state = "active" if self.services.get(words[2]) else "inactive"
            there = "loaded" if words[2] in self.services else "not-found"
            text = f"Id={words[2]}\nLoadState={there}\nActiveState={state}\n"
            return Completed(0, f"{text}RequiredBy=\nBoundBy=\nConsistsOf=\n", "")
        if words[0] == "systemd-detect-virt":
            return Completed(1, "none\n", "")
        if words[0] == "nvidia-cuda-mps-control":
            os.kill(int(how["stdin"].split()[-1]), signal.SIGKILL)
            return Completed(0, "", "")
        if words[0] not in ("systemctl", "nvidia-smi", "rmmod", "modprobe"):
            return Completed(127, "", f"{words[0]}: not found")
        self._note(" ".join(words))
        if words[0] == "nvidia-smi":
            return self._real.run([self._smi, *words[1:]], check=False)
        if words[0] == "systemctl":
            self.services[words[-1]] = words[1] == "start"
            self.keep()
            if self._comes and self._holds is None:  # a process takes a GPU meanwhile: this one
                self._holds = Client(os.environ["NVSIM_SOCKET"])
                self._holds.ask("hold", gpu=self._comes)
        return Completed(0, "", "")

    def _note(self, line: str) -> None:
        if self._die_before and line.startswith(self._die_before):
            os.kill(os.getpid(), signal.SIGKILL)
        self.log.append(line)
        self.keep()

    def _shown(self, path: str) -> str:
        return f"{self._root}{path}" if path.startswith(SHOWN) else ""

    def read(self, path: str) -> str | None:
        return self._real.read(self._shown(path)) if self._shown(path) else super().read(path)

    def listdir(self, path: str) -> list[str]:
        return self._real.listdir(self._shown(path)) if self._shown(path) else super().listdir(path)

    def write(self, path: str, text: str, **how: t.Any) -> str | None:
        saved = super().write(path, text, **how)
        self.keep()
        return saved

    def remove(self, path: str) -> bool:
        found = super().remove(path)
        self.keep()
        return found


def main(path: str, root: str, smi: str, asked: str, die_before: str) -> None:
    """Run the module's capability as the module does, and print its answer."""
    capability.PATIENCE_SECONDS = 0.0
    node = Node(Path(path), Path(root), smi, die_before)
    told = json.loads(asked)
    check = told.pop("check", False)
    observe_nvml.HUNG = machine.HUNG = told.pop("hung", observe_nvml.HUNG)  # type: ignore[misc]
    params = ArgumentSpecValidator(SPEC["argument_spec"]).validate(told).validated_parameters
    done: list[Step] = []
    try:
        made = capability.GpuResetCapability(node, params, check_mode=check)  # type: ignore[arg-type]
        answer = _converge(check, True, made, done)
    except NodeError as error:
        answer = {"failed": str(error), "changed": bool(done), **error.details}
    print(json.dumps(answer, default=str), flush=True)


class Scene:
    """A simulated node between runs. ``main`` of the ``runs`` module is a run."""

    runs = __name__

    def __init__(self, sim: Sim, smi: Path) -> None:
        self.sim, self._smi = sim, smi
        self._path = sim.folder / "node.json"
        self.change(files={}, links={}, services={}, log=[], comes="")

    def change(self, **more: t.Any) -> None:
        """Let the node be so; what is not given stays."""
        before = json.loads(self._path.read_text()) if self._path.exists() else {}
        self._path.write_text(json.dumps({**before, **more}))

    def __getitem__(self, name: str) -> t.Any:
        return json.loads(self._path.read_text())[name]

    def gpu(self, index: int) -> dict[str, t.Any]:
        """Return what the simulated driver has of a GPU."""
        found: dict[str, t.Any] = self.sim.ctl("status")["gpus"][index]
        return found

    def environment(self) -> dict[str, str]:
        """Return the environment of a run."""
        return {**self.sim.env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def begin(self, *, die_before: str = "", **params: t.Any) -> subprocess.Popen[str]:
        """Start a run in a process of its own, which may kill itself before a command."""
        code = f"from {self.runs} import main; import sys; main(*sys.argv[1:])"
        words = [str(self._path), str(self.sim.root), str(self._smi), json.dumps(params)]
        return helper_process.start(
            [sys.executable, "-c", code, *words, die_before],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            ready=helper_process.executed,
        )

    def run(self, **params: t.Any) -> dict[str, t.Any]:
        """Return a run's answer."""
        out, err = self.begin(**params).communicate(timeout=LIMIT)
        assert out, err
        answer: dict[str, t.Any] = json.loads(out)
        return answer

    def killed(self, before: str, **params: t.Any) -> None:
        """Let a run be killed before a command."""
        process = self.begin(die_before=before, **params)
        _out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == -signal.SIGKILL, err

    def ran(self) -> list[str]:
        """Return the commands that changed something, with the GPUs by their indices, and forget them."""
        text = "\n".join(self["log"])
        for index, one in enumerate(self.sim.ctl("status")["gpus"]):
            text = text.replace(one["uuid"], str(index))
        self.change(log=[])
        return text.split("\n") if text else []


def uuids(machine: Scene, *gpus: int) -> list[str]:
    return [machine.gpu(one)["uuid"] for one in gpus]
