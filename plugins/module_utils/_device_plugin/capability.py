# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.device_plugin."""

from __future__ import annotations

import dataclasses
import hashlib
import posixpath
import time
import typing as t
from functools import partial

from .._base import visible_devices
from .._base.dra.names import UNIT as DRA_UNIT
from .._base.errors import NodeError, checked_timeout
from .._base.gpu import NvmlError
from .._base.services import mps
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.nvml.real import open_nvml
from .._machine.own_files import OwnFiles
from .._machine.units import failure, properties_of, systemctl
from .._node.machine.facts import environment
from .._node.machine.mps import mps_daemons
from .._node.machine.recorded import existing
from . import held, registration
from .failures import of_check_config
from .machine import dra, status
from .machine.python import RECORD, VENV, Packages, find, missing, wheels
from .machine.release import (
    beside,
    check_prefix,
    checked,
    clear,
    complete,
    damage,
    fill,
    linked,
    publish,
    replacing,
)
from .machine.rollback import Rollback, tries
from .machine.status import STATUS, read_status
from .plan import LABELS_UNIT, UNIT, plan, serving
from .python import Missing
from .registration import KUBELET
from .resources import count
from .state import (
    CONFIG,
    CONFIGS,
    SETTINGS,
    UNITS,
    PluginFiles,
    PluginServices,
    PluginState,
    PythonState,
    ReleaseState,
    Service,
    ServingState,
    env_variables,
    parse_desired,
)

STATE = "/var/lib/gpu-device-plugin"
# The files that the daemon keeps for its next process.
KEPT = (
    *(f"/run/gpu-node/{name}" for name in ("health.json", "health.clear", "time_slices.json")),
    STATE,
)
CDI_FOLDER, CDI_PREFIX = "/run/cdi", "k8s.device-plugin.nvidia.com-"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
LOOK_SECONDS, LOOK_AGAIN_SECONDS = 0.05, 1.0
CRASHES = 3  # so many starts that fail at once are no delay but a fault


