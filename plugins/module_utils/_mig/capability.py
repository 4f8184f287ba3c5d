# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.mig: all GPUs are read and planned for, and changed one after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t

from .._base.boot import BootState as Boot
from .._base.boot import unit_file
from .._base.dra.checkpoint import made
from .._base.dra.names import CHECKPOINT as CLAIMS
from .._base.errors import NodeError, checked_timeout
from .._base.gpu import Gpu, NvmlError, Process
from .._base.services import mig
from .._base.services.mps import idle_servers
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.nvml.faults import condition
from .._machine.nvml.real import Nvml, open_nvml
from .._machine.own_files import OwnFiles
from .._machine.units import properties
from .._node.machine import boot, mps, nvml_start
from .._node.machine import resets as node_resets
from .._node.machine.facts import gpus as gpus_on_bus
from .._node.users.allocated import Allocation, Devices, Holders, holders
from .._node.users.busy import FAIL, SKIP, WAIT, Busy, refuse_if_busy
from .._node.users.machine import allocated
from .._node.users.machine.services import Services
from .._node.users.machine.users import user_of
from . import boot as mig_boot
from . import label
from .config import Declared, Selection
from .machine import nvml as mig_nvml
from .machine.nvml import Back, Before, Changes, planned, read, remembered
from .machine.report import report
from .plan import GpuPlan, GpuState, Server, about, ends, plan_gpu, without_idle

# The greatest age of the kubelet's answer: during the wait for idle GPUs, and before a GPU is changed.
ASK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS = 5.0, 2.0


class MigState(t.NamedTuple):
    """The GPUs, an error for each that does not answer, and why NVML is not there, if it is not.

    ``idle`` are MPS servers without clients, which are not in the GPUs' processes. ``aside`` are the names of the GPUs
    that don't answer if all of them are in quarantine.
    """

    boot: Boot
    label: label.Units = label.Units()
    gpus: t.Tuple[GpuState, ...] = ()
    broken: t.Tuple[NvmlError, ...] = ()
    absent: str = ""
    idle: t.Tuple[Server, ...] = ()
    aside: t.FrozenSet[str] = frozenset()


