# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Persistence modes on a node: asked of the GPUs by nvidia-smi, which needs no Python bindings, and turned on by it."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..._base.errors import NodeError
from ..._base.knowledge import Known, Unknown
from ..._base.services import settings
from ..._base.services.driver import SERVICE
from ..._base.text.shown import shown
from ..._machine.host import Host
from ..._machine.units import properties
from ..._node.machine.quarantine import QuarantineFile
from ..._node.users.services import command, persistence
from ..kernel.persistence import DROP_IN, NOT_ASKED, OPTION, TEXT, Persistence
from .sources import Node, Params, Part

QUERY = ("nvidia-smi", "--query-gpu=uuid,index,persistence_mode", "--format=csv,noheader")
OFF, FIELDS = "Disabled", 3
SECONDS = 60.0  # that the driver may take
USER, NO_SUCH_USER = re.compile(r" --user[ =]([\w.-]+)"), 2  # the status is getent's
Gpu = t.Mapping[str, t.Any]  # as gpu.node.gpu_info has it


class PersistenceModes(Part):
    """The modes of the GPUs, and what turns them on at each start of the daemon.

    ``gpus`` are those that somebody else has asked just now, so that they are not asked again.
    """

    def __init__(self, node: Node, gpus: t.Optional[t.Sequence[Gpu]] = None) -> None:
        super().__init__(node)
        self._gpus = gpus

    def observe(self, service: t.Mapping[str, str]) -> Persistence:
        """Return which modes are off and what is wrong with the daemon's service, whose properties are given."""
        if service.get("ActiveState") != "active":
            return NOT_ASKED
        host = self._node.host
        modes = Persistence(lost_user=_lost_user(host, service.get("ExecStart", "")))
        try:
            decided = settings.persistence(host.read(settings.CONFIG), host.read(settings.RECORD))
            spared = decided.gpus.union(QuarantineFile(host).read().gpus)
        except NodeError as error:
            return modes._replace(off=Unknown(str(error)))
        if decided.by_rules:
            return modes._replace(by_rules=True)
        if self._gpus is None:
            off = _ask(host)
        else:
            reported = [gpu for gpu in self._gpus if gpu["persistence_mode"] is False]
            off = Known({gpu["uuid"]: f"GPU {gpu['index']} ({gpu['uuid']})" for gpu in reported})
        if isinstance(off, Known):
            off = Known({uuid: name for uuid, name in off.value.items() if uuid not in spared})
        has_option = OPTION in service.get("ExecStart", "").split()
        return modes._replace(off=off, lacks_drop_in=has_option and host.read(DROP_IN) != TEXT)

    def apply(self, params: Params) -> None:
        """Turn persistence modes on, or leave them to the daemon's unit."""
        if params.get("remove"):
            self.forget()
        else:
            self.turn_on()

    def turn_on(self) -> None:
        """Turn persistence modes on that are off while the daemon runs, and have its starts do so too.

        Raises:
            NodeError: if a GPU does not take it.
        """
        host, self._gpus = self._node.host, None
        modes = self.observe(properties(host, SERVICE, "ActiveState", "ExecStart"))
        if modes.lacks_drop_in:
            self._node.added.remember(persistence_mode=True)
            host.write(DROP_IN, TEXT, mode=0o644)
            host.run(["systemctl", "daemon-reload"], check=False)
        for uuid in modes.off.value if isinstance(modes.off, Known) else ():
            host.run(command(persistence(uuid), on=True), timeout=SECONDS)

    def forget(self) -> None:
        """Leave persistence mode to the daemon's unit."""
        host, folder = self._node.host, posixpath.dirname(DROP_IN)
        host.remove(DROP_IN)
        if not host.listdir(folder):
            host.remove(folder)
        host.run(["systemctl", "daemon-reload"], check=False)
        self._node.added.remember(persistence_mode=False)


def _lost_user(host: Host, start: str) -> str:
    """Return the user of the option --user in a unit's ExecStart, if neither the node nor its directory has it."""
    match = USER.search(start)
    if match is None or f"\n{match[1]}:" in f"\n{host.read('/etc/passwd') or ''}":
        return ""
    answer = host.run(["getent", "passwd", match[1]], check=False, timeout=SECONDS)
    return match[1] if answer.rc == NO_SUCH_USER else ""


def _ask(host: Host) -> t.Union[Known[t.Mapping[str, str]], Unknown]:
    answer = host.run(QUERY, check=False, timeout=SECONDS)
    if answer.rc != 0:
        lines = (answer.err.strip() or answer.out.strip()).splitlines()
        return Unknown(f"nvidia-smi ended with status {answer.rc}: {''.join(lines[-1:])}")
    rows = [[field.strip() for field in line.split(",")] for line in answer.out.splitlines()]
    if not rows or any(len(row) != FIELDS for row in rows):
        return Unknown(f"nvidia-smi has answered {shown(answer.out.strip())}")
    return Known({row[0]: f"GPU {row[1]} ({row[0]})" for row in rows if row[2] == OFF})
