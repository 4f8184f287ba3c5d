# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The quarantine of a node, the GPUs that can be named, and the GPUs that a user names."""

from __future__ import annotations

import re
import typing as t

from ..._base.errors import InputError
from ..._node.quarantine import EMPTY, Quarantine, Seen
from ..selection import gpus_named

ALL = "all"
MOST_NAMED = 16
UUID = re.compile("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class QuarantineState(t.NamedTuple):
    """The quarantine, and the GPUs: those that answer, by NVML's index, and those that are only recorded.

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
        present = {gpu.uuid: gpu for gpu in self.answering.values()}
        taken = {gpu.pci for gpu in present.values()}
        absent: t.Dict[str, Seen] = {}
        for gpu in self.recorded:
            if gpu.uuid not in present and not (gpu.pci and gpu.pci in taken):
                first = absent.get(gpu.uuid, gpu)  # of two records the first counts
                serial, pci = first.serial or gpu.serial, first.pci or gpu.pci
                absent[gpu.uuid] = Seen(gpu.uuid, serial, pci)
        return {**present, **absent}

    @property
    def nameless(self) -> t.Tuple[str, ...]:
        """Return the addresses of which no UUID is known."""
        known = {gpu.pci for gpu in self.known.values()}
        return tuple(dict.fromkeys(place for place in self.addresses if place not in known))

    def named(self, uuid: str) -> str:
        """Return a GPU for people: its index where it answers, and its UUID."""
        index = next((number for number, gpu in self.answering.items() if gpu.uuid == uuid), None)
        return uuid if index is None else f"GPU {index} ({uuid})"


def gpus_to_fence(state: QuarantineState, names: t.Sequence[str]) -> t.Tuple[Seen, ...]:
    """Return the GPUs that are to be set aside.

    Raises:
        InputError: if one is not known.
    """
    known = state.known
    if ALL not in names:
        return _choose(state, names, known)
    uuids = {gpu.uuid for gpu in state.answering.values()}
    present = [gpu for gpu in known.values() if gpu.uuid in uuids or gpu.pci in state.addresses]
    return tuple(present) or _choose(state, names, {})


def gpus_to_release(state: QuarantineState, names: t.Sequence[str]) -> t.Tuple[Seen, ...]:
    """Return the GPUs that are to be released, which may not be there any more.

    Raises:
        InputError: if one is not known.
    """
    entries = state.quarantine.gpus.items()
    set_aside = {uuid: Seen(uuid, entry.serial, entry.pci) for uuid, entry in entries}
    if ALL in names:
        return tuple(set_aside.values())
    gone = {name: Seen(name, "", "") for name in names if UUID.fullmatch(name)}
    return _choose(state, names, {**gone, **set_aside, **state.known})


def _choose(
    state: QuarantineState, names: t.Sequence[str], known: t.Mapping[str, Seen]
) -> t.Tuple[Seen, ...]:
    chosen: t.Dict[str, Seen] = {}
    for name in names:
        named = gpus_named(name, known.values(), state.answering)
        if not named and UUID.fullmatch(name) and state.nameless:
            # It is one of those of which nothing tells.
            named = [Seen(name, "", state.nameless[0] if len(state.nameless) == 1 else "")]
        if not named:
            raise _unknown(state, name, known)
        chosen.update((gpu.uuid, gpu) for gpu in named)
    return tuple(chosen.values())


def _unknown(state: QuarantineState, name: str, known: t.Mapping[str, Seen]) -> InputError:
    texts = []
    for gpu in known.values():
        facts = filter(None, (gpu.pci, gpu.serial and f"serial number {gpu.serial}"))
        texts.append(f"{state.named(gpu.uuid)}: {', '.join(facts)}".rstrip(": "))
    surplus = f" and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    listed = ", ".join(texts[:MOST_NAMED]) + surplus
    which = f"which are {listed}" if listed else "which has none"
    silent = f"; NVML does not answer: {state.silent}" if state.silent else ""
    error = InputError.of("gpus", name, f"a GPU of the node, {which}{silent}")
    if state.nameless:
        error.hint = (
            f"of what is at {', '.join(state.nameless)} no UUID is recorded: give the UUID, which the kernel's log has "
            "(journalctl -k -g 'GPU at PCI'), or set the whole node aside with node: true"
        )
    return error
