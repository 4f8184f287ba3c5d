# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From a GPU's state to the desired layout: steps, or a refusal with the reason."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from .._base.errors import NodeError
from .._base.gpu import GiProfile, Gpu, GpuInstance, MigDevice, Process
from .._base.mig_profile import Placements, Shape, shapes
from .._base.services.mps import SERVER
from .._base.steps import IDLE_GPU, Step
from .._node.users.allocated import Holder
from .._node.users.busy import refuse_if_busy
from .search import KeptInstance, arrange


class Place(t.NamedTuple):
    """An instance at its place: its profile, the slices of its compute instances, and where it begins."""

    profile: str
    cis: t.Tuple[int, ...]
    start: int


class Places(t.Tuple[Place, ...]):
    """A layout whose instances have places."""


class Placed(t.NamedTuple):
    """A present or planned instance: its profile, and its placement as nvidia-smi mig -lgi prints it."""

    profile: str
    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.profile} at placement {self.start}:{self.size}"


Layout = t.Union[Places, t.Mapping[str, int]]
User = t.Union[Process, Holder]
IDLE = (IDLE_GPU,)


@dataclasses.dataclass(frozen=True)
class GpuState:
    """A GPU with its profiles, instances, processes and MIG devices.

    Attributes:
        placements: Where compute instances may begin, by GPU instance id and slices.
        holders: The pods that the kubelet has allocated something of it to.
        claimed: The UUIDs of MIG devices that were made for claims of the DRA driver, and end with them.
    """

    gpu: Gpu
    profiles: t.Tuple[GiProfile, ...]
    instances: t.Tuple[GpuInstance, ...]
    processes: t.Tuple[Process, ...]
    devices: t.Tuple[MigDevice, ...] = ()
    placements: t.Mapping[int, Placements] = dataclasses.field(default_factory=dict)
    holders: t.Tuple[Holder, ...] = ()
    claimed: t.FrozenSet[str] = frozenset()

    @property
    def users(self) -> t.Tuple[User, ...]:
        """Return the processes and pods that a change may not take anything from."""
        return (*self.processes, *self.holders)

    def name_of(self, instance: GpuInstance) -> str:
        """Return an instance's profile name."""
        names = {profile.id: profile.name for profile in self.profiles}
        return names.get(instance.profile_id, "unknown")

    def shape_of(self, instance: GpuInstance) -> Shape:
        """Return an instance's profile and compute instances."""
        sizes = sorted((ci.slices for ci in instance.cis), reverse=True)
        return Shape(self.name_of(instance), tuple(sizes))

    def placed(self, instance: GpuInstance) -> Placed:
        """Return an instance as the picture shows it."""
        name = str(self.shape_of(instance)) if instance.cis else self.name_of(instance)
        return Placed(name, instance.start, instance.size)

    @property
    def picture(self) -> str:
        """Return the GPU in a few lines."""
        return picture(self.gpu, self.profiles, [*map(self.placed, self.instances)])


class GpuPlan(t.NamedTuple):
    """The steps for one GPU, and its picture before and after; ``more`` as in Plan.

    ``staying`` and ``destroyed`` have the ids of GPU instances, ``created`` the new ones.
    """

    gpu: Gpu
    steps: t.Tuple[Step, ...]
    before: str
    after: str
    staying: t.Tuple[int, ...] = ()
    destroyed: t.Tuple[int, ...] = ()
    created: t.Tuple[Placed, ...] = ()
    pending: str = ""
    more: bool = False


class Server(t.NamedTuple):
    """An MPS server without clients, which is no work, and where its control daemon is asked."""

    process: Process
    pipe: str


@contextlib.contextmanager
def about(gpu: Gpu) -> t.Iterator[None]:
    """Name the GPU in the errors of a with statement."""
    try:
        yield
    except NodeError as error:
        error.message = f"GPU {gpu.index} ({gpu.name}, {gpu.uuid}): {error.message}"
        raise


def plan_gpu(state: GpuState, enabled: bool, layout: Layout, *, reset: bool = False) -> GpuPlan:
    """Plan for one GPU; with ``reset`` it is reset if its mode waits for that.

    Raises:
        NodeError: if the GPU can't have the layout; Busy if it can't now.
    """
    with about(state.gpu):
        if state.claimed and enabled and state.gpu.mig_current:
            # It may have its layout, and beside it only instances that were made for claims.
            ids = {device.gi_id for device in state.devices if device.uuid in state.claimed}
            unclaimed = tuple(instance for instance in state.instances if instance.id not in ids)
            own_state = dataclasses.replace(state, instances=unclaimed, claimed=frozenset())
            plan = _plan_gpu(own_state, enabled, layout, False)
            if not (plan.steps or plan.pending):
                staying = tuple(instance.id for instance in state.instances)
                return plan._replace(before=state.picture, after=state.picture, staying=staying)
        return _plan_gpu(state, enabled, layout, reset)