class DevicePluginCapability:
    """Keeps the device plugin installed, configured and serving, and the node labelled."""

    name = "device_plugin"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._params, self._check_mode = host, params, check_mode
        self._prefix: str = params["prefix"]
        self._index_url = checked(params["index_url"])
        self._timeout = checked_timeout(params["lock_timeout"])
        checked_timeout(params["wait_timeout"], "wait_timeout")
        if params["state"] in ("installed", "started") and not params["digest"]:
            hint = "give its path on the controller in the option package"
            raise NodeError("package: the device plugin's source tree is missing", hint=hint)
        self._desired = parse_desired(params)
        self._packages = Packages(host, self._timeout)
        self._rollback = Rollback(host, self._prefix, self._desired)
        self._first: t.Optional[PluginState] = None
        self._tries = False
        self._labels_left = ""
        # Actions that are one call, with the parameters of the step.
        self._calls: t.Mapping[str, t.Callable[..., t.Any]] = {
            "python": self._packages.install,
            "venv_package": partial(self._packages.install, "debian", VENV),
            "purge": self._packages.purge,
            "link": host.symlink,
            "clear": lambda path: clear(host, path),
            "links": partial(publish, host, self._prefix, self._desired.digest),
            "pause": lambda unit: dra.stop(host, unit, "stop"),
            "stop": lambda unit: dra.stop(host, unit, "disable", "--now"),
            "wait_dra": partial(dra.wait, host, self._service, params["wait_timeout"]),
        }

    # --- observe ---

    def observe(self) -> PluginState:
        """Read the environment, the files, the services and the daemon's status.

        Raises:
            InputError: if others may write below the prefix, whose programs root runs.
        """
        host, desired, packages = self._host, self._desired, self._packages
        if desired.digest:
            check_prefix(host, self._prefix, f"{UNITS}/{UNIT}")
        packages.check()
        current = (host.readlink(f"{self._prefix}/current") or "").rsplit("/", 1)[-1]
        unchanged = bool(current) and current == desired.digest
        damaged = damage(host, self._release(current)) if unchanged else ""
        fresh = current != desired.digest or bool(damaged)
        needed = fresh and bool(desired.digest)
        program = find(host, desired.python) if needed else ""
        can_make = [program, "-c", "import ensurepip, venv"]
        python = PythonState(
            program,
            ensurepip=not program or host.run(can_make, check=False).rc == 0,
            apt=host.which("apt-get") is not None,
            missing=missing(host, desired.python, self._timeout)
            if needed and not program
            else Missing(),
            removal=packages.removal() if desired.state == "absent" else None,
        )
        release = ReleaseState(
            current,
            tuple(host.listdir(f"{self._prefix}/releases")),
            damaged,
            linked(host, self._prefix),
            beside(host, self._prefix),
        )
        link, units = host.readlink(CONFIG), self._services(UNIT, LABELS_UNIT, mps.UNIT)
        dra_service = self._service(DRA_UNIT) if dra.is_deployed(host) else Service()
        services = PluginServices(units[UNIT], units[LABELS_UNIT], units[mps.UNIT], dra_service)
        serves = ServingState(
            read_status(host, services.daemon.properties),
            self._devices() if desired.state == "started" and not fresh else None,
            host.listens(KUBELET),
            status.pod(host),
            mps_daemons(host) if desired.state in ("absent", "stopped") else (),
        )
        digest = hashlib.sha256((host.read(CONFIG) or "").encode()).hexdigest()
        # The files that a deployment writes; a link to a configuration is none.
        paths = [*self._choices(), SETTINGS, *dra.FILES]
        paths += [f"{UNITS}/{unit}" for unit in (UNIT, mps.UNIT, LABELS_UNIT)]
        paths += [CONFIG] if link is None else []
        files = PluginFiles(existing(host, paths), link, digest)
        dra_state = dra.observe(host, desired, dra_service)
        state = PluginState(python, release, files, services, serves, dra_state)
        self._first = self._first or state
        return state

    def _service(self, unit: str) -> Service:
        return self._services(unit)[unit]

    def _services(self, *units: str) -> t.Dict[str, Service]:
        names = ("ActiveState", "UnitFileState", "NeedDaemonReload", "MainPID", "NRestarts")
        states = properties_of(self._host, units, *names)
        return {
            unit: Service(properties, environment(self._host, properties))
            for unit, properties in states.items()
        }

    def _choices(self) -> t.List[str]:
        """Return the configurations that a label can choose; hidden files are half-written ones."""
        names = self._host.listdir(CONFIGS)
        return [f"{CONFIGS}/{name}" for name in names if not name.startswith(".")]

    def _release(self, digest: str) -> str:
        return f"{self._prefix}/releases/{digest}"

    @staticmethod
    def _devices() -> t.Optional[t.FrozenSet[str]]:
        """Return the UUIDs of GPUs and MIG devices, None if NVML can't be asked."""
        try:
            with open_nvml() as nvml:
                gpus = nvml.gpus()[0]
                migs = [mig_device.uuid for gpu in gpus for mig_device in nvml.mig_devices(gpu)]
                return frozenset([*(gpu.uuid for gpu in gpus), *migs])
        except NvmlError:
            return None

    # --- plan and apply ---

    def plan(self, state: PluginState) -> Plan:
        """Return the plan.

        Raises:
            NodeError: if the plan makes a release and the action plugin has to send its payload first.
        """
        result, release = plan(state, self._desired, self._prefix), state.release
        warnings = [*result.warnings, *self._warnings(state)]
        if release.current == self._desired.digest and not release.damage:
            # The release in use refuses before the first change, or names devices that would wait.
            for step in result.steps:
                if step.action == "config":
                    warnings += self._check(step.params["path"], step.params["text"])
        self._tries = tries(result.steps)
        needed = any(step.action == "release" for step in result.steps)
        if needed and not (self._params["payload"] or self._check_mode):
            python = state.python
            raise NodeError(
                "the device plugin's package is not on the node",
                hint="run the module through ansible, whose action plugin sends it",
                payload_needed=wheels(self._host, python.program, python.missing.offered),
            )
        return dataclasses.replace(result, warnings=tuple(warnings))

    def _warnings(self, state: PluginState) -> t.Tuple[str, ...]:
        if self._desired.state == "absent" and state.release.beside:
            names = ", ".join(f"{self._prefix}/{name}" for name in state.release.beside)
            return (f"device_plugin: left alone, since the collection has not made it: {names}",)
        if self._desired.state != "started":
            return ()
        toolkit = self._host.read(visible_devices.TOOLKIT_CONFIG)
        configs = {"config": self._params["config"], **(self._params["configs"] or {})}
        texts = (
            (name, visible_devices.warning(visible_devices.strategies(config), toolkit))
            for name, config in configs.items()
        )
        return tuple(f"{name}: {text}" for name, text in texts if text)

    def own(self, state: PluginState) -> OwnFiles:
        """Return the files of ours."""
        if self._desired.state not in ("installed", "started"):
            return OwnFiles(self._host, record=RECORD)
        release = self._release(state.release.current)
        started = self._desired.state == "started"
        modes = dict.fromkeys((*state.files.texts, RECORD) if started else [RECORD], 0o644)
        modes[STATE] = 0o700
        folders = [self._prefix, f"{self._prefix}/releases", release, f"{release}/bin"]
        folders += [posixpath.dirname(STATUS), STATE, mps.FOLDER]
        folders += [posixpath.dirname(CONFIG), CONFIGS] if started else []
        modes[f"{release}/bin/gpu-plugin"] = 0o755
        return OwnFiles(self._host, modes, tuple(folders), RECORD)

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        if self._tries and self._first is not None:
            self._rollback.remember(self._first)
        work = self._calls.get(step.action) or getattr(self, f"_do_{step.action}")
        work(**step.params)

    def _do_release(self) -> None:
        """Make the release beside the one in use, then switch to it."""
        host, release = self._host, self._release(self._desired.digest)
        python, payload = find(host, self._desired.python), self._params["payload"]
        with replacing(host, release):
            fill(host, release, python, payload, self._index_url)
            if self._desired.state == "started":  # before anything that is in use changes
                path = self._desired.config_file
                self._check(path, self._desired.configs[path], release)
            host.remove(f"{release}/payload")
            complete(host, release)
        publish(host, self._prefix, self._desired.digest)
        self._prune()

    def _prune(self) -> None:
        """Remove old releases, but none that runs or may be restored."""
        host, folder = self._host, f"{self._prefix}/releases"
        proven = self._rollback.read()
        running = {self._service(unit).release for unit in (UNIT, mps.UNIT, DRA_UNIT)}
        spared = {self._desired.digest, *running, proven.release if proven else ""} - {""}
        surplus = [name for name in host.listdir(folder) if name not in spared]
        surplus.sort(key=lambda name: host.mtime(f"{folder}/{name}/.complete") or 0, reverse=True)
        for name in surplus[max(0, self._params["keep_releases"] - len(spared)) :]:
            host.remove(f"{folder}/{name}")

    def _check(self, path: str, text: str, release: str = "") -> t.Tuple[str, ...]:
        """Check a configuration with the parser of a release; return warnings about devices that would wait for pods.

        That of the release in use also checks the one in force against the node's devices.

        Raises:
            NodeError: if it is refused.
        """
        ours = path == self._desired.config_file  # the others are not used yet
        argv = [f"{release or self._prefix}/bin/gpu-plugin", "check-config", "-"]
        if ours and not release:
            argv.insert(2, "--node")
        completed = self._host.run(argv, check=False, stdin=text)
        if completed.rc:
            key = "config" if ours else f"configs: {posixpath.basename(path)}"
            cause = of_check_config(completed.err or completed.out, "standard input")
            raise NodeError(f"{key}: the device plugin refuses it", cause=cause, key=key)
        return held.expected(completed.out)

    def _do_config(self, path: str, text: str) -> None:
        host = self._host
        self._check(path, text)
        if path == CONFIG and host.readlink(path) is not None:
            host.remove(path)  # what it leads to is another configuration
        host.write(path, text, mode=0o644)

    def _do_file(self, path: str, text: str) -> None:
        if path == SETTINGS and env_variables(text).get("GPU_LABELS_OUTPUT") == "file":
            gfd = ((self._params["config"] or {}).get("flags") or {}).get("gfd") or {}
            self._host.makedirs(posixpath.dirname(gfd.get("outputFile") or FEATURES))
        self._host.write(path, text, mode=0o644)
        if path.startswith(UNITS):
            self._host.run(["systemctl", "daemon-reload"])

    def _do_remove(self, path: str) -> None:
        self._host.remove(path)
        if path.startswith(f"{CONFIGS}/") and not self._choices():
            self._host.remove(CONFIGS)
        if path.startswith(UNITS):
            self._host.run(["systemctl", "daemon-reload"])

    def _do_enable(self, unit: str) -> None:
        self._host.run(["systemctl", "daemon-reload"])
        self._host.run(["systemctl", "enable", unit])

    def _do_restart(self, unit: str) -> None:
        self._host.run(["systemctl", "daemon-reload"])
        completed = self._host.run(["systemctl", "restart", unit], check=False)
        if unit == UNIT:
            self._do_wait()
        elif completed.rc:
            raise failure(self._host, unit, f"{unit} does not start")
        elif unit == DRA_UNIT:
            self._calls["wait_dra"]()

    def _do_wait(self) -> None:
        try:
            self._wait()
        except NodeError as error:
            self._rollback.put_back(error, self._wait)
        self._rollback.forget()
        self._prune()

    def _wait(self) -> None:
        """Wait until the daemon serves and the kubelet has accepted all of it."""
        start, timeout = time.monotonic(), self._params["wait_timeout"]
        state = self.observe()
        crashes = _restarts(state) + CRASHES
        while serving(state):
            if time.monotonic() - start >= timeout:
                raise failure(self._host, UNIT, f"after {timeout} s {serving(state)}")
            if _restarts(state) >= crashes:
                raise failure(self._host, UNIT, "the device plugin ends again and again")
            self._await_news()
            state = self.observe()

    def _do_registration(self) -> None:
        """Wait until a kubelet has registered all resources."""
        start, timeout = time.monotonic(), self._params["wait_timeout"]
        while cause := _unregistered(self.observe()):
            if time.monotonic() - start >= timeout:
                raise registration.failure(cause, timeout)
            self._await_news()

    def _await_news(self) -> None:
        """Wait until the daemon writes its status again, for a second at most."""
        before, deadline = self._host.mtime(STATUS), time.monotonic() + LOOK_AGAIN_SECONDS
        while self._host.mtime(STATUS) == before and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def _do_unlabel(self, settings: str) -> None:
        """Remove our labels; a node that has left its cluster can't, which is no error."""
        self._host.run(["systemctl", "stop", LABELS_UNIT], check=False)
        argv = [f"{self._prefix}/bin/gpu-plugin", "labels", "--config", CONFIG, "--remove"]
        env = env_variables(settings)
        completed = self._host.run(argv, check=False, env=env, timeout=60.0)
        self._labels_left = (completed.err or completed.out).strip() if completed.rc else ""

    def _do_remove_service(self, unit: str, path: str) -> None:
        dra.stop(self._host, unit, "disable", "--now", check=False)
        self._do_remove(path)
        if unit == DRA_UNIT:
            dra.clean(self._host)
        if unit == UNIT:
            names = [name for name in self._host.listdir(CDI_FOLDER) if name.startswith(CDI_PREFIX)]
            for left in (*KEPT, *(f"{CDI_FOLDER}/{name}" for name in names)):
                self._host.remove(left)

    def _do_stop_mps(self) -> None:
        """End all MPS daemons: the manager does that, and ends, once there are no settings any more."""
        daemons, timeout = mps_daemons(self._host), self._params["wait_timeout"]
        for daemon in daemons:
            self._host.remove(mps.file(daemon.device))
        systemctl(self._host, "start", mps.UNIT)  # also if it was killed, to clean up
        start = time.monotonic()
        while self._service(mps.UNIT).active:
            if time.monotonic() - start >= timeout:
                raise NodeError(
                    f"after {timeout} s the MPS control daemons of {mps.names(daemons)} still run",
                    cause="clients came meanwhile, or have longer to end (drain in sharing.mps)",
                    hint="see gpu-plugin mps status on the node, end its clients, and run again",
                )
            time.sleep(LOOK_AGAIN_SECONDS)

    def result(self, state: PluginState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report the resources that are served, and why none is registered."""
        resources = {
            name: {"devices": count(resource), "registered": resource["registered"]}
            for name, resource in state.serving.status.get("resources", {}).items()
        }
        left = {"labels_left": self._labels_left} if self._labels_left else {}
        cause = _unregistered(state)
        missing = {"registration_missing": registration.warning(cause) if cause else ""}
        return {"release": state.release.current or None, "resources": resources, **missing, **left}


def _unregistered(state: PluginState) -> str:
    return registration.missing(state.serving.status, listens=state.serving.kubelet)


def _restarts(state: PluginState) -> int:
    return int(state.services.daemon.properties.get("NRestarts") or 0)
