# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.nvidia_driver: its parts, and which of them carries out which step."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import replace

from .._base import distributions
from .._base.errors import OLD_LISTS, NodeError, checked_timeout
from .._base.packages.presets import DRIVER_PRESETS
from .._base.packages.repository import followed
from .._base.services.driver import FABRIC_SERVICE, SERVICE
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.own_files import RECORDS, OwnFiles
from .._machine.packages.apt_sources import OWN_SOURCES
from .._node.gpu_record import ACTION as GPUS
from .._node.gpu_record import PATH as GPU_RECORD
from .._node.machine import facts as nodeinfo
from .._node.machine.recorded import Additions, named, package_manager
from .._node.quarantine import TRUSTED
from .branches import BY_LISTS, NO_VERSION
from .desired import AUTO, ChosenSource, choose_source, has_run, named_source, parse_desired
from .facts import DriverState
from .family import load_family
from .kernel.device_nodes import FILES as DEVICE_NODES
from .kernel.persistence import ACTION as PERSISTENCE_MODE
from .kernel.persistence import DROP_IN
from .machine import initramfs
from .machine.facts import history, observe_node
from .machine.gate import Gate, blockers
from .machine.gpu_record import GpuRecord
from .machine.loading import Loading
from .machine.packages import FeasiblePlans, PackageFacts, Packages
from .machine.persistence import PersistenceModes
from .machine.sources import (
    Node,
    Params,
    Runfile,
    WrittenSources,
    known_repository,
    nvidias,
    reach,
)
from .module_options.in_force import MODPROBE_FILE
from .packages import adoption
from .packages.names import PLACE
from .plan import changes_modprobe, disrupts, plan, replaces
from .record import Record
from .report import facts, installed, releases

if t.TYPE_CHECKING:
    from .machine.streams import ModuleStreams

# Those after which NVML may answer that did not before.
STARTS = frozenset({"load", "reload", "device_nodes", "persistence"})
# Those after which persistence mode may be off, or be turned off at the next start of the daemon.
ENDS_PERSISTENCE = frozenset({"install", "load", "reload", "persistence"})
DATA = "/var/lib/gpu-node"
RECORD = f"{DATA}/nvidia_driver.json"


