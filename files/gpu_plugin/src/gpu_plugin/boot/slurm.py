# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Drains the node in Slurm while the gate of gpu.node.accept holds a GPU, and gives it back afterwards.

slurmd runs this as root before it registers, and every HealthCheckInterval. It logs what the program prints only if
the program fails, so a change is written to the system's log too.
"""

from __future__ import annotations

import re
import syslog
import time
from typing import Final, NamedTuple

from .._shared._accept.machine.gate import GateFile
from .._shared._base.errors import NodeError
from .._shared._base.text import strict
from .._shared._base.text.shown import cut, printable
from .._shared._machine.host import Completed, Host
from .._shared._node.gate import held
from .._shared._node.machine.facts import boot_id
from .._shared._node.quarantine import Quarantine
from ..tools import bounded, logs
from .driver import Quiet

OWNER: Final = "gpu.node acceptance:"  # which playbooks/hooks/slurm_drain.yml writes, too
SECONDS: Final = 50.0  # slurmd kills the program after 60
SCONTROL_SECONDS: Final = 12.0  # it gives up by itself after 9 if no slurmctld answers
# What scontrol show node appends to a reason: who has set it, and when.
WRITTEN_BY: Final = re.compile(r" \[[^\[\]]*@[^\[\]]*\]$")


class SlurmNode(NamedTuple):
    """A node in Slurm: whether it is drained, or is draining, and the reason, which may be of an earlier drain."""

    is_drained: bool
    reason: str

    @property
    def is_ours(self) -> bool:
        """Return whether the node was drained for its gate."""
        return self.is_drained and self.reason.startswith(OWNER)


def parse_node(name: str, output: str) -> SlurmNode:
    """Return the node that ``scontrol show node`` shows.

    Further lines of a reason are indented deeper than fields are.

    Raises:
        NodeError: if it shows several nodes, another one, or none.
    """
    names = re.findall(r"^NodeName=(\S+)", output, re.MULTILINE)
    states = re.findall(r"^   State=(\S+)", output, re.MULTILINE)
    if names != [name] or len(states) != 1:
        cause = f"it shows {cut(printable(', '.join(names))) or 'no node'}"
        raise _error(name, f"scontrol show node {name} does not show one node", cause)
    reason = re.search(r"^   Reason=(.*)$", output, re.MULTILINE)
    return SlurmNode(
        "DRAIN" in re.split(r"[+*]", states[0]),
        WRITTEN_BY.sub("", reason.group(1)) if reason else "",
    )


def _error(name: str, message: str, cause: str) -> NodeError:
    hint = f"give the node's name in slurm.conf by --node, if it is not {name}; see scontrol ping"
    return NodeError(f"slurm: {message}", cause=cause, hint=hint)


class Scontrol:
    """Asks Slurm about a node, and changes it, until a deadline."""

    def __init__(self, program: str, node: str) -> None:
        self._program, self._node = program, node
        self._host = Quiet()
        self._deadline = time.monotonic() + SECONDS

    def show(self) -> SlurmNode:
        """Return the node as it is in Slurm. A slurmctld that does not answer is asked until the deadline.

        Raises:
            NodeError: if Slurm does not answer, or does not know the node.
        """
        while True:
            answer = self._run("show", "node", self._node)
            is_silent = answer.rc == 124 or "Unable to contact slurm controller" in answer.err
            if not is_silent or self._left < SCONTROL_SECONDS:
                return parse_node(self._node, self._checked(answer, "show node"))

    def update(self, *fields: str) -> None:
        """Change fields of the node.

        Raises:
            NodeError: if Slurm refuses it, or does not answer.
        """
        answer = self._run("update", f"NodeName={self._node}", *fields)
        self._checked(answer, f"update with {fields[0]}")

    @property
    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _run(self, *args: str) -> Completed:
        path = self._host.which(self._program)
        if path is None:
            hint = "give the path of Slurm's scontrol by --scontrol"
            raise NodeError(f"slurm: {self._program} is not installed", hint=hint)
        seconds = min(max(self._left, 1.0), SCONTROL_SECONDS)
        try:
            return bounded.run([path, *args], "", self._host.environment(), seconds)
        except OSError as error:
            return Completed(126, "", f"{path}: {error.strerror or error}")

    def _checked(self, answer: Completed, action: str) -> str:
        if answer.rc == 0:
            return answer.out
        cause = cut(printable(f"{answer.err} {answer.out}".replace("\n", " ").strip()))
        raise _error(self._node, f"scontrol {action} failed for {self._node}", cause)


def follow_gate(node: str, program: str) -> int:
    """Drain the node, given by its name in Slurm, or give it back. Return the exit status: 1 if that failed."""
    scontrol = Scontrol(program, node)
    host = Host()
    reason = _held_reason(host)
    try:
        before = scontrol.show()
        if reason and before.is_drained and not before.is_ours:
            logs.info("drained by somebody else, who keeps it", node=node, reason=before.reason)
        elif reason and before != SlurmNode(True, reason):
            scontrol.update("State=DRAIN", f"Reason={reason}")
            _note(syslog.LOG_WARNING, f"{node} is drained in Slurm: {reason}")
        elif not reason and before.is_ours and not _held_reason(host):  # Slurm may answer late
            scontrol.update("State=UNDRAIN")  # not RESUME, which would end a DOWN of others, too
            _note(syslog.LOG_NOTICE, f"{node} is given back to Slurm: all GPUs are let in")
    except NodeError as error:
        _note(syslog.LOG_ERR, str(error))
        return 1
    return 0


def _held_reason(host: Host) -> str:
    """Return the reason to drain the node for, empty if no GPU is held. A gate that can't be read is closed."""
    try:
        fenced = _checked_gate(host)
    except (NodeError, OSError) as error:
        return strict.bounded(f"{OWNER} {error}").strip()
    entries = [f"GPU {uuid}: {entry.reason}" for uuid, entry in fenced.gpus.items()]
    reasons = [fenced.node.reason] if fenced.node else entries
    return strict.bounded(f"{OWNER} {'; '.join(reasons)}").strip() if reasons else ""


def _checked_gate(host: Host) -> Quarantine:
    """Return what the gate holds, which is checked first if it was not since the boot.

    After a boot, slurmd does not wait for the unit that checks it.
    """
    file, boot = GateFile(Quiet()), boot_id(host)
    gate = file.read()
    if gate is None or gate.boot != boot:
        gate = file.check() or gate
    return held(gate, boot)


def _note(priority: int, text: str) -> None:
    (logs.error if priority == syslog.LOG_ERR else logs.info)(text)
    syslog.openlog("gpu-plugin", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(priority, printable(text))
