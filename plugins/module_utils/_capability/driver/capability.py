# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.nvidia_driver."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._core.driver import branches as driver_branches
from ..._core.driver import record as driver_record
from ..._core.driver import repository as driver_repository
from ..._core.driver import runfile as driver_runfile
from ..._core.driver.facts import facts
from ..._core.driver.kernel import parse_options
from ..._core.driver.packages import names as driver_names
from ..._core.driver.plan import FABRIC_SERVICE, SERVICE, plan
from ..._core.driver.record import Record
from ..._core.driver.report import headers_package
from ..._core.driver.select import Desired, Observed, check_components, flavour
from ..._core.errors import NodeError
from ..._core.packages.apt import upstream
from ..._core.packages.package import Package, still_there
from ..._core.packages.transaction import Change, Simulation
from ..._core.steps import Plan, Step
from ..._host.api import Host
from ..._host.packages.apt import OWN_SOURCES
from ..._host.packages.families import checked_timeout, package_manager
from ..._host.systemd import properties
from ..nodeinfo import (
    bridges,
    firmware_versions,
    gpu_users,
    library_versions,
    loaded_driver,
    pci_devices,
)
from ..recorded import Recorded
from .kernel import as_result, build_error, building, dkms, modules, write_modprobe
from .repository import RepositorySteps, existing
from .rollback import carry_out
from .runfile import RunfileSteps, installed
from .signing import signing_key
from .streams import StreamSteps

RECORD = "/var/lib/gpu-node/nvidia_driver.json"
# What one flavour of the kernel modules leaves behind may go with it; nothing else may.
KERNEL_PREFIXES = ("nvidia-kernel-", "nvidia-open-kernel-")
# In the order in which the kernel lets go of them.
MODULES = ("nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nvidia_uvm", "nvidia")
PURPOSE = "the driver"


