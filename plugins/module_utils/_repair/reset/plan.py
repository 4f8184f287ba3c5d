# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which GPUs are reset, which of them by one command, and why others are not."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import InputError, NodeError
from ..._base.steps import IDLE_GPU, Step
from ..._node.resets import REBOOT
from ..._node.users.busy import DRAIN, refuse_if_busy
from ..signs import Action
from ..verdict import Reason, gpu_reasons, reset_rule
from ..xids.table import Table
from .state import Found, State

ALL, WHEN_NEEDED = "all", "when_needed"
RESET, END_SERVER = "reset_gpu", "end_mps_server"
NVLINK5 = 5
ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
BUS_RESET = 6  # NVML's recovery action
NO_XIDS = Table(None, {})
REPLACE = "replace the GPU; what a reset brings back may not last"


class Group(t.NamedTuple):
    """GPUs that are reset by one command; ``whole`` is each of the node, with its NVSwitches."""

    gpus: t.Tuple[Found, ...]
    whole: bool = False

    @property
    def uuids(self) -> t.Tuple[str, ...]:
        """Return their UUIDs."""
        return tuple(one.uuid for one in self.gpus)


def chosen(state: State, names: t.Sequence[str]) -> t.Tuple[Found, ...]:
    """Return the GPUs that are meant. InputError: the node does not have one."""
    if not names:
        raise InputError.of("gpus", list(names), "at least one GPU, or all")
    for name in names:
        if name != ALL and not any(_is(one, name) for one in state.gpus):
            have = ", ".join(f"{one} at {one.pci}" for one in state.gpus)
            expected = "all, or the UUID, PCI address, serial number or index of a GPU of this node"
            raise InputError.of("gpus", name, f"{expected}: {have or 'it has none'}")
    return tuple(one for one in state.gpus if ALL in names or any(_is(one, x) for x in names))


def _is(gpu: Found, name: str) -> bool:
    name = name.strip().lower()
    place = ADDRESS.fullmatch(name)
    if place:
        return gpu.pci == f"{(place[1] or '0000')[-4:]}:{place[2]}"
    return name in (gpu.uuid.lower(), gpu.serial.lower() or None, str(gpu.number))


def reasons(state: State, gpu: Found) -> t.List[Reason]:
    """Return what a GPU tells of its faults, and what waits for its reset; XIDs say what was, not what is."""
    found = gpu_reasons(gpu.observed, state.node, NO_XIDS)
    return [
        *found,
        *(Reason(Action.RESET, f"its {one} changes by a reset") for one in gpu.waiting),
    ]


def needed(state: State, gpu: Found) -> bool:
    """Tell whether anything asks for a reset."""
    return any(one.action.resets for one in reasons(state, gpu))


def refuse_hopeless(state: State, gpu: Found) -> None:
    """Refuse a GPU that no reset brings back. NodeError says what does."""
    asked = [one.text for one in reasons(state, gpu) if one.action is Action.REBOOT]
    if asked:
        hint = f"{REBOOT}; if it stays so, replace the GPU"
        raise NodeError(f"{gpu}: a reset does not bring it back", cause=asked[0], hint=hint)
    if gpu.observed.signs.recovery == BUS_RESET:
        raise NodeError(
            f"{gpu}: the driver asks for a reset of its bus",
            cause="this release resets GPUs alone",
            hint=f"nvidia-smi --gpu-reset bus -i {gpu.uuid} on a platform that has it, or {REBOOT}",
        )


def wrong(state: State, gpu: t.Optional[Found]) -> str:
    """Say what is wrong with a GPU after its reset, empty where nothing is that a reset should have mended."""
    if gpu is None:
        return state.problem or "the driver does not have it any more"
    stay = [one for one in reasons(state, gpu) if one.action.resets or one.action is Action.REBOOT]
    return stay[0].text if stay else ""


def rule(state: State, gpu: Found) -> str:
    """Say how this machine resets a GPU."""
    return reset_rule(state.node, gpu.observed).text


def stops_fabric(state: State) -> bool:
    """Tell whether the fabric manager makes way where all GPUs are reset with their switches.

    From NVLink 5 on it stays: GPUs are reset once it runs. NodeError: it is not the service that could be stopped.
    """
    node = state.node
    if not node.fabric_manager or (node.nvlink or 0) >= NVLINK5:
        return False
    if not state.fabric_unit:
        raise NodeError(
            "the fabric manager does not run as its service",
            cause="all GPUs and NVSwitches are reset while it is stopped, and only services are stopped here",
            hint="stop it where it runs, such as in the container of the driver, and run again",
        )
    return True