class MigCapability:
    """Keeps the GPUs in a MIG layout, now and after a reboot.

    With ``boot`` None in its parameters the files for the next boot are left as they are.
    """

    name = "mig"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host, self._params, self._check_mode = host, params, check_mode
        back = params["state"] == "absent"
        declared = (params["config"] or None, params["selected"], params["by_label"])
        self._declared = Declared(*declared if not back else (None, ""))
        if self._declared.by_label:
            label.check(self._declared, boot=params["boot"])
        self._chosen = ""
        self._back = Back(self._record()) if back else None
        self._selection: t.Union[Selection, Back] = self._back or self._declared.selection()
        checked_timeout(params["lock_timeout"])
        seconds = checked_timeout(params["wait_timeout"], "wait_timeout")
        waits = params["on_busy"] == WAIT and not check_mode
        self._deadline = time.monotonic() + seconds if waits else 0.0
        self._stack = contextlib.ExitStack()
        self._nvml: t.Optional[Nvml] = None
        self._changes: t.Optional[Changes] = None
        self._first: t.Dict[str, GpuState] = {}
        self._states: t.Dict[str, GpuState] = {}
        self._plans: t.Dict[str, GpuPlan] = {}
        self._round: t.Dict[str, GpuPlan] = {}
        self._at = ""
        self._completed: t.List[Step] = []
        self._allocations: t.Tuple[Allocation, ...] = ()
        self._asked_at: t.Optional[float] = None
        self._begun: t.Set[str] = set()
        self._services = Services(host, params["stop_services"])

    def _record(self) -> t.Dict[str, Before]:
        return mig_nvml.load_before(self._host.read(mig_nvml.BEFORE), mig_nvml.BEFORE)

    # --- observe ---

    def observe(self) -> MigState:
        """Read every GPU; the lock is held from the first observation on."""
        units = boot.observe(self._host, mig_boot.BOOT)
        texts = {unit: self._host.read(unit_file(unit)) for unit in label.TEXTS}
        names = ("ActiveState", "UnitFileState") if self._declared.by_label else ()
        waits = properties(self._host, label.PATH_UNIT, *names) if names else {}
        by_label = label.Units(texts, waits)
        self._at = ""  # the next plan compares the result of the last steps
        if self._back is not None:
            self._back = self._selection = Back(self._record())
            if not self._back.record:
                return MigState(units, by_label)
        if self._nvml is None:
            if not self._check_mode:
                lock = self._host.lock(mig.LOCK, timeout=self._params["lock_timeout"])
                self._stack.enter_context(lock)
            if self._declared.by_label:  # the last choice of the node's label counts
                self._chosen = (self._host.read(label.CHOSEN) or "").strip()
                self._selection = self._declared.selection(self._chosen)
            try:
                self._nvml = self._stack.enter_context(open_nvml())
            except NvmlError as error:
                late = nvml_start.explain(self._host, error)
                if self._check_mode and late:
                    return MigState(units, by_label, absent=str(error))
                if self._back is not None and not gpus_on_bus(self._host):
                    return MigState(units, by_label)
                raise
            self._changes = Changes(self._nvml, self._reset, self._deadline)
        while True:
            state = self._with_holders(self._read(self._nvml, units, by_label))
            blocked = False
            with contextlib.suppress(NodeError):  # plan raises it
                blocked = bool(self._plan_gpus(state)[1])
            if time.monotonic() >= self._deadline or not blocked:
                return state
            time.sleep(1.0)

    def close(self) -> None:
        """Close NVML, release the lock, and start the stopped services again."""
        self._services.end()
        self._stack.close()

    def _read(self, nvml: Nvml, units: Boot, by_label: label.Units) -> MigState:
        gpus, broken = nvml.gpus()
        idle = idle_servers(mps.states(self._host))
        split = [without_idle(read(nvml, gpu), idle) for gpu in gpus]
        claimed = made(self._host.read(CLAIMS))
        states = tuple(
            dataclasses.replace(
                state, processes=tuple(self._users(state.processes)), claimed=claimed
            )
            for state, _servers in split
        )
        self._states = {state.gpu.uuid: state for state in states}
        self._first = self._first or self._states
        servers = tuple(server for _state, servers_of_gpu in split for server in servers_of_gpu)
        aside = mig_nvml.set_aside(self._host, gpus, broken)
        self._selection = self._selection.without(aside)
        return MigState(units, by_label, states, tuple(broken), idle=servers, aside=aside)

    def _with_holders(self, state: MigState) -> MigState:
        """Return a state with the pods that have something of its GPUs, if a step may take it from them.

        Raises:
            NodeError: if it may, and the pods are not known.
        """
        if self._params["on_allocated"] == "ignore":
            return state
        try:
            plans, blocked = self._plan_gpus(state)
        except NodeError:
            return state  # plan raises it
        if not blocked and not any(step.needs for plan in plans for step in plan.steps):
            return state  # no step takes an instance or a whole GPU, nor would if it were idle
        held = self._holders(state.gpus, ASK_AGAIN_SECONDS)
        gpus = tuple(dataclasses.replace(gpu, holders=held[gpu.gpu.uuid]) for gpu in state.gpus)
        self._states = {gpu.gpu.uuid: gpu for gpu in gpus}
        return state._replace(gpus=gpus)

    def _holders(self, gpus: t.Sequence[GpuState], seconds: float) -> Holders:
        """Return the pods that have something of each GPU, from an answer that is at most so many seconds old."""
        current = time.monotonic()
        if self._asked_at is None or current - self._asked_at >= seconds:
            self._allocations, self._asked_at = allocated.observe(self._host), current
        node = [Devices(gpu.gpu, gpu.instances, gpu.devices) for gpu in gpus]
        return holders(self._allocations, node)

    def _refuse_newcomers(self, uuid: str) -> None:
        """Refuse if the kubelet has allocated something of a GPU since the plan was made."""
        state = self._states[uuid]
        held = self._holders([state], LOOK_AGAIN_SECONDS)[uuid]
        with about(state.gpu):
            new = [holder for holder in held if holder not in state.holders]
            refuse_if_busy("the kubelet gave it away since the change was planned", new)

    def _users(self, processes: t.Iterable[Process]) -> t.Iterator[Process]:
        """Yield the processes with their user, without those of services that will be stopped."""
        for process in processes:
            user = user_of(self._host, process.pid)
            if not self._services.stops(user):
                yield dataclasses.replace(process, where=user.where)

    # --- plan ---

    def plan(self, state: MigState) -> Plan:
        """Plan for every GPU that the layout is about; refuse before anything is changed."""
        layout_plan = self._layout(state)
        resets = [step.params["gpu"] for step in layout_plan.steps if step.action == "reset_gpu"]
        makes_way: t.List[str] = []
        if resets and self._nvml is not None:
            gpus = [self._states[uuid].gpu for uuid in resets]
            persistent = [gpu.uuid for gpu in gpus if condition(self._nvml.handle(gpu)).persistent]
            makes_way = node_resets.makes_way(self._host, persistent)
        return self._services.around(layout_plan, makes_way)

    def _layout(self, state: MigState) -> Plan:
        desired, at_boot = self._plan_boot(state)
        self._record()  # a torn one is refused before anything changes
        if state.absent:
            named = self._selection.label
            warning = f"mig: the configuration is valid in form, whether it fits the GPUs is not known: {state.absent}"
            steps = (Step("partition", f"partition GPUs as {named} once NVML answers"), *at_boot)
            return Plan(steps, "", f"{named}\n", warnings=(warning,), later="NVML answers")
        warnings = label.warnings(self._declared, self._chosen) if self._chosen else []
        warnings += [
            f"mig: left alone, since it does not answer: {error}" for error in state.broken
        ]
        idle = self._selection.idle_entries(state.gpus)
        warnings += [f"mig: {key} matches no GPU of this node" for key in idle]
        if self._back is not None:
            warnings += self._back.warnings(state.gpus, state.boot.config)
        plans, blocked = self._plan_gpus(state)
        if blocked:
            self._services.check()
            warnings += self._about_busy(blocked)
        self._round = {plan.gpu.uuid: plan for plan in plans}
        self._plans = {**self._round, **self._plans}
        return Plan(
            (
                *(step for plan in plans for step in (*ends(plan, state.idle), *plan.steps)),
                *at_boot,
                *(self._back.forget(plans, blocked) if self._back else ()),
            ),
            "".join(f"{plan.before}\n" for plan in plans) + (state.boot.config or ""),
            "".join(f"{plan.after}\n" for plan in plans) + (desired or ""),
            reboot_required=tuple(plan.pending for plan in plans if plan.pending),
            blocked_by=tuple(name for error in blocked for name in error.details["blocked_by"]),
            refused=bool(blocked) and self._params["on_busy"] == FAIL,
            warnings=tuple(warnings),
            more=any(plan.more for plan in plans),
        )

    def _plan_boot(self, state: MigState) -> t.Tuple[t.Optional[str], t.List[Step]]:
        """Return the text of the file for the next boot, and the steps to it and to the units."""
        if self._params["boot"] is None and self._back is None:
            return state.boot.config, []
        keeps_layout = self._params["boot"] and self._back is None
        text = self._declared.dump() if keeps_layout else None
        check_mode = self._check_mode
        steps = mig_boot.BOOT.plan(state.boot, text, mig_boot.TEXTS, check_mode=check_mode)
        return text, [*steps, *label.plan(state.label, desired=self._declared.by_label)]

    def _plan_gpus(self, state: MigState) -> t.Tuple[t.List[GpuPlan], t.List[Busy]]:
        """Return the plans, and the errors of GPUs that can't be changed now."""
        if not state.aside:
            self._selection.check_broken(state.broken)
        targets = self._selection.targets(state.gpus)
        plans: t.List[GpuPlan] = []
        blocked: t.List[Busy] = []
        reset = self._params["reset"] == "when_idle"
        for gpu in state.gpus:
            if gpu.gpu.uuid not in targets:
                continue
            enabled, layout = targets[gpu.gpu.uuid]
            try:
                plans.append(plan_gpu(gpu, enabled, layout, reset=reset))
            except Busy as error:
                blocked.append(error)
                if self._params["on_busy"] != SKIP and self._check_mode:
                    idle = dataclasses.replace(gpu, processes=(), holders=())
                    plans.append(plan_gpu(idle, enabled, layout, reset=reset))
        return plans, blocked

    def _about_busy(self, blocked: t.Sequence[Busy]) -> t.List[str]:
        """Return warnings about GPUs in use, or raise their error, as the user chose."""
        on_busy = self._params["on_busy"]
        if on_busy == SKIP:
            return [f"mig: skipped: {error.message}: {error.cause}" for error in blocked]
        if self._check_mode:
            verb = "would wait" if on_busy == WAIT else "would be refused"
            return [f"mig: {verb}: {error.message}: {error.cause}" for error in blocked]
        first = blocked[0]
        first.message = "; ".join(error.message for error in blocked)
        names = [name for error in blocked for name in error.details["blocked_by"]]
        first.cause = f"in use by {', '.join(dict.fromkeys(names))}"
        first.details["blocked_by"] = names
        if on_busy == WAIT:
            first.message = f"after {self._params['wait_timeout']} s {first.message}"
        raise first

    def own(self, state: MigState) -> OwnFiles:
        """Return the files of ours."""
        record = mig_nvml.BEFORE
        if self._back is not None or not self._params["boot"]:
            return OwnFiles(self._host, record=record)
        paths = (record, *boot.files(mig_boot.BOOT), *map(unit_file, label.TEXTS))
        return OwnFiles(self._host, dict.fromkeys(paths, 0o644), record=record)

    # --- apply ---

    def apply(self, step: Step) -> None:
        """Carry out a step; if it fails, the GPU's previous layout is restored."""
        uuid = step.params.get("gpu", "")
        if self._at and uuid != self._at:
            self._verify(self._at)
        if uuid and uuid != self._at and self._back is None:
            # The layout before the GPU's first change, and the instances that this change may leave.
            record = remembered(self._record(), self._states[uuid], self._round[uuid])
            self._host.write(mig_nvml.BEFORE, mig_nvml.dump_before(record), mode=0o644)
        self._at = uuid
        if step.needs and uuid not in self._begun and self._params["on_allocated"] != "ignore":
            self._refuse_newcomers(uuid)
        if step.needs:
            self._begun.add(uuid)
        if step.action.startswith("boot_"):
            boot.apply(self._host, step)
        elif step.action == "forget":
            if not (self._changes and self._changes.skipped):
                self._host.remove(mig_nvml.BEFORE)
        elif not self._services.apply(step):
            if self._changes is None or self._nvml is None:
                raise NodeError("nothing can be changed before the GPUs were read")
            if step.action == "end_mps_server":
                mps.end_server(self._host, self._nvml, self._states[uuid].gpu, step)
            else:
                self._changes.carry_out(step, self._states[uuid])
        self._completed.append(step)

    def _verify(self, uuid: str) -> None:
        """Check the layout of a GPU after its steps, before the next GPU is changed."""
        if self._nvml is None or (self._changes and self._changes.skipped):
            return
        if not self._states[uuid].profiles:
            return  # an older driver: instances are planned for in the next round
        if planned(self._nvml, self._selection, uuid)[1].steps:
            raise NodeError(
                f"GPU {uuid} is not in the layout that was made",
                cause="another program changed it meanwhile, or the driver reported a success that was none",
                hint="run again",
            )

    def _reset(self, gpu: Gpu) -> None:
        if self._nvml is not None:
            with self._nvml.closed():
                node_resets.reset(self._host, [gpu.uuid])

    # --- report ---

    def result(self, state: MigState, plan: Plan) -> t.Dict[str, t.Any]:
        """Report the layout of every GPU, and the instances that were kept, created and destroyed."""
        answer: t.Dict[str, t.Any] = {
            "state": self._params["state"],
            "selected": self._selection.label,
            "chosen_by_label": self._chosen,
            "refused": plan.refused,
            "nvml_available": not state.absent,
            "nvml_error": state.absent,
            "gpus": [
                report(
                    self._first.get(gpu.gpu.uuid, gpu),
                    gpu,
                    self._plans.get(gpu.gpu.uuid),
                    planned_only=self._check_mode,
                )
                for gpu in state.gpus
            ],
        }
        if self._changes is not None and self._changes.skipped:
            # The runner counts every step as completed; these wait for the reset that it reports.
            left = {step.summary for step in self._changes.skipped}
            completed = [step for step in self._completed if step.summary not in left]
            answer["steps"] = [step.describe() for step in completed]
        return answer