class DriverCapability(Recorded[Record], RepositorySteps, RunfileSteps, StreamSteps):
    """Keeps the driver of a node installed, held at its version and loaded."""

    name = "nvidia_driver"
    record_path = RECORD
    _load_record = staticmethod(driver_record.load)

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        values = dict(params)
        self._timeout = checked_timeout(values.pop("lock_timeout"))
        values["runfile"] = driver_runfile.parse(
            values["runfile"], values["source"], values["version"], values["state"]
        )
        self._host, self._check_mode = host, check_mode
        self._manager = package_manager("debian", host, self._timeout, PURPOSE)
        values["components"] = tuple(values["components"])
        values["repository"] = driver_repository.parse(values["repository"], values["source"])
        values["module_options"] = parse_options(values["module_options"])
        self._desired = Desired(**values)
        self._refreshed, self._note, self._reload_note = False, "", ""
        self._warnings: t.Tuple[str, ...] = ()

    @property
    def _only_checked(self) -> bool:
        return self._desired.state == "present" and self._desired.source == "preinstalled"

    # --- observe ---

    def observe(self) -> Observed:
        """Read the node, with three commands."""
        host = self._host
        release = _release(host.read("/etc/os-release") or "")
        distribution = release.get("ID", "unknown")
        kernel = (host.read("/proc/sys/kernel/osrelease") or "").strip()
        driver = loaded_driver(host)
        devices = pci_devices(host)
        record = self._record()
        bridged = any(one.kind == "gpu" for one in devices) and bool(bridges(host))
        observed = Observed(
            distribution=distribution,
            codename=driver_names.release(release),
            title=release.get("PRETTY_NAME", distribution),
            kernel=kernel,
            headers=host.exists(f"/lib/modules/{kernel}/build"),
            gpus=tuple((one.address, one.architecture) for one in devices if one.kind == "gpu"),
            nvswitch=bridged or any(one.kind == "nvswitch" for one in devices),
            bridged=bridged,
            libraries=library_versions(host),
            firmware=firmware_versions(host, kernel),
            packages={},
            policies={},
            interrupted=False,
            loaded=(driver.version, driver.flavour) if driver else None,
            nouveau=host.exists("/sys/module/nouveau"),
            signing_key=signing_key(host),
            runfile=installed(host, self._desired.runfile),
            service={},
            sources=(),
            own_sources=host.read(OWN_SOURCES),
            repository=existing(host),
            record=record,
            foreign_installer=host.exists(driver_runfile.UNINSTALLER),
            smi=host.which("nvidia-smi") is not None,
            refreshed=self._refreshed,
            refresh_note=self._note,
            users=gpu_users(host) if driver else (),
            reload_note=self._reload_note,
            modules=modules(host, self._desired.module_options, added=record.modprobe),
            dkms=dkms(host),
        )
        names = driver_names.known(distribution)
        if self._only_checked:
            return observed
        if names is None or observed.codename not in names.releases:
            return observed
        self._manager = package_manager(names.family, host, self._timeout, PURPOSE)
        return self._with_packages(dataclasses.replace(observed, names=names))

    def _with_packages(self, observed: Observed) -> Observed:
        """Add what dpkg, apt and systemd know."""
        absent = self._desired.state == "absent"
        packages = self._manager.packages()
        observed = dataclasses.replace(observed, packages=packages)
        observed = self._with_names(self._with_repository(observed))
        observed = dataclasses.replace(observed, streams=self._streams(observed))
        known = observed.names
        if not absent and self._desired.components:
            check_components(known, self._desired.components, persistence=self._desired.persistence)
        names = sorted({*known.relevant, *self._desired.components, headers_package(observed)})
        names = [name for name in names if driver_names.NO_BRANCH not in name]
        observed = dataclasses.replace(
            observed,
            policies={} if absent or self._desired.runfile else self._manager.policies(names),
            interrupted=self._manager.interrupted(),
            service=self._unit(SERVICE),
            fabric=self._unit(FABRIC_SERVICE) if observed.nvswitch else {},
            sources=self._manager.sources(),
        )
        if not absent or not observed.record or observed.unfinished:
            return observed
        ours = still_there(observed.record.packages, packages)
        return dataclasses.replace(observed, removal=self._manager.removal(ours))

    def _unit(self, name: str) -> t.Dict[str, str]:
        return properties(self._host, name, "ActiveState", "UnitFileState")

    def _with_names(self, observed: Observed) -> Observed:
        family, wanted = observed.names.family, self._desired
        present = wanted.state == "present" and not wanted.runfile
        if family == "suse":
            names = self._suse_names(observed) if present else observed.names
        elif wanted.source == "repository" and present:
            names = self._repository_names(observed)
        else:
            names = self._ubuntu(observed) if family == "ubuntu" else observed.names
        return dataclasses.replace(observed, names=self._fabric_names(observed, names))

    def _ubuntu(self, observed: Observed) -> driver_names.Names:
        """Return the names in Ubuntu, where they depend on what is offered and asked for."""
        if self._desired.state == "absent" or self._desired.runfile:
            there = tuple(observed.packages)
            branch = driver_names.ubuntu_branch((), "", there)
            return driver_names.ubuntu(branch, (), observed.kernel)
        kind = flavour(self._desired.kernel_modules, observed.gpus)
        branches = driver_names.ubuntu_branches(self._manager.known("nvidia-dkms-"), kind)
        there = tuple(name for name in observed.packages if observed.installed(name))
        able = driver_branches.able(branches, observed.gpus) or branches
        branch = driver_names.ubuntu_branch(able, self._desired.version, there)
        return driver_names.ubuntu(branch, branches, observed.kernel)

    def plan(self, state: Observed) -> Plan:
        """Plan with pure functions; a warning of any plan of this run is kept to its end."""
        found = plan(state, self._desired, check_mode=self._check_mode)
        self._warnings = tuple(dict.fromkeys((*self._warnings, *found.warnings)))
        return dataclasses.replace(found, warnings=self._warnings)

    # --- apply ---

    def apply(self, step: Step) -> None:
        """Carry out one step."""
        getattr(self, f"_{step.action}")(step.params)

    def _repair(self, _params: t.Mapping[str, t.Any]) -> None:
        with building(self._host):
            self._manager.repair()

    def _sources(self, params: t.Mapping[str, t.Any]) -> None:
        self._remember(sources=True)
        self._host.write(OWN_SOURCES, params["text"], mode=0o644)

    def _refresh(self, _params: t.Mapping[str, t.Any]) -> None:
        self._note = self._manager.update()
        self._refreshed = True

    def _install(self, params: t.Mapping[str, t.Any]) -> None:
        try:
            self._install_once(params)
        except NodeError as error:
            if self._refreshed or " 404 " not in error.cause or "rolled_back" in error.details:
                raise
            # The lists are older than the mirror: what they name is gone from there.
            self._refresh({})
            for step in self.plan(self.observe()).steps:
                if step.action == "install":
                    self._install_once(step.params)

    def _install_once(self, params: t.Mapping[str, t.Any]) -> None:
        record = self._record()
        change = Change(params["packages"], params["remove"], params["pins"], record.holds)
        before = self._manager.packages()
        simulation = self._check_simulation(change, before)
        new = set(simulation.new)
        self._remember(
            packages=record.packages | new,
            requested=record.requested | (new & set(change.packages)),
        )
        ours = {*change.packages, *change.remove}
        replaces = bool(ours & {*simulation.changed, *simulation.removed})
        try:
            carry_out(self._host, self._manager, change, before=before, replaces=replaces)
        except NodeError as error:
            if error.details.get("rolled_back"):
                self._remember(packages=record.packages, requested=record.requested)
            raise

    def _check_simulation(self, change: Change, packages: t.Mapping[str, Package]) -> Simulation:
        """Return what would be done; refuse when others' packages would go or lose their hold."""
        record = self._record()
        simulation = self._manager.simulate(change)
        touched = {*simulation.new, *simulation.changed, *simulation.removed}
        held = [name for name in touched if name in packages and packages[name].held]
        foreign = sorted(set(held) - record.holds)
        lost = sorted(
            name
            for name in set(simulation.removed) - set(change.remove) - record.packages
            if not name.startswith(KERNEL_PREFIXES)
        )
        if foreign or lost:
            what = f"remove {', '.join(lost)}" if lost else f"change {', '.join(foreign)}, on hold"
            raise NodeError(
                f"the installation would {what}; nothing was changed",
                cause="apt sees no other way to the wanted versions",
                hint="release the hold, remove the package yourself, or ask for another version",
            )
        return simulation

    def _hold(self, params: t.Mapping[str, t.Any]) -> None:
        holds = self._record().holds
        if params["release"]:
            packages = self._manager.packages()
            held = [one for one in params["release"] if one in packages and packages[one].held]
            if held:
                self._manager.release(held)
            self._remember(holds=holds - set(params["release"]))
        if params["hold"]:
            self._remember(holds=(holds - set(params["release"])) | set(params["hold"]))
            self._manager.hold(params["hold"])

    def _modprobe(self, params: t.Mapping[str, t.Any]) -> None:
        self._remember(modprobe=True)
        write_modprobe(self._host, params["text"], params["kernels"])
        if not params["text"]:
            self._remember(modprobe=False)

    def _load(self, _params: t.Mapping[str, t.Any]) -> None:
        try:
            self._host.run(["modprobe", "nvidia"])
        except NodeError as error:
            kernel = (self._host.read("/proc/sys/kernel/osrelease") or "").strip()
            for one in dkms(self._host):
                if one.kernel == kernel and one.state == "failed":
                    raise build_error(self._host, one) from error
            error.hint = (
                "see 'dkms status' and the kernel's log: DKMS needs the headers of the running kernel, and "
                "Secure Boot a known key. Or set load to false"
            )
            raise

    def _reload(self, params: t.Mapping[str, t.Any]) -> None:
        """Exchange the modules; where the kernel does not let go of them, the next plan says so."""
        host = self._host
        loaded = [one for one in MODULES if one == "nvidia" or host.exists(f"/sys/module/{one}")]
        switches = bridges(host) or any(one.kind == "nvswitch" for one in pci_devices(host))
        units = (FABRIC_SERVICE, SERVICE) if switches else (SERVICE,)
        active = [
            one for one in units if host.run(["systemctl", "is-active", one], check=False).rc == 0
        ]
        for unit in active:
            host.run(["systemctl", "stop", unit])
        try:
            done = host.run(["rmmod", *loaded], check=False)
            if done.rc != 0:
                self._reload_note = done.err.strip() or f"rmmod failed with status {done.rc}"
            self._load(params)
            for name in reversed(loaded[:-1]):
                host.run(["modprobe", name], check=False)
        finally:
            for unit in reversed(active):
                host.run(["systemctl", "start", unit], check=False)

    def _persistence(self, params: t.Mapping[str, t.Any]) -> None:
        if not params["was_enabled"]:
            self._remember(service=True)
        self._enable(SERVICE, params, "or set persistence to false")

    def _fabric(self, params: t.Mapping[str, t.Any]) -> None:
        if not params["was_enabled"]:
            self._remember(fabric=True)
        self._enable(FABRIC_SERVICE, params, "it must be of exactly the driver's version")

    def _enable(self, unit: str, params: t.Mapping[str, t.Any], advice: str) -> None:
        words = ["enable", "--now"] if params["start"] else ["enable"]
        words = ["start"] if params["was_enabled"] else words
        try:
            self._host.run(["systemctl", *words, unit])
        except NodeError as error:
            error.hint = f"see 'journalctl -u {unit}', {advice}"
            raise

    def _remove(self, params: t.Mapping[str, t.Any]) -> None:
        if params["service"]:
            self._host.run(["systemctl", "disable", "--now", SERVICE])
        if params["fabric"]:
            self._host.run(["systemctl", "disable", "--now", FABRIC_SERVICE])
        if params["packages"]:
            self._manager.purge(params["packages"])
        if self._record().sources:
            self._host.remove(OWN_SOURCES)
        if self._record().stream:
            self._forget_stream()
        if self._record().repository:
            self._forget_repository()
        if self._record().modprobe:
            write_modprobe(self._host, "", params["kernels"])
        self._manager.clean()
        self._host.remove(RECORD)

    def result(self, state: Observed, plan: Plan) -> t.Dict[str, t.Any]:
        """Report versions."""
        found = next(filter(None, map(state.installed, state.names.user_space)), None)
        return {
            "installed_version": upstream(found) if found else state.runfile.version or None,
            "loaded_version": state.loaded[0] if state.loaded else None,
            "loaded_flavour": state.loaded[1] if state.loaded else None,
            "dkms": as_result(state.dkms),
            "node": facts(state),
            "packages": {
                name: package.version
                for name, package in sorted(state.packages.items())
                if package.installed and name in {*state.names.relevant, *self._desired.components}
            },
        }


def _release(text: str) -> t.Dict[str, str]:
    pairs = (line.split("=", 1) for line in text.split("\n") if "=" in line)
    return {key: value.strip().strip("\"'") for key, value in pairs}
