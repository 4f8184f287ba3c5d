# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.device_plugin."""

from __future__ import annotations

import dataclasses
import hashlib
import time
import typing as t

from ..._core.agent import mps_units, visible_devices
from ..._core.agent.deployment import UNIT, Desired, Observed, plan, serving
from ..._core.agent.index_url import checked
from ..._core.agent.labels import CONFIG, compose
from ..._core.errors import NodeError
from ..._core.gpu import NvmlError
from ..._core.steps import Plan, Step
from ..._core.text import json_data
from ..._host.api import Host
from ..._host.packages.families import checked_timeout
from ..._host.systemd import instances, properties
from ..._nvml.real import open_nvml
from ..nodeinfo import environment
from . import venv_package
from .labels import OPTIONS, NodeLabels, text_of
from .release import fill
from .rollback import Rollback

UNIT_FILE = f"/etc/systemd/system/{UNIT}"
MPS_UNIT_FILE = f"/etc/systemd/system/{mps_units.UNIT}"
STATUS = "/run/gpu-node/status.json"
HEALTH = "/run/gpu-node/health.json"
CDI_FOLDER, CDI_PREFIX = "/run/cdi", "k8s.device-plugin.nvidia.com-"
KUBELET = "/var/lib/kubelet/device-plugins/kubelet.sock"
PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(14, 9, -1)))
KNOWN = "import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))"  # those with wheels
HAS_ENSUREPIP = "import ensurepip, venv"
LOOK_SECONDS, LOOK_AGAIN_SECONDS = 0.05, 1.0
CRASHES = 3  # so many starts that fail at once are no delay but a fault
SPEC: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {
            "type": "str",
            "choices": ["absent", "installed", "started", "stopped"],
            "default": "started",
        },
        "package": {"type": "path"},
        "wheelhouse": {"type": "path"},
        "index_url": {"type": "str", "no_log": True},
        "config": {"type": "dict"},
        "prefix": {"type": "path", "default": "/opt/gpu-node"},
        "python": {"type": "path"},
        "wait_timeout": {"type": "int", "default": 60},
        "lock_timeout": {"type": "int", "default": 300},
        "keep_releases": {"type": "int", "default": 2},
        "digest": {"type": "str"},
        "unit": {"type": "str"},
        "mps_unit": {"type": "str"},
        "payload": {"type": "path"},
        **OPTIONS,
    },
    "supports_check_mode": True,
}


