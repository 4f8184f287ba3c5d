# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is in quarantine, the GPUs that can be named, and which of them somebody means."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import InputError
from ..._node.quarantine import EMPTY, Quarantine, Seen

ALL = "all"
MOST_NAMED = 16
UUID = re.compile("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
ADDRESS = re.compile(
    "(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<place>[0-9a-f]{2}:[0-9a-f]{2})(?P<function>[.][0-7])?",
    re.IGNORECASE,
)


class State(t.NamedTuple):
    """What is in quarantine, and the GPUs: those that answer, by NVML's index, and those that are only recorded.

    ``addresses`` are those of the GPUs that the PCI bus shows and that were there at the last bring-up. ``silent`` is
    why NVML does not answer, empty where it does.
    """

    quarantine: Quarantine = EMPTY
    answering: t.Mapping[int, Seen] = {}
    recorded: t.Tuple[Seen, ...] = ()
    addresses: t.Tuple[str, ...] = ()
    silent: str = ""

    @property
    def known(self) -> t.Dict[str, Seen]:
        """Return all GPUs that can be named, by UUID; what answers counts."""
        there = {one.uuid: one for one in self.answering.values()}
        taken = {one.pci for one in there.values()}
        found: t.Dict[str, Seen] = {}
        for one in self.recorded:
            if one.uuid not in there and not (one.pci and one.pci in taken):
                found[one.uuid] = _joined(found.get(one.uuid), one)
        return {**there, **found}

    @property
    def nameless(self) -> t.Tuple[str, ...]:
        """Return the addresses of which no UUID is known."""
        known = {one.pci for one in self.known.values()}
        return tuple(dict.fromkeys(one for one in self.addresses if one not in known))

    def named(self, uuid: str) -> str:
        """Return a GPU for people: its index where it answers, and its UUID."""
        index = next((at for at, one in self.answering.items() if one.uuid == uuid), None)
        return uuid if index is None else f"GPU {index} ({uuid})"


def _joined(known: t.Optional[Seen], more: Seen) -> Seen:
    """Return what two records say of a GPU, the first one's word first."""
    if known is None:
        return more
    return known._replace(serial=known.serial or more.serial, pci=known.pci or more.pci)


def to_fence(state: State, wanted: t.Sequence[str]) -> t.Tuple[Seen, ...]:
    """Return the GPUs that are to be set aside. InputError: one is not known."""
    known = state.known
    if ALL in wanted:
        uuids = {one.uuid for one in state.answering.values()}
        there = [one for one in known.values() if one.uuid in uuids or one.pci in state.addresses]
        return tuple(there) or _chosen(state, wanted, {})
    return _chosen(state, wanted, known)


def to_release(state: State, wanted: t.Sequence[str]) -> t.Tuple[Seen, ...]:
    """Return the GPUs that are to be released, which may not be there any more. InputError: one is not known."""
    set_aside = {
        uuid: Seen(uuid, one.serial, one.pci) for uuid, one in state.quarantine.gpus.items()
    }
    if ALL in wanted:
        return tuple(set_aside.values())
    gone = [one for one in wanted if UUID.fullmatch(one)]
    known = {**{one: Seen(one, "", "") for one in gone}, **set_aside, **state.known}
    return _chosen(state, wanted, known)


def _chosen(
    state: State, wanted: t.Sequence[str], known: t.Mapping[str, Seen]
) -> t.Tuple[Seen, ...]:
    found: t.Dict[str, Seen] = {}
    for name in wanted:
        those = _meant(state, name, known)
        if not those:
            raise _unknown(state, name, known)
        found.update((one.uuid, one) for one in those)
    return tuple(found.values())


def _meant(state: State, name: str, known: t.Mapping[str, Seen]) -> t.List[Seen]:
    """Return the GPUs of a name: several for the serial number of a board that has several."""
    uuid = [one for one in known.values() if one.uuid.lower() == name.lower()]
    if uuid:
        return uuid
    if UUID.fullmatch(name) and state.nameless:  # it is one of those of which nothing tells
        return [Seen(name, "", state.nameless[0] if len(state.nameless) == 1 else "")]
    place = address(name)
    if place:
        return [one for one in known.values() if one.pci == place]
    if name.isdecimal() and len(name) < 5 and int(name) in state.answering:
        return [state.answering[int(name)]]
    return [one for one in known.values() if one.serial and one.serial == name]


def address(name: str) -> str:
    """Return a PCI address as sysfs writes it, such as 0000:3b:00.0; empty where it is none."""
    found = ADDRESS.fullmatch(name)
    if found is None:
        return ""
    return (
        f"{int(found['domain'] or '0', 16):04x}:{found['place']}{found['function'] or '.0'}".lower()
    )


def _unknown(state: State, name: str, known: t.Mapping[str, Seen]) -> InputError:
    words = [_described(state, one) for one in known.values()]
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    told = ", ".join(words[:MOST_NAMED]) + more
    expected = (
        f"a GPU of the node, which are {told}" if told else "a GPU of the node, which has none"
    )
    silent = f"; NVML does not answer: {state.silent}" if state.silent else ""
    error = InputError.of("gpus", name, expected + silent)
    if state.nameless:
        error.hint = (
            f"of what is at {', '.join(state.nameless)} no UUID is recorded: give the UUID, which the kernel's log has "
            "(journalctl -k -g 'GPU at PCI'), or set the whole node aside with node: true"
        )
    return error


def _described(state: State, one: Seen) -> str:
    words = filter(None, (one.pci, one.serial and f"serial number {one.serial}"))
    return f"{state.named(one.uuid)}: {', '.join(words)}".rstrip(": ")
