# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.settings: each GPU is read, compared with the rules, and set."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import typing as t

from .._base.boot import BootState as Boot
from .._base.errors import NodeError, checked_timeout
from .._base.gpu import CLOCKS, COMPUTE, NOT_SUPPORTED, Gpu, NvmlError, SettingsTold, Value
from .._base.services import mps
from .._base.services.driver import SERVICE
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.nvml.real import Nvml, open_nvml
from .._machine.nvml.settings import set_to, settings
from .._machine.own_files import OwnFiles
from .._machine.units import properties
from .._node.machine import boot, nvml_start
from .._node.machine.facts import driver_load
from .._node.machine.quarantine import QuarantineFile
from .._node.quarantine import REPAIR, Quarantined
from .._node.users.allocated import Devices, holders
from .._node.users.machine import allocated
from . import boot as settings_boot
from . import dcgm
from .boot import SEEN, Mark
from .plan import FORGET, SET, GpuPlan, SettingsNode, plan
from .rules import Rule, parse
from .state import NOTHING, PATH, GpuState, Kept, Lock, current_values, dump, shown
from .state import parse as parse_record

LOCK = "/run/gpu-node/locks/settings.lock"
TIMED_OUT = 124  # the status of a program that did not end in time
OPEN = "default"  # the compute mode in which every process may use a GPU
SLURM = "/etc/slurm/slurm.conf"
SLURM_CLOCKS = re.compile(r"^\s*GpuFreqDef\s*=", re.IGNORECASE | re.MULTILINE)


class SettingsState(t.NamedTuple):
    """The GPUs, an error for each that does not answer, and the state of the node.

    ``absent`` is why NVML is not there. By the ``marks`` it is known later whether GPUs have lost their settings.
    """

    boot: Boot
    gpus: t.Tuple[GpuState, ...] = ()
    broken: t.Tuple[NvmlError, ...] = ()
    node: SettingsNode = SettingsNode()
    absent: str = ""
    marks: t.Mapping[str, Mark] = {}