class DevicePluginCapability:
    """Keeps the device plugin installed, configured and serving."""

    name = "device_plugin"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._params, self._check_mode = host, params, check_mode
        self._prefix: str = params["prefix"]
        self._index_url = checked(params["index_url"])
        self._timeout = checked_timeout(params["lock_timeout"])
        self._first: t.Optional[Observed] = None
        if params["state"] in ("installed", "started") and not params["digest"]:
            raise NodeError(
                "package: the daemon's source tree is missing",
                hint="give its path on the controller in the option package",
            )
        self._labels = NodeLabels(host, params, text_of(params["config"] or {"version": "v1"}))
        self._rollback = Rollback(host, self._prefix, self._labels.config_file, UNIT_FILE)
        self._desired = Desired(
            params["state"],
            params["digest"] or "",
            self._labels.default,
            params["unit"] or "",
            params["keep_releases"],
            params["mps_unit"] or "",
        )

    # --- observe ---

    def observe(self) -> Observed:
        """Read the environment, the files, the service and what the daemon says."""
        host = self._host
        current = (host.readlink(f"{self._prefix}/current") or "").rsplit("/", 1)[-1]
        usable = bool(current) and host.exists(f"{self._release(current)}/.complete")
        fresh = current != self._desired.digest or not usable
        python = self._python() if fresh and self._desired.digest else ""
        service = properties(host, UNIT, "ActiveState", "UnitFileState", "MainPID", "NRestarts")
        observed = Observed(
            python=python,
            ensurepip=not python or host.run([python, "-c", HAS_ENSUREPIP], check=False).rc == 0,
            apt=host.which("apt-get") is not None,
            current=current,
            releases=tuple(host.listdir(f"{self._prefix}/releases")),
            usable=usable,
            config=self._labels.read_config(),
            unit=host.read(UNIT_FILE),
            service=service,
            running=self._running(service),
            status=self._status(service),
            config_digest=hashlib.sha256((host.read(CONFIG) or "").encode()).hexdigest(),
            kubelet=host.exists(KUBELET),
            devices=self._devices() if self._desired.state == "started" and not fresh else None,
            mps_unit=host.read(MPS_UNIT_FILE),
            mps=self._mps() if self._desired.state in ("absent", "stopped") else (),
            labels=self._labels.observe(),
        )
        self._first = self._first or observed
        return observed

    def _mps(self) -> t.Tuple[mps_units.Daemon, ...]:
        host, found = self._host, []
        for device in instances(host, mps_units.UNIT):
            asked = mps_units.settings(*map(host.read, mps_units.files(device)))
            state = host.read(f"{asked.root}/{device}.json")
            found.append(mps_units.daemon(device, asked, state))
        return tuple(found)

    def _release(self, digest: str) -> str:
        return f"{self._prefix}/releases/{digest}"

    def _python(self) -> str:
        for name in [self._params["python"]] if self._params["python"] else PYTHONS:
            if self._host.which(name) and self._host.run([name, "-c", KNOWN], check=False).rc == 0:
                return name
        return ""

    def _running(self, service: t.Mapping[str, str]) -> str:
        """Return the release that the main process was started from."""
        return environment(self._host, service).get("GPU_NODE_RELEASE", "")

    def _status(self, service: t.Mapping[str, str]) -> t.Dict[str, t.Any]:
        """Return the daemon's status, if it is that of the process that runs."""
        try:
            status = json_data.loads(self._host.read(STATUS) or "{}")
        except ValueError:
            return {}
        its = isinstance(status, dict) and str(status.get("pid")) == service.get("MainPID")
        return t.cast(t.Dict[str, t.Any], status) if its else {}

    @staticmethod
    def _devices() -> t.Optional[t.FrozenSet[str]]:
        """Return the UUIDs of GPUs and MIG devices, None where NVML cannot be asked."""
        try:
            with open_nvml() as nvml:
                gpus = nvml.gpus()[0]
                migs = [one.uuid for gpu in gpus for one in nvml.mig_devices(gpu)]
                return frozenset([*(gpu.uuid for gpu in gpus), *migs])
        except NvmlError:
            return None

    # --- plan and apply ---

    def plan(self, state: Observed) -> Plan:
        """Plan; where the release must be made and its payload is not here, ask the action plugin for it."""
        found = plan(state, self._desired, self._prefix)
        if state.labels is not None:
            found = compose(found, state.labels, self._labels.desired)
        found = dataclasses.replace(found, warnings=found.warnings + self._warnings())
        missing = (
            any(step.action == "release" for step in found.steps) and not self._params["payload"]
        )
        if missing and not self._check_mode:
            hint = "run the module through ansible, whose action plugin sends it"
            raise NodeError(
                "the daemon's package is not on the node", hint=hint, payload_needed=True
            )
        return found

    def _warnings(self) -> t.Tuple[str, ...]:
        if self._desired.state != "started":
            return ()
        toolkit = self._host.read(visible_devices.TOOLKIT_CONFIG)
        configs = {"config": self._params["config"], **(self._params["configs"] or {})}
        found = {
            name: visible_devices.warning(visible_devices.strategies(one), toolkit)
            for name, one in configs.items()
        }
        return tuple(f"{name}: {text}" for name, text in found.items() if text)

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        if self._desired.state == "started" and self._first is not None:
            self._rollback.remember(self._first)
        if step.action.startswith("labels_"):
            self._labels.apply(step)
        else:
            getattr(self, f"_do_{step.action}")()

    def _do_venv_package(self) -> None:
        venv_package.install(self._host, self._timeout)

    def _do_release(self) -> None:
        """Make the release beside the one in use, then switch; a half-made one is begun anew."""
        host, release = self._host, self._release(self._desired.digest)
        host.remove(release)
        fill(host, release, self._python(), self._params["payload"], self._index_url)
        if self._desired.state == "started":
            self._check_config(release)  # before anything that is in use changes
        host.remove(f"{release}/payload")
        host.write(f"{release}/.complete", "")
        host.symlink(f"releases/{self._desired.digest}", f"{self._prefix}/current")
        host.symlink("current/bin", f"{self._prefix}/bin")
        self._prune()

    def _prune(self) -> None:
        """Remove old releases, but none that runs or may be put back."""
        host, folder = self._host, f"{self._prefix}/releases"
        kept = self._rollback.kept()
        running = self._running(properties(host, UNIT, "MainPID"))
        spared = {self._desired.digest, running, kept.release if kept else ""} - {""}
        others = [name for name in host.listdir(folder) if name not in spared]
        others.sort(key=lambda name: host.mtime(f"{folder}/{name}/.complete") or 0, reverse=True)
        for name in others[max(0, self._desired.keep_releases - len(spared)) :]:
            host.remove(f"{folder}/{name}")

    def _check_config(self, release: str) -> None:
        """Let a release's own parser judge the configuration before it is in force."""
        trial = f"{release}/config.trial"
        self._host.write(trial, self._desired.config, mode=0o644)
        try:
            done = self._host.run([f"{release}/bin/gpu-plugin", "check-config", trial], check=False)
        finally:
            self._host.remove(trial)
        if done.rc:
            words = (done.err or done.out).strip().replace(trial, CONFIG)
            raise NodeError("config: the daemon refuses it", cause=words)

    def _do_config(self) -> None:
        self._labels.write_config(self._labels.config_file, self._desired.config)

    def _do_unit(self) -> None:
        self._host.write(UNIT_FILE, self._desired.unit, mode=0o644)
        self._host.run(["systemctl", "daemon-reload"])

    def _do_mps_unit(self) -> None:
        self._host.write(MPS_UNIT_FILE, self._desired.mps_unit, mode=0o644)
        self._host.run(["systemctl", "daemon-reload"])

    def _do_enable(self) -> None:
        self._host.run(["systemctl", "daemon-reload"])
        self._host.run(["systemctl", "enable", UNIT])

    def _do_restart(self) -> None:
        self._host.run(["systemctl", "daemon-reload"])
        self._host.run(["systemctl", "restart", UNIT], check=False)
        self._do_wait()

    def _do_wait(self) -> None:
        try:
            self._wait()
        except NodeError as error:
            self._rollback.put_back(error, self._wait)
        self._rollback.forget()
        self._prune()

    def _wait(self) -> None:
        """Wait until the daemon serves and the kubelet has accepted all of it."""
        start = time.monotonic()
        observed = self.observe()
        crashes = int(observed.service.get("NRestarts") or 0) + CRASHES
        while serving(observed):
            if time.monotonic() - start >= self._params["wait_timeout"]:
                raise self._not_ready(f"after {self._params['wait_timeout']} s {serving(observed)}")
            if int(observed.service.get("NRestarts") or 0) >= crashes:
                raise self._not_ready("the daemon ends again and again")
            self._await_news()
            observed = self.observe()

    def _await_news(self) -> None:
        """Wait for the daemon to say something else, for a second at most."""
        before, deadline = self._host.mtime(STATUS), time.monotonic() + LOOK_AGAIN_SECONDS
        while self._host.mtime(STATUS) == before and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def _not_ready(self, why: str) -> NodeError:
        words = ["journalctl", "--unit", UNIT, "--lines", "15", "--no-pager", "--output", "cat"]
        said = self._host.run(words, check=False).out.strip()
        return NodeError(
            why,
            cause=said or "the daemon has logged nothing",
            hint=f"see 'systemctl status {UNIT}' on the node",
        )

    def _do_stop(self) -> None:
        self._host.run(["systemctl", "disable", "--now", UNIT])

    def _do_remove_service(self) -> None:
        self._host.run(["systemctl", "disable", "--now", UNIT], check=False)
        self._host.remove(UNIT_FILE)
        self._host.run(["systemctl", "daemon-reload"])
        self._host.remove(HEALTH)
        for name in self._host.listdir(CDI_FOLDER):
            if name.startswith(CDI_PREFIX):
                self._host.remove(f"{CDI_FOLDER}/{name}")

    def _do_stop_mps(self) -> None:
        """End all daemons for good: one whose settings are there would only pause."""
        daemons = self._mps()
        for one in daemons:
            for path in mps_units.files(one.device):
                self._host.remove(path)
        self._host.run(["systemctl", "stop", *(one.unit for one in daemons)])

    def _do_remove_mps_unit(self) -> None:
        self._host.remove(MPS_UNIT_FILE)
        self._host.run(["systemctl", "daemon-reload"])

    def _do_remove_config(self) -> None:
        self._host.remove(CONFIG)

    def _do_remove_releases(self) -> None:
        self._host.remove(self._prefix)

    def result(self, state: Observed, plan: Plan) -> t.Dict[str, t.Any]:
        """Report what is served; say whether the payload has to come for the plan to be carried out."""
        resources = {
            name: {"devices": len(one["devices"]), "registered": one["registered"]}
            for name, one in state.status.get("resources", {}).items()
        }
        left = {"labels_left": self._labels.left} if self._labels.left else {}
        return {"release": state.current or None, "resources": resources, **left}
