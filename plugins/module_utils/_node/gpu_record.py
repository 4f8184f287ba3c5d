# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs that a node had at its last bring-up, by their PCI addresses, so that a lost one is noticed.

Their identities in NVML are recorded too, so that one that does not answer any more can be named.
"""

from __future__ import annotations

import json
import typing as t

from .._base.errors import readable
from .._base.steps import Step
from .._base.text import json_data
from .._base.text.shown import counted
from .quarantine import Seen

PATH = "/var/lib/gpu-node/gpus.json"
ACTION = "gpus"
Addresses = t.Tuple[str, ...]


class Gpus(t.NamedTuple):
    """The recorded addresses, those on the bus, and how many GPUs the user expects, -1 if that is not set."""

    known: Addresses
    there: Addresses
    meant: int = -1

    @property
    def missing(self) -> Addresses:
        """Return the addresses of missing GPUs, if there are fewer than recorded and than expected."""
        if len(self.there) >= len(self.known) or len(self.there) == self.meant:
            return ()
        return tuple(address for address in self.known if address not in self.there)

    def steps(self) -> t.List[Step]:
        """Return the step that records the present GPUs, none if they are recorded or some are missing."""
        if set(self.known) == set(self.there) or not self.there or self.missing:
            return []
        new = [address for address in self.there if address not in self.known]
        gone = [address for address in self.known if address not in self.there]
        parts = [f"{', '.join(new)} new"] if new else []
        parts += [f"{', '.join(gone)} gone"] if gone else []
        change = "; ".join(parts) if self.known else ", ".join(new)
        summary = f"record the node's {counted(len(self.there), 'GPU')} ({change})"
        return [Step(ACTION, summary, {"gpus": self.there})]

    def __str__(self) -> str:
        if not self.missing:
            return ""
        are = "is" if len(self.missing) == 1 else "are"
        return (
            f"the node had {counted(len(self.known), 'GPU')} at its last bring-up, and {', '.join(self.missing)} "
            f"{are} not on its PCI bus any more"
        )

    @property
    def next_step(self) -> str:
        """Return what to do about missing GPUs."""
        return (
            f"see the kernel's log for what became of them (journalctl -k -g '{'|'.join(self.missing)}'), or, if the "
            f"node is to have {counted(len(self.there), 'GPU')}, set validate_gpu_count to {len(self.there)} and run "
            "gpu.node.gpu_nodes"
        )


NOT_RECORDED = Gpus((), ())


def load(text: t.Optional[str], machine: str) -> Addresses:
    """Return the recorded addresses; none if there is no record, or that of the machine that the node is a copy of.

    ``machine`` identifies the machine.

    Raises:
        NodeError: if the record is damaged.
    """
    if text is None:
        return ()
    with readable(PATH, "remove the file; the next run records the GPUs that are there"):
        data = json_data.loads(text)
        addresses = data["gpus"]
        texts = isinstance(addresses, list) and all(isinstance(text, str) for text in addresses)
        if not texts:
            raise TypeError("expected a list of PCI addresses under gpus")
        return tuple(addresses) if data["machine"] == machine else ()


def identities(text: t.Optional[str], machine: str) -> t.Tuple[Seen, ...]:
    """Return the recorded GPUs whose identity is recorded too.

    Raises:
        NodeError: if the record is damaged.
    """
    there = load(text, machine)
    recorded = json_data.table(json_data.table_in(text).get("devices"))
    rows = {pci: json_data.table(recorded.get(pci)) for pci in there}
    seen = (
        Seen(json_data.text(row.get("uuid")), json_data.text(row.get("serial")), pci)
        for pci, row in rows.items()
    )
    return tuple(row for row in seen if row.uuid)


def dump(addresses: t.Iterable[str], machine: str, seen: t.Iterable[Seen] = ()) -> str:
    """Return the record's text, with the identities of the GPUs that NVML sees."""
    data = {"machine": machine, "gpus": sorted(addresses)}
    devices = {device.pci: {"uuid": device.uuid, "serial": device.serial} for device in seen}
    return json.dumps({**data, "devices": devices}, indent=1) + "\n"