class DriverCapability:
    """Keeps the driver of a node installed, held at its version and loaded."""

    name = "nvidia_driver"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        values = dict(params)
        timeout, gpus = checked_timeout(values.pop("lock_timeout")), values.pop("gpus", None)
        absent, gpu_count = values["state"] == "absent", values.pop("gpu_count")
        busy = {name: values.pop(name) for name in Gate.OPTIONS}
        self._gate = Gate(host, busy, absent=absent, check_mode=check_mode)
        options = (values[name] for name in ("source", "repository", "runfile"))
        values["source"] = named_source(*options)
        if (values["state"], values["source"]) == ("present", "repository"):
            values["repository"] = named(host, values["repository"], DRIVER_PRESETS)
        self._desired = parse_desired(values)
        self._check_mode = check_mode
        self._warnings: t.Tuple[str, ...] = ()
        self._source = ChosenSource(values["source"], NO_VERSION)
        self._begun = False
        self._release = nodeinfo.os_release(host)
        codename = distributions.release(self._release)
        known = distributions.supported(self._release.get("ID", ""), codename)
        self._known = known is not None
        family = load_family(known.family if known else "")
        manager = package_manager(
            family.traits.name or "debian", host, timeout, "the driver", self.name
        )
        self._node = node = Node(host, family, manager, Additions(host, RECORD, Record))
        self._runfile = Runfile(node)
        self._sources, self._gpus = WrittenSources(node), GpuRecord(node, gpu_count)
        self._packages, self._loading = Packages(node, self._again), Loading(node)
        self._package_facts = PackageFacts(node)
        self._feasible = FeasiblePlans(node, self._packages, check_mode=check_mode)
        self._modes = PersistenceModes(node, gpus)
        self._actions: t.Dict[str, t.Callable[[Params], None]] = {
            "repair": self._packages.repair,
            "sources": self._packages.enable,
            "refresh": lambda _params: node.refresh(),
            "repository": functools.partial(node.added.write_repository, manager),
            "stream": self._enable_stream,
            "adopt": self._packages.adopt,
            "install": self._packages.install,
            "hold": self._packages.hold,
            "runfile": self._runfile.install,
            "uninstall": self._uninstall,
            "modprobe": self._loading.configure,
            "load": self._loading.load,
            "reload": self._loading.reload,
            "device_nodes": self._loading.make_nodes,
            "persistence": functools.partial(self._loading.enable, SERVICE),
            PERSISTENCE_MODE: self._modes.apply,
            "fabric": functools.partial(self._loading.enable, FABRIC_SERVICE),
            "remove": self._remove,
            GPUS: self._gpus.apply,
        }

    @functools.cached_property
    def _streams(self) -> ModuleStreams:
        """Streams of dnf's module, loaded where they are used: what a module loads is compiled on the node."""
        from .machine.streams import ModuleStreams

        return ModuleStreams(self._node)

    def _enable_stream(self, params: Params) -> None:
        self._streams.enable(params)

    def _again(self) -> t.Sequence[Step]:
        self._node.refresh()
        return self.plan(self.observe()).steps

    def observe(self) -> DriverState:
        """Read the node: the machine, and what each part knows."""
        repository, options = self._desired.source.repository, self._desired.kernel.module_options
        state = observe_node(self._node, self._release, repository, options)
        users = self._gate.services.users() if state.loaded.driver else ()
        state = state.with_loaded(users=users)
        if (self._desired.state, self._desired.source.name) == ("present", AUTO):
            state = self._choose_source(state)
        desired, present = self._desired, self._desired.state == "present"
        self._node.advice = adoption.advice(
            state.machine.traits, desired.adopt, desired.source.name
        )
        state = state.with_software(runfile=self._runfile.observe(desired.source.runfile))
        if self._known and not (present and desired.source.name == "preinstalled"):
            if present and desired.update and not (desired.source.runfile or self._node.refreshed):
                # They are no state of the node: dnf and zypper fetch them again by themselves when they are old.
                self._node.preview_lists() if self._check_mode else self._node.refresh()
                state = replace(state, history=history(self._node))
            state = self._package_facts.observe(state, desired)
            in_order = state.machine.traits.apt or not state.software.unfinished
            if not present and state.history.record and in_order:
                state = self._package_facts.removal(state)
            if state.machine.traits.module:
                state = self._streams.observe(state, desired)
            service, fabric = self._loading.services(nvswitch=state.machine.nvswitch)
            state = state.with_loaded(service=service, fabric=fabric)
            if present and desired.kernel.persistence and state.loaded.driver:
                state = state.with_loaded(persistence=self._modes.observe(service))
        changes = changes_modprobe(state, desired)
        looked = initramfs.looked_into(self._node.host, state.loaded.modules, changes=changes)
        state = state.with_loaded(modules=looked)
        if not (present and desired.kernel.load and state.machine.gpus):
            return state
        nodes = self._loading.nodes(loaded=bool(state.loaded.driver))
        return state.with_loaded(device_nodes=nodes)

    def _choose_source(self, state: DriverState) -> DriverState:
        """Choose the source that fits the node, by its packages unless a run has begun."""
        known = state
        if self._known and not has_run(state):
            known = state.with_software(packages=self._node.manager.packages())
        source = choose_source(known, self._desired, functools.partial(nvidias, self._node))
        if source.fresh and source.repository:
            reach(self._node, source.repository, source.why)
        self._source = source
        desired = replace(self._desired.source, name=source.name, repository=source.repository)
        self._desired = replace(self._desired, source=desired, version=source.version)
        return state.with_software(repository=known_repository(self._node, source.repository))

    def own(self, state: DriverState) -> OwnFiles:
        """Return the files that only root may write."""
        foreign = {
            state.software.foreign_sources,
            MODPROBE_FILE if state.loaded.modules.foreign else "",
        }
        shared = tuple(path for path in (OWN_SOURCES, MODPROBE_FILE) if path not in foreign)
        paths = (RECORD, RECORDS, GPU_RECORD, *shared, *PLACE.paths, *DEVICE_NODES)
        paths += (DROP_IN,) if state.history.record.persistence_mode else ()
        there = paths if self._desired.state == "present" else ()
        return OwnFiles(
            self._node.host,
            {**dict.fromkeys(there, 0o644), **(TRUSTED if there else {})},
            (DATA,) if there else (),
            RECORD,
            tuple(path for path in (MODPROBE_FILE, *DEVICE_NODES) if path not in foreign),
            ", or run with adopt: true, which takes the packages that are installed into a new one",
        )

    def plan(self, state: DriverState) -> Plan:
        """Return the plan; warnings of earlier plans of this run are kept."""
        try:
            planned = self._previewed(self._undisturbed(state))
        except NodeError as error:
            if self._check_mode and not self._node.refreshed and isinstance(error, BY_LISTS):
                # In a real run a step before would have fetched the lists.
                if not self._node.preview_lists():
                    error.until = OLD_LISTS
                    raise
            elif not self._falls_back(error):
                cause, hint = state.history.explain(())
                if cause and isinstance(error, BY_LISTS):
                    error.cause, error.hint = f"{error.cause}; {cause}", hint
                raise
            return self.plan(self.observe())
        warnings = (*self._warnings, *planned.warnings, *self._node.manager.warnings)
        self._warnings = tuple(dict.fromkeys(warnings))
        return replace(planned, steps=self._source.explain(planned.steps), warnings=self._warnings)

    def _previewed(self, planned: Plan) -> Plan:
        """Return the plan with what comes once its sources are written, which check mode tries aside."""
        written = [step for step in planned.steps if step.action in ("repository", "sources")]
        if not self._check_mode or not written or self._node.previewed:
            return planned
        self._node.preview_sources(written)
        return followed(planned, self._undisturbed(self.observe()))

    def _undisturbed(self, state: DriverState) -> Plan:
        """Return the plan with the step that records the GPUs, and with stops and starts of services around it."""
        spared = self._spared(state)
        absent = self._desired.state == "absent"
        actions = [step.action for step in spared.steps]
        steps = (*spared.steps, *self._gpus.steps(state.machine, actions, absent=absent))
        planned = replace(spared, steps=steps)
        if disrupts(planned) or self._gate.services.unsettled:
            planned = self._gate.services.around(planned)
        return planned

    def _falls_back(self, error: NodeError) -> bool:
        """Choose the distribution's driver if the repository was chosen here, and return whether that is so."""
        was_added = self._node.previewed or self._sources.take_back()
        if not (was_added and self._source.fresh and self._source.chose_version):
            return False
        self._node.end_preview()
        version, why = self._source.version, self._source.why
        self._warnings += (
            f"source: auto has chosen branch {version} of NVIDIA's repository, as {why}, which does not have it "
            f"({error.cause}): the distribution's driver is taken. Next step: set nvidia_driver_source and "
            "nvidia_driver_version to what you want",
        )
        self._source = ChosenSource("distribution", NO_VERSION, why=why)
        desired = replace(self._desired.source, name="distribution", repository=None)
        self._desired = replace(self._desired, source=desired, version=NO_VERSION)
        return True

    def _spared(self, state: DriverState) -> Plan:
        """Return the plan for an idle driver, or as much of it as is possible while GPUs are in use."""
        result = self._feasible.plan(state.with_loaded(users=()), self._desired)
        whole = self._whole(result, state)
        if state.loaded.driver is None or not (disrupts(whole) or whole.reboot_required):
            return result
        if disrupts(whole):
            self._gate.services.check()
        busy, notes = self._gate.look(state)
        if not blockers(busy):
            return replace(result, warnings=(*result.warnings, *notes))
        busy = self._gate.wait(whole, busy)
        if not blockers(busy):
            return self._spared(self.observe())
        refused = self._gate.refuse(whole, busy)
        return refused or self._gate.about(self._feasible.plan(busy, self._desired), busy, notes)

    def _whole(self, known: Plan, state: DriverState) -> Plan:
        """Return the plan with the steps that follow once the known ones are carried out, as check mode plans them."""
        if not known.more or self._check_mode or state.loaded.driver is None:
            return known
        try:
            idle = state.with_loaded(users=())
            return plan(self._node.family, idle, self._desired, check_mode=True)
        except NodeError:
            return known  # it is known once the lists are there

    def apply(self, step: Step) -> None:
        """Carry out one step; before the first that replaces the driver, GPU users are looked for once more."""
        if replaces(Plan((step,))) and not self._begun:
            self._gate.last_look()
            self._begun = True
        if self._desired.state == "absent":
            self._node.undone = self._node.undone or self._node.added.record
        if step.action in self._actions:
            self._actions[step.action](step.params)
        else:
            self._gate.services.apply(step)
        if step.action in ENDS_PERSISTENCE and self._desired.kernel.persistence:
            self._modes.turn_on()
        if step.action in STARTS:
            self._gpus.identify()

    def _uninstall(self, params: Params) -> None:
        """Have NVIDIA's uninstaller run, once what takes the driver's place is on the node."""
        if params.get("fetch"):
            self._packages.fetch(params["fetch"])
        self._runfile.uninstall(params)

    def _remove(self, params: Params) -> None:
        self._loading.disable(params)
        stays = params["stays"]
        self._packages.remove(params["packages"], params["back"], sources=not stays)
        added = self._node.added
        if added.record.stream and not stays:
            self._streams.forget()
        if added.record.repository and not stays:
            added.forget_repository(self._node.manager, PLACE.paths)
        if added.record.modprobe:
            initramfs.write(self._node.host, "", params["kernels"])
        if added.record.device_nodes:
            self._loading.remove_nodes()
        if added.record.persistence_mode:
            self._modes.forget()
        added.forget()
        self._gpus.apply({})
        self._gate.services.forget()

    def result(self, state: DriverState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report versions."""
        known = {
            *state.software.names.relevant,
            *self._desired.components,
            *state.history.record.adopted_versions,
        }
        return {
            "refused": plan.refused,
            "source": self._source.name,
            "source_reason": self._source.why,
            "installed_version": installed(state) or None,
            **releases(self._node.family, state, self._desired, plan.after["packages"]),
            "loaded_version": state.loaded.driver.version if state.loaded.driver else None,
            "loaded_module_type": state.loaded.driver.module_type if state.loaded.driver else None,
            "dkms": [build.describe() for build in state.loaded.dkms],
            "node": facts(state),
            "packages": state.software.there(sorted(known)),
        }
