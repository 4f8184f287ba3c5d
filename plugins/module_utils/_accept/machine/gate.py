# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The gate on the node's disk, and its check against the GPUs and the record of their tests."""

from __future__ import annotations

import typing as t

from ..._base.gpu import NvmlError
from ..._machine.host import Host
from ..._node.gate import CONFIG, PATH, Gate, dump_gate, parse_gate
from ..._node.machine.facts import boot_id
from ..._repair.machine.cases import CaseFile, read_clock
from .. import record
from ..gate import GateConfig, GateNode, check, parse_config
from ..record import Identity, parse_record
from .accepted import read_all_identities

LOCK = "/run/gpu-node/locks/gate.lock"
LOCK_SECONDS = 30.0


class GateFile:
    """The file with the gate."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def config(self) -> t.Optional[GateConfig]:
        """Return what the gate asks for, None if the node has no gate.

        Raises:
            NodeError: if the file is damaged.
        """
        return parse_config(self._host.read(CONFIG))

    def read(self) -> t.Optional[Gate]:
        """Return the gate as it was checked last, None if it never was.

        Raises:
            NodeError: if the file is damaged.
        """
        return parse_gate(self._host.read(PATH))

    def observe(self) -> GateNode:
        """Return the node as the gate is checked against it.

        Raises:
            NodeError: if a record is damaged.
        """
        host, silent = self._host, ""
        gpus: t.Dict[str, Identity] = {}
        try:
            gpus = read_all_identities(host)
        except NvmlError as error:
            silent = str(error)
        return GateNode(
            boot_id(host),
            read_clock(),
            gpus,
            parse_record(host.read(record.PATH)),
            CaseFile(host).read(),
            silent,
        )

    def write(self, gate: Gate) -> None:
        """Write the gate. Services of any user may read it."""
        self._host.write(PATH, dump_gate(gate), mode=0o644)

    def check(
        self,
        change: t.Callable[[Gate, GateNode], Gate] = lambda gate, _node: gate,
        first: t.Optional[Gate] = None,
    ) -> t.Optional[Gate]:
        """Check the gate of the node, write what ``change`` makes of it, and return that; None without a gate.

        ``first`` is what it was if there is no file of it.

        Raises:
            NodeError: if a record is damaged, or another process keeps the lock.
        """
        with self._host.lock(LOCK, timeout=LOCK_SECONDS):
            config = self.config()
            if config is None:
                return None
            before, node = self.read(), self.observe()
            after = change(check(before or first, config, node), node)
            if after != before:
                self.write(after)
            return after