def warnings(state: State, gpu: Found) -> t.List[str]:
    """Return what a reset of this GPU does not mend."""
    stay = [one.text for one in reasons(state, gpu) if one.action in (Action.REPLACE, Action.ASK)]
    return [f"gpu_reset: {gpu}: {text}. Next step: {REPLACE}" for text in stay]


def groups(state: State, gpus: t.Sequence[Found], *, together: bool) -> t.List[Group]:
    """Return the GPUs by the commands that reset them. NodeError: the machine lets none be reset so, and why."""
    found: t.List[t.Dict[str, Found]] = []
    for gpu in gpus:
        those = {one.uuid: one for one in (gpu, *_with(state, gpu))}
        for one in those.values():  # also of those that go with it
            refuse_hopeless(state, one)
        _refuse_more(gpu, those, gpus, together=together)
        for known in [one for one in found if one.keys() & those.keys()]:
            those.update(known)
            found.remove(known)
        found.append(those)
    every = {one.uuid for one in state.gpus}
    if together and state.node.nvswitch and {uuid for one in found for uuid in one} == every:
        return [Group(state.gpus, whole=True)]
    return [Group(tuple(one for one in state.gpus if one.uuid in those)) for those in found]


def _with(state: State, gpu: Found) -> t.List[Found]:
    """Return the GPUs that are reset with one. NodeError: it can't be reset here."""
    found = reset_rule(state.node, gpu.observed)
    if found.action is Action.REBOOT:
        raise NodeError(f"{gpu} can't be reset", cause=found.text, hint=REBOOT)
    if found.action is Action.ASK:
        hint = f"{REBOOT}, or have who knows this machine reset it by nvidia-smi --gpu-reset"
        raise NodeError(f"{gpu} is not reset", cause=found.text, hint=hint)
    if found.action is not Action.RESET_ALL:
        return []
    peers = gpu.observed.peers
    return [one for one in state.gpus if state.node.nvswitch or one.uuid in (peers or ())]


def _refuse_more(
    gpu: Found, those: t.Mapping[str, Found], gpus: t.Sequence[Found], *, together: bool
) -> None:
    more = [one for one in those.values() if one not in gpus]
    if more and not together:
        names = ", ".join(map(str, more))
        raise NodeError(
            f"{gpu} can't be reset without others",
            cause=f"with it go {names}",
            hint="set together to true where these may be reset too, or name them in gpus",
            together=[one.uuid for one in more],
        )


def refuse_used(gpus: t.Sequence[Found], advice: str, waited: t.Optional[int]) -> None:
    """Raise Busy where anybody has one of these GPUs; it names them."""
    held = [one for one in gpus if one.users]
    what = f"{', '.join(map(str, held))} can't be reset"
    after = "" if waited is None else f"after {waited} s "
    users = [user for one in held for user in one.users]
    refuse_if_busy(f"{after}{what}", users, hint=advice or DRAIN)


def steps(found: t.Sequence[Group]) -> t.List[Step]:
    """Return what resets these GPUs."""
    return [one for group in found for one in (*_ends(group), _reset(group))]


def _ends(group: Group) -> t.Iterator[Step]:
    for gpu in group.gpus:
        for server in gpu.servers:
            words = f"{gpu}: end the MPS server {server.pid}, which has no clients"
            yield Step(END_SERVER, words, {"gpu": gpu.uuid, **server._asdict()})


def _reset(group: Group) -> Step:
    names = ", ".join(map(str, group.gpus))
    switches = ", with the NVSwitches" if group.whole else ""
    params = {"gpus": list(group.uuids), "whole": group.whole}
    return Step(RESET, f"reset {names}{switches}", params, (IDLE_GPU,))


def described(state: State, gpus: t.Sequence[Found]) -> t.Dict[str, t.Any]:
    """Return GPUs as a diff shows them."""
    return {
        str(one): {
            "asks_for": [each.text for each in reasons(state, one) if each.action],
            **one.settings,
        }
        for one in gpus
    }


def after(before: t.Mapping[str, t.Any], gpus: t.Sequence[Found]) -> t.Dict[str, t.Any]:
    """Return the same with these GPUs reset; what a reset may lose is known once it was made, but MIG instances go."""
    names = set(map(str, gpus))
    return {
        name: {**one, "asks_for": [], "mig_devices": []} if name in names else one
        for name, one in before.items()
    }
