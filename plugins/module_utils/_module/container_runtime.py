# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.container_runtime."""

from __future__ import annotations

import json
import time
import typing as t

from .._core.containerd import Change, check_version, describe, needed, parse_version, section
from .._core.errors import NodeError
from .._core.steps import Plan, Step
from .._host import toml
from .._host.api import Host
from .interpreter import ensure_importable

RECORD = "/var/lib/gpu-node/container_runtime.json"
UNIT = "containerd.service"
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "runtime": {"type": "str", "choices": ["containerd"], "default": "containerd"},
        "mode": {"type": "str", "choices": ["cdi"], "default": "cdi"},
        "config_path": {"type": "path", "default": "/etc/containerd/config.toml"},
        "spec_dirs": {"type": "list", "elements": "path", "default": ["/etc/cdi", "/var/run/cdi"]},
        "backup": {"type": "bool", "default": False},
    },
    "supports_check_mode": True,
}


class Observed(t.NamedTuple):
    """The runtime: its version, its file, what it lacks, and whether it runs on an older file."""

    version: t.Tuple[int, ...]
    text: str
    changes: t.List[Change]
    stale: bool
    warnings: t.Tuple[str, ...]


class RuntimeCapability:
    """Lets containerd hand out devices through CDI."""

    name = "container_runtime"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any]) -> None:
        self._host = host
        self._path: str = params["config_path"]
        self._spec_dirs: t.List[str] = params["spec_dirs"]
        self._keep: bool = params["backup"]
        self._backup: t.Optional[str] = None

    def observe(self) -> Observed:
        """Read version, file, effective configuration and service."""
        host = self._host
        if host.which("containerd") is None:
            raise NodeError(
                "containerd is not installed", hint="install it, as for any Kubernetes node"
            )
        version = parse_version(host.run(["containerd", "--version"]).out)
        check_version(version)
        text = host.read(self._path) or ""
        config = toml.parse(text, self._path)
        cri = section(config, version)
        changes = needed(self._effective(self._path if text else None), cri, self._spec_dirs)
        warnings = []
        if "cri" in config.get("disabled_plugins", ()):
            warnings.append(f"{self._path} disables the CRI plugin, which the kubelet needs")
        return Observed(version, text, changes, self._stale(), tuple(warnings))

    def _effective(self, path: t.Optional[str]) -> t.Dict[str, t.Any]:
        """Return what containerd makes of a file and its imports."""
        words = ["containerd", *(["--config", path] if path else []), "config", "dump"]
        return toml.parse(self._host.run(words).out, "containerd config dump")

    def _stale(self) -> bool:
        """Tell whether containerd has run since before an edit of ours."""
        record = json.loads(self._host.read(RECORD) or "{}")
        words = ["systemctl", "show", UNIT, "--property=ActiveState,ActiveEnterTimestampMonotonic"]
        lines = self._host.run(words, check=False).out.splitlines()
        service = dict(line.split("=", 1) for line in lines if "=" in line)
        if not record or service.get("ActiveState") != "active":
            return False
        started = int(service.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
        return float(record["edited_at"]) > time.time() - time.monotonic() + started

    def plan(self, state: Observed) -> Plan:
        """Plan the edit; the restart is the caller's."""
        restart = (UNIT,) if state.changes or state.stale else ()
        if not state.changes:
            return Plan((), restart_required=restart, warnings=state.warnings)
        words = f"set {describe(state.changes)} in {self._path}"
        step = Step(
            "edit", words, {"changes": state.changes, "text": state.text}, (f"restart:{UNIT}",)
        )
        return Plan((step,), *self._diff(state), restart_required=restart, warnings=state.warnings)

    def _diff(self, state: Observed) -> t.Tuple[str, str]:
        try:
            return state.text, self._edited(state.text, state.changes)
        except ImportError:  # a fresh node in check mode: show the keys instead of the file
            lines = [f"{'.'.join(path)} = {json.dumps(value)}\n" for path, value in state.changes]
            return "", "".join(lines)

    @staticmethod
    def _edited(text: str, changes: t.Sequence[Change]) -> str:
        return toml.edit(text or "version = 2\n", changes)

    def apply(self, step: Step) -> None:
        """Write the file once containerd itself has found it good."""
        if not ensure_importable("tomlkit"):
            raise NodeError(
                "tomlkit is not on the node",
                hint="install the environment first (gpu.node.device_plugin)",
            )
        text = self._edited(step.params["text"], step.params["changes"])
        trial = f"{self._path}.gpu-node-trial"
        self._host.write(trial, text, mode=0o600)
        try:
            self._effective(trial)
        finally:
            self._host.remove(trial)
        self._host.write(
            RECORD, json.dumps({"config": self._path, "edited_at": time.time()}) + "\n", mode=0o644
        )
        self._backup = self._host.write(self._path, text, backup=self._keep)
        left = needed(
            self._effective(self._path),
            section(toml.parse(text, self._path), (2,)),
            self._spec_dirs,
        )
        if left:
            raise NodeError(
                f"containerd still does not have {describe(left)}",
                cause=f"a file that {self._path} imports sets it otherwise",
                hint="look at 'imports' in the file, and change or remove the setting there",
            )

    def result(self, state: Observed, plan: Plan) -> t.Dict[str, t.Any]:
        """Report the runtime."""
        return {
            "runtime_version": ".".join(map(str, state.version)),
            "config_path": self._path,
            "backup_file": self._backup,
        }
