# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine of dictionaries on which the device plugin is deployed."""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.status import STATUS
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import LABELS_UNIT, UNIT
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    CONFIG,
    SETTINGS,
    UNITS,
    env_variables,
)
from ansible_collections.gpu.node.plugins.module_utils._generated.device_plugin import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.fakes import FakeHost

DRA_UNIT = "gpu-dra.service"
DRA = {name: one["default"] for name, one in SPEC["argument_spec"]["dra"]["options"].items()}
PREFIX = "/opt/gpu-node"
LABELS = {name: one["default"] for name, one in SPEC["argument_spec"]["labels"]["options"].items()}
KEPT = f"{PREFIX}/rollback.json"
UNIT_FILE = f"{UNITS}/{UNIT}"


class AgentHost(FakeHost):
    """A node whose daemon serves, or does not, depending on its release and its configuration."""

    def __init__(self, *bad: str) -> None:
        quiet = ("python3", "tar", "cp", "journalctl")
        super().__init__(commands={(name,): "" for name in quiet})
        self.commands[("journalctl",)] = "it said this"
        self.commands[("systemctl",)] = self.systemctl
        self.bad = bad
        self.pid = self.restarts = 0
        self.crashes = self.mps_active = False
        self.killed_at = ""
        self.waits: t.Tuple[str, ...] = ()  # what a configuration would wait for
        self.labels: t.Dict[str, str] = {}  # what the process that labels the node was started with
        self.removal = Completed(0, "", "")

    def run(self, argv: t.Sequence[str], **more: t.Any) -> Completed:
        name = argv[0].rsplit("/", 1)[-1]
        if self.killed_at and self.killed_at in " ".join(argv):
            raise KeyboardInterrupt
        if name == "gpu-plugin" and argv[1] == "check-config":
            text = more["stdin"]
            release = self.release(argv[0])
            refused = f"{release} refuses" if "unknown" in text and release == "r2" else ""
            self.ran.append(tuple(argv))
            waits = "".join(f"waits: {one}\n" for one in self.waits if "--node" in argv)
            return Completed(int(bool(refused)), f"{waits}standard input: valid\n", refused)
        if argv[-1] == "--remove":
            self.ran.append(tuple(argv))
            return self.removal
        if name in ("gpu-plugin", "python"):
            self.ran.append(tuple(argv))
            return Completed(0, "", "")
        return super().run(argv, **more)

    def read(self, path: str) -> t.Optional[str]:
        if path.startswith("/proc/") and self.crashes and self.current == "r2":
            raise NodeError(f"cannot read {path}", cause="No such process")
        return super().read(self.links.get(path, path))

    def release(self, program: str) -> str:
        parts = program.split("/")
        return parts[4] if parts[3] == "releases" else self.links[f"{PREFIX}/current"][9:]

    def systemctl(self, words: t.Tuple[str, ...]) -> Completed:
        if words[-1] == LABELS_UNIT or words[2:3] == (LABELS_UNIT,):
            return self.labels_systemctl(words[1])
        if "gpu-mps.service" in words:
            return Completed(0, f"ActiveState={'active' if self.mps_active else 'inactive'}\n", "")
        if words[1] == "show":
            state = "active" if self.pid else "inactive"
            lines = {"ActiveState": state, "UnitFileState": "enabled", "MainPID": str(self.pid)}
            if self.crashes and self.current == "r2":
                self.restarts += 1
            text = "".join(f"{key}={value}\n" for key, value in lines.items())
            return Completed(0, f"{text}NRestarts={self.restarts}\n", "")
        if words[1] == "restart":
            self.start()
        return Completed(0, "", "")

    def labels_systemctl(self, verb: str) -> Completed:
        if verb == "restart":
            self.labels = env_variables(self.files[SETTINGS])
            variables = {**self.labels, "GPU_NODE_RELEASE": self.current}
            pairs = (f"{name}={text}" for name, text in variables.items())
            self.files["/proc/4711/environ"] = "\0".join(pairs)
        if verb in ("stop", "disable"):
            self.labels = {}
        state, pid = ("active", 4711) if self.labels else ("inactive", 0)
        text = f"ActiveState={state}\nUnitFileState=enabled\nMainPID={pid}\n"
        return Completed(0, text if verb == "show" else "", "")

    @property
    def current(self) -> str:
        return self.links.get(f"{PREFIX}/current", "").rsplit("/", 1)[-1]

    def start(self) -> None:
        self.pid += 1
        self.files[f"/proc/{self.pid}/environ"] = f"A=b\0GPU_NODE_RELEASE={self.current}\0"
        config = self.files[self.links.get(CONFIG, CONFIG)]
        good = self.current not in self.bad and not any(one in config for one in self.bad)
        status = {
            "pid": self.pid,
            "config_sha256": hashlib.sha256(config.encode()).hexdigest(),
            "state": "serving" if good else "refused",
            "problem": None if good else "it can't",
            "resources": {},
        }
        self.files[STATUS] = json.dumps(status)


def parameters(digest: str, wait: int, **config: t.Any) -> t.Dict[str, t.Any]:
    return {
        "state": "started",
        "digest": digest,
        "config": config or None,
        "units": {
            UNIT: f"unit of {digest}",
            "gpu-mps.service": f"unit of MPS of {digest}",
            LABELS_UNIT: f"labels of {digest}",
            DRA_UNIT: f"driver of {digest}",
        },
        "labels": None,
        "allocation": "device_plugin",
        "dra": DRA,
        "configs": {},
        "prefix": PREFIX,
        "payload": "/tmp/payload.tar.gz",
        "wait_timeout": wait,
        "require_kubelet": False,
        "keep_releases": 2,
        "python": None,
        "install_python": False,
        "index_url": None,
        "lock_timeout": 300,
    }


def deploy(
    machine: AgentHost, digest: str, wait: int = 0, **config: t.Any
) -> DevicePluginCapability:
    """Bring a release and a configuration into force, as the module does."""
    return run(machine, parameters(digest, wait, **config))


def run(machine: AgentHost, params: t.Mapping[str, t.Any]) -> DevicePluginCapability:
    found = DevicePluginCapability(machine, params, check_mode=False)
    for step in found.plan(found.observe()).steps:
        found.apply(step)
    assert found.plan(found.observe()).steps == ()
    return found