def _plan_gpu(state: GpuState, enabled: bool, layout: Layout, reset: bool) -> GpuPlan:
    gpu, before = state.gpu, state.picture
    if not gpu.mig_capable:
        if enabled:
            hint = "leave it out of the entry's devices"
            raise NodeError("this GPU can't be partitioned", hint=hint)
        return GpuPlan(gpu, (), before, before)
    if gpu.mig_current != enabled and gpu.mig_pending == enabled:
        return _waiting(state, enabled, reset)
    if not enabled:
        return _disable(state)
    mode = _mode(state, True)
    if not state.profiles and not gpu.mig_current:
        # Drivers of branch 535 and older report profiles only once MIG mode is on.
        return GpuPlan(gpu, mode, before, picture(gpu, (), (), enabled=True), more=True)
    busy = {_at(user) for user in state.users if user.gi_id is not None}
    arrangement = arrange(*_offered(state, layout), busy, state.placements)
    staying = [keeper.instance for keeper in arrangement.keep]
    gone = [instance for instance in state.instances if instance not in staying]
    _refuse_in_use(state, gone, arrangement.keep)
    created = [
        (profile, start, shape, Placed(str(shape), start, dict(profile.placements)[start]))
        for profile, start, shape in arrangement.create
    ]
    creating = [
        _step("create_gi", gpu, f"create {at}", profile=profile.name, start=start, cis=shape.cis)
        for profile, start, shape, at in created
    ]
    placements = tuple(placed for _profile, _start, _shape, placed in created)
    stay = [
        Placed(str(keeper.shape), keeper.instance.start, keeper.instance.size)
        for keeper in arrangement.keep
    ]
    return GpuPlan(
        gpu,
        (*mode, *_clear(state, gone), *_reshape(state, arrangement.keep), *creating),
        before,
        picture(gpu, state.profiles, [*stay, *placements], enabled=True),
        staying=tuple(instance.id for instance in staying),
        destroyed=tuple(instance.id for instance in gone),
        created=placements,
        more=bool(mode),
    )


def _offered(
    state: GpuState, layout: Layout
) -> t.Tuple[t.Sequence[GiProfile], t.Sequence[GpuInstance], t.Sequence[Shape]]:
    """Return the profiles, the instances that may stay, and the desired shapes, as their places allow."""
    if not isinstance(layout, Places):
        return state.profiles, state.instances, shapes(layout)
    desired = {(place.profile, place.start) for place in layout}
    profiles = []
    for profile in state.profiles:
        spans = tuple(span for span in profile.placements if (profile.name, span[0]) in desired)
        profiles.append(dataclasses.replace(profile, placements=spans))
    may_stay = [gi for gi in state.instances if (state.name_of(gi), gi.start) in desired]
    return profiles, may_stay, [Shape(place.profile, place.cis) for place in layout]


def _waiting(state: GpuState, enabled: bool, reset: bool) -> GpuPlan:
    gpu, before = state.gpu, state.picture
    reason = f"GPU {gpu.index}: MIG mode {_on(enabled)} waits for a reset of the GPU or a reboot"
    if not reset:
        return GpuPlan(gpu, (), before, before, pending=reason)
    refuse_if_busy("the GPU can't be reset", state.users)
    step = _step("reset_gpu", gpu, f"reset, so that MIG mode turns {_on(enabled)}", IDLE)
    after = picture(gpu, state.profiles, (), enabled=enabled)
    return GpuPlan(gpu, (step,), before, after, pending=reason, more=True)


def _disable(state: GpuState) -> GpuPlan:
    _refuse_in_use(state, state.instances, ())
    mode = _mode(state, False)
    return GpuPlan(
        state.gpu,
        (*_clear(state, state.instances), *mode),
        state.picture,
        picture(state.gpu, state.profiles, (), enabled=False),
        destroyed=tuple(instance.id for instance in state.instances),
        more=bool(mode),
    )


def _mode(state: GpuState, on: bool) -> t.Tuple[Step, ...]:
    gpu = state.gpu
    if gpu.mig_current != on:
        refuse_if_busy(f"MIG mode can't be switched {_on(on)}", state.users)
        return (_step("set_mig_mode", gpu, f"switch MIG mode {_on(on)}", IDLE, on=on),)
    if gpu.mig_pending != on:
        summary = f"keep MIG mode {_on(on)}: cancel the change that waits for a reset"
        return (_step("set_mig_mode", gpu, summary, on=on),)
    return ()


def _clear(state: GpuState, gone: t.Sequence[GpuInstance]) -> t.List[Step]:
    return [
        _step("destroy_gi", state.gpu, f"destroy {_where(state, gi)}", IDLE, gi=gi.id)
        for gi in gone
    ]


def _reshape(state: GpuState, staying: t.Sequence[KeptInstance]) -> t.List[Step]:
    """Return the steps to the desired compute instances of the GPU instances that stay."""
    steps, gpu = [], state.gpu
    for keeper in staying:
        where, gi = _where(state, keeper.instance), keeper.instance.id
        for ci in keeper.doomed:
            summary = f"destroy compute instance {ci} of {where}"
            steps.append(_step("destroy_ci", gpu, summary, IDLE, gi=gi, ci=ci))
        for slices, start in keeper.create:
            summary = f"create a compute instance of {slices} slices at {start} in {where}"
            steps.append(_step("create_ci", gpu, summary, gi=gi, slices=slices, start=start))
    return steps