class SettingsCapability:
    """Keeps GPUs set as in rules, also after a boot or a load of the driver.

    With ``boot`` None in its parameters the units that set them again are left as they are. ``partitioned``, if it is
    there, returns whether a layout will bring a GPU into MIG mode or out of it, None for neither.
    """

    name = "settings"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._check_mode = host, check_mode
        self._back = params["state"] == "absent"
        self._rules: t.Tuple[Rule, ...] = () if self._back else parse(params["rules"])
        self._again = params["boot"]
        self._partitioned: t.Callable[[Gpu], t.Optional[bool]]
        self._partitioned = params.get("partitioned", lambda _gpu: None)
        keeps_rules = self._again and self._rules
        self._boot_text = settings_boot.dump(params["rules"]) if keeps_rules else None
        self._seconds = checked_timeout(params["lock_timeout"])
        self._stack = contextlib.ExitStack()
        self._nvml: t.Optional[Nvml] = None
        self._plans: t.Tuple[GpuPlan, ...] = ()
        self._gpus: t.Dict[str, GpuState] = {}
        self._marks: t.Dict[str, Mark] = {}
        self._last: t.Optional[Step] = None
        self._load = ""
        self._releasing = frozenset(params.get("releasing") or ())
        self._failures: t.Dict[str, str] = {}  # of GPUs that a repair has set aside, by UUID

    def observe(self) -> SettingsState:
        """Read every GPU; the lock is held from the first observation on."""
        record = parse_record(self._host.read(PATH))
        units = boot.observe(self._host, settings_boot.BOOT)
        if self._back and not record:
            return SettingsState(units)
        if self._nvml is None:
            if not self._check_mode:
                self._stack.enter_context(self._host.lock(LOCK, timeout=self._seconds))
            try:
                self._nvml = self._stack.enter_context(open_nvml())
            except NvmlError as error:
                late = nvml_start.explain(self._host, error)
                if self._check_mode and late:
                    return SettingsState(units, absent=str(error))
                raise
        self._load = driver_load(self._host)
        read, broken = self._read(self._nvml)
        shared = set(mps.devices(self._host.listdir(mps.FOLDER)))
        users = self.users(read)
        quarantine = {} if self._back else QuarantineFile(self._host).read().gpus
        states = []
        for gpu, reported in read:
            gpu_record, entry = record.get(gpu.uuid, NOTHING), quarantine.get(gpu.uuid)
            state = GpuState(
                gpu,
                reported,
                current_values(reported, gpu_record, self._load),
                gpu_record,
                users.get(gpu.uuid, ()),
                mps=gpu.uuid in shared,
                aside=self._aside(gpu.uuid, entry),
                partitioned=self._partitioned(gpu),
                fenced=entry is not None and entry.author == REPAIR,
            )
            states.append(state)
        self._gpus = {state.gpu.uuid: state for state in states}
        daemon = properties(self._host, SERVICE, "ActiveState", "InvocationID")
        started = daemon.get("InvocationID", "")
        self._marks = {
            state.gpu.uuid: Mark(self._load, started, state.gpu.mig_current, state.reported.energy)
            for state in states
        }
        slurm_clocks = bool(SLURM_CLOCKS.search(self._host.read(SLURM) or ""))
        node = SettingsNode(daemon.get("ActiveState") == "active", slurm_clocks)
        return SettingsState(units, tuple(states), tuple(broken), node, marks=self._marks)

    def _aside(self, uuid: str, entry: t.Optional[Quarantined]) -> str:
        """Return why a GPU is left alone, empty if it isn't: a repair tests GPUs with their settings and releases them.

        If a setting of a GPU fails that a repair has set aside, that GPU is left alone, and the others are set.
        """
        if entry is None or uuid in self._releasing:
            return ""
        failure = self._failures.get(uuid, "")
        if entry.author == REPAIR:
            return f"{entry}, and {failure}" if failure else ""
        return str(entry)

    @staticmethod
    def _read(nvml: Nvml) -> t.Tuple[t.List[t.Tuple[Gpu, SettingsTold]], t.List[NvmlError]]:
        """Return the settings of each GPU, and an error for each whose settings can't be read."""
        gpus, broken = nvml.gpus()
        read = []
        for gpu in gpus:
            try:
                read.append((gpu, settings(nvml.handle(gpu))))
            except NvmlError as error:
                error.message = f"GPU {gpu.index} ({gpu.uuid}): {error.message}"
                broken.append(error)
        return read, broken

    def close(self) -> None:
        """Close NVML and release the lock."""
        self._stack.close()

    def users(self, read: t.Sequence[t.Tuple[Gpu, SettingsTold]]) -> t.Dict[str, t.Tuple[str, ...]]:
        """Return the processes and pods that use each GPU, if a compute mode would exclude them."""
        modes = {rule.settings.get(COMPUTE, OPEN) for rule in self._rules} - {OPEN}
        changes_mode = any(modes - {reported.present.get(COMPUTE)} for _gpu, reported in read)
        if self._nvml is None or not changes_mode:
            return {}
        gpus = [gpu for gpu, _reported in read]
        held = holders(allocated.observe(self._host), [*map(Devices, gpus)])
        return {
            gpu.uuid: (*map(str, self._nvml.processes(gpu)), *map(str, held[gpu.uuid]))
            for gpu in gpus
        }

    def plan(self, state: SettingsState) -> Plan:
        """Plan for every GPU; refuse before anything is changed."""
        at_boot = self._plan_boot(state)
        if state.absent:
            warning = f"settings: the rules are valid in form, whether they fit the GPUs is not known: {state.absent}"
            due = [Step(SET, "set the GPUs once NVML answers")] if self._rules else []
            return Plan((*due, *at_boot), warnings=(warning,), later="NVML answers")
        planned, self._plans = plan(state.gpus, self._rules, state.node)
        planned = self._beside_dcgm(planned)
        steps = (*planned.steps, *at_boot)
        self._last = steps[-1] if steps else None
        left = tuple(
            f"settings: left alone, since it does not answer: {broken}" for broken in state.broken
        )
        return dataclasses.replace(planned, steps=steps, warnings=(*planned.warnings, *left))

    def _plan_boot(self, state: SettingsState) -> t.Tuple[Step, ...]:
        """Return the steps that write or remove the units that set the GPUs again."""
        if self._again is None and not self._back:
            return ()
        texts, check_mode = settings_boot.TEXTS, self._check_mode
        steps = []
        for step in settings_boot.BOOT.plan(
            state.boot, self._boot_text, texts, check_mode=check_mode
        ):
            if step.action == "boot_remove":
                params = {**step.params, "remove": [*step.params["remove"], SEEN]}
                step = dataclasses.replace(step, params=params)
            steps.append(step)
        return tuple(steps)

    def _beside_dcgm(self, planned: Plan) -> Plan:
        """Refuse settings that DCGM would undo. It is asked only if a setting changes that it sets as well."""
        plans = {gpu_plan.state.gpu.uuid: gpu_plan for gpu_plan in self._plans}
        steps = [
            step.params
            for step in planned.steps
            if step.action == SET
            and step.params["name"] in dcgm.SETS
            and step.params["name"] in plans[step.params["gpu"]].desired
        ]
        if not steps or not self._host.which(dcgm.PROGRAM):
            return planned
        completed = listed = self._host.run(dcgm.CONFIGURED, check=False, timeout=dcgm.SECONDS)
        targets = dcgm.targets(completed.out) if completed.rc == 0 else {}
        if targets:
            listed = self._host.run(dcgm.LISTED, check=False, timeout=dcgm.SECONDS)
        uuids = dcgm.uuids(listed.out) if targets else {}
        enforced = {uuids[number]: target for number, target in targets.items() if number in uuids}
        for params in steps:
            uuid, name = params["gpu"], params["name"]
            dcgm.refuse(plans[uuid].state, name, params["value"], enforced.get(uuid, {}).get(name))
        if TIMED_OUT in (completed.rc, listed.rc) or len(enforced) < len(targets):
            warning = "settings: dcgmi did not tell whether DCGM enforces something else"
            return dataclasses.replace(planned, warnings=(*planned.warnings, warning))
        return planned

    def own(self, _state: SettingsState) -> OwnFiles:
        """Return the files of ours."""
        boot_files = boot.files(settings_boot.BOOT) if self._boot_text else ()
        return OwnFiles(self._host, dict.fromkeys((PATH, *boot_files), 0o644), record=PATH)

    def apply(self, step: Step) -> None:
        """Carry out one step. The settings that a GPU had before are recorded first.

        After the last step the marks of the GPUs are written, since all that are not set aside have their settings.
        """
        if step.action.startswith("boot_"):
            boot.apply(self._host, step)
        else:
            try:
                self.change(step)
            except NvmlError as error:
                if not self._gpus[step.params["gpu"]].fenced:
                    raise
                self._failures[step.params["gpu"]] = str(error)
        if step is self._last and self._boot_text:
            left = {uuid for uuid, gpu in self._gpus.items() if gpu.aside or uuid in self._failures}
            self.note({uuid: mark for uuid, mark in self._marks.items() if uuid not in left})

    def note(self, marks: t.Mapping[str, Mark]) -> None:
        """Write the marks of GPUs when they were set last."""
        self._host.write(SEEN, settings_boot.dump_seen(marks), mode=0o644)

    def change(self, step: Step) -> None:
        """Carry out a step of a GPU."""
        uuid, record = step.params["gpu"], parse_record(self._host.read(PATH))
        before, locks = record.get(uuid, NOTHING)
        if step.action == FORGET:
            names = step.params["names"]
            before = {name: value for name, value in before.items() if name not in names}
            locks = {name: lock for name, lock in locks.items() if name not in names}
            self._write({**record, uuid: Kept(before, locks)})
            return
        name, value = step.params["name"], step.params["value"]
        state = self._gpus[uuid]
        before = {name: state.values[name], **before}
        self._write({**record, uuid: Kept(before, locks)})
        self._set(state, name, value)
        if name in CLOCKS:
            locks = {key: lock for key, lock in locks.items() if key != name}
            if isinstance(value, tuple):
                locks[name] = Lock(value, self._load, state.reported.energy)
            self._write({**record, uuid: Kept(before, locks)})

    def _set(self, state: GpuState, name: str, value: Value) -> None:
        if self._nvml is None:
            raise NodeError("nothing can be set before the GPUs were read")
        try:
            set_to(self._nvml.handle(state.gpu), name, value)
        except NvmlError as error:
            error.message = f"{state.named}: {name} can't be set to {shown(name, value)}"
            if error.code == NOT_SUPPORTED:
                error.hint = f"leave {name} out of the rules for {state.gpu.name}"
            raise

    def _write(self, record: t.Mapping[str, Kept]) -> None:
        left = {uuid: entry for uuid, entry in record.items() if entry != NOTHING}
        if left:
            self._host.write(PATH, dump(left), mode=0o644)
        else:
            self._host.remove(PATH)

    def result(self, state: SettingsState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report the settings of each GPU, in check mode those after the plan."""
        return {
            "state": "absent" if self._back else "present",
            "nvml_available": not state.absent,
            "nvml_error": state.absent,
            "gpus": [
                {
                    "index": gpu_plan.state.gpu.index,
                    "uuid": gpu_plan.state.gpu.uuid,
                    "name": gpu_plan.state.gpu.name,
                    "settings": dict(gpu_plan.after),
                    "unsupported": list(gpu_plan.unsupported),
                    "pending": gpu_plan.pending,
                    "enforced": dict(gpu_plan.held_back),
                    "left_alone": gpu_plan.state.aside,
                }
                for gpu_plan in self._plans
            ],
        }