def _step(
    action: str, gpu: Gpu, summary: str, needs: t.Tuple[str, ...] = (), **params: t.Any
) -> Step:
    return Step(action, f"GPU {gpu.index}: {summary}", {"gpu": gpu.uuid, **params}, needs)


def _on(on: bool) -> str:
    return "on" if on else "off"


def _refuse_in_use(
    state: GpuState, gone: t.Sequence[GpuInstance], staying: t.Sequence[KeptInstance]
) -> None:
    """Refuse to destroy instances in use, with the names of all users."""
    where = {
        (instance.id, ci): _where(state, instance)
        for instance in gone
        for ci in (-1, *(ci.id for ci in instance.cis))
    }
    for keeper in staying:
        for ci in keeper.doomed:
            summary = f"compute instance {ci} of {_where(state, keeper.instance)}"
            where[keeper.instance.id, ci] = where[keeper.instance.id, -1] = summary
    users = [user for user in state.users if _at(user) in where]
    held = ", ".join(dict.fromkeys(where[_at(user)] for user in users))
    refuse_if_busy(f"{held} cannot be destroyed", users)


def _at(user: User) -> t.Tuple[int, int]:
    """Return a user's GPU instance and compute instance, -1 if it is not known."""
    gi, ci = user.gi_id, user.ci_id
    return -1 if gi is None else gi, -1 if ci is None else ci


def _where(state: GpuState, instance: GpuInstance) -> str:
    return f"{state.placed(instance)} (instance {instance.id})"


def without_idle(
    state: GpuState, idle: t.Mapping[int, str]
) -> t.Tuple[GpuState, t.Tuple[Server, ...]]:
    """Return a GPU without its idle MPS servers, and these servers; ``idle`` has their pipes by PID."""
    servers = tuple(
        Server(process, idle[process.pid])
        for process in state.processes
        if process.pid in idle and process.name.endswith(SERVER)
    )
    gone = {server.process.pid for server in servers}
    processes = tuple(process for process in state.processes if process.pid not in gone)
    return dataclasses.replace(state, processes=processes), servers


def ends(plan: GpuPlan, servers: t.Sequence[Server]) -> t.Tuple[Step, ...]:
    """Return the steps that end the idle servers that are in the way of a plan."""
    needing = [step for step in plan.steps if set(IDLE) & set(step.needs)]
    return tuple(
        Step(
            "end_mps_server",
            f"GPU {plan.gpu.index}: end the MPS server {server.process.pid}, which has no clients",
            {"gpu": plan.gpu.uuid, "pid": server.process.pid, "pipe": server.pipe},
        )
        for server in servers
        if server.process.gpu_uuid == plan.gpu.uuid
        and any(_touches(step, server.process) for step in needing)
    )


def spare(state: GpuState, steps: t.Sequence[Step]) -> None:
    """Refuse steps that take something from a pod.

    Raises:
        Busy: if there is such a pod, with its name.
    """
    needing = [step for step in steps if set(IDLE) & set(step.needs)]
    users = [holder for holder in state.holders if any(_touches(step, holder) for step in needing)]
    with about(state.gpu):
        refuse_if_busy("; ".join(step.summary for step in needing), users)


def _touches(step: Step, user: User) -> bool:
    """Return whether a step needs an instance, or the whole GPU, to be idle that a user has."""
    for key, at in (("gi", user.gi_id), ("ci", user.ci_id)):
        if at is not None and step.params.get(key, at) != at:
            return False
    return True


def picture(
    gpu: Gpu,
    profiles: t.Sequence[GiProfile],
    placed: t.Sequence[Placed],
    *,
    enabled: t.Optional[bool] = None,
) -> str:
    """Return a GPU in a few lines: its MIG mode, its memory grid, and its instances in their order.

    ``enabled`` is the planned mode; by default the GPU's own mode is shown.
    """
    on = gpu.mig_current if enabled is None else enabled
    lines = [f"GPU {gpu.index} {gpu.uuid} {gpu.name}: MIG {_on(on)}"]
    if on:
        placed = sorted(placed, key=lambda instance: instance.start)
        lines += [f"  {_grid(profiles, placed)}", *(f"  - {instance}" for instance in placed)]
    return "\n".join(line.rstrip() for line in lines)


def _grid(profiles: t.Sequence[GiProfile], placed: t.Sequence[Placed]) -> str:
    """Return one line: each instance in brackets, as wide as it is large; free slices are points."""
    total = max((at + size for profile in profiles for at, size in profile.placements), default=0)
    width = max(3, 72 // total) if total else 0
    starts = {cell.start: cell for cell in placed}
    cells, at = [], 0
    while at < total:
        cell = starts.get(at)
        if cell is None:
            cells.append(f"{'.':^{width}}")
            at += 1
        else:
            inner = width * cell.size - 2
            cells.append(f"[{cell.profile[:inner]:^{inner}}]")
            at += cell.size
    return "".join(cells)
