# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The capability behind gpu.node.host: what GPUs want of their host is read, compared and set."""

from __future__ import annotations

import contextlib
import typing as t

from .._base.errors import NodeError, checked_timeout
from .._base.steps import Plan, Step
from .._machine.host import Host
from .._machine.own_files import OwnFiles
from . import iommu
from .command_line import OFF, asked, processor
from .machine import observe
from .machine.loaders import DROP_IN, Loader
from .machine.observe import NOTED
from .state import PATH, Iommu, Kept, dump, parse

UNMANAGED = "unmanaged"
LOCK = "/run/gpu-node/host.lock"


class State(t.NamedTuple):
    """What the host is set to, and what is remembered."""

    kept: Kept
    iommu: Iommu
    processor: str = ""
    guests: t.Tuple[str, ...] = ()


class HostCapability:
    """Keeps a host as its GPUs want it."""

    name = "host"

    def __init__(self, host: Host, params: t.Mapping[str, t.Any], *, check_mode: bool) -> None:
        self._host = host
        self._back = params["state"] == "absent"
        self._iommu: str = self._option(params, "iommu")
        self._seconds = checked_timeout(params["lock_timeout"])
        self._stack = contextlib.ExitStack()
        self._loader: t.Optional[Loader] = None
        self._locked = check_mode

    def _option(self, params: t.Mapping[str, t.Any], name: str) -> str:
        """Return what an option asks for, empty where that is nothing."""
        return "" if self._back or params[name] == UNMANAGED else params[name]

    def observe(self) -> State:
        """Read the host; the lock is held from the first observation on."""
        if not self._locked:
            self._stack.enter_context(self._host.lock(LOCK, timeout=self._seconds))
            self._locked = True
        kept = parse(self._host.read(PATH))
        if not self._iommu and not kept.command_line.added:
            return State(kept, observe.booted(self._host))
        self._loader, found = observe.iommu(self._host)
        guests = observe.guests(self._host) if self._iommu == OFF else ()
        return State(kept, found, processor(self._host.read("/proc/cpuinfo") or ""), guests)

    def plan(self, state: State) -> Plan:
        """Plan each setting; refuse before anything is changed."""
        words = asked(self._iommu, state.processor)
        return iommu.plan(state.iommu, state.kept.command_line, self._iommu, words, state.guests)

    def own(self, _state: State) -> OwnFiles:
        """Return what is root's alone."""
        return OwnFiles(self._host, {PATH: 0o644, DROP_IN: 0o644})

    def apply(self, step: Step) -> None:
        """Carry out one step. What is added is written down before, and what is gone after it."""
        params = step.params
        if step.action == iommu.NOTE:
            if params["lines"]:
                self._host.write(NOTED, "\n".join(params["lines"]) + "\n", mode=0o644)
            else:
                self._host.remove(NOTED)
            return
        if self._loader is None:
            raise NodeError("the kernel command line was not read yet")
        new, kept = params["kept"], parse(self._host.read(PATH))
        self._write(kept._replace(command_line=kept.command_line.with_those_of(new)))
        self._loader.write(new.added, params["add"], params["remove"])
        self._write(kept._replace(command_line=new))

    def _write(self, kept: Kept) -> None:
        if kept == Kept():
            self._host.remove(PATH)
        else:
            self._host.write(PATH, dump(kept), mode=0o644)

    def result(self, state: State, plan: Plan) -> t.Dict[str, t.Any]:
        """Report what the host is set to."""
        return {
            "state": "absent" if self._back else "present",
            "iommu": {
                "wanted": self._iommu,
                "in_force": state.iommu.in_force,
                "loader": state.iommu.loader,
            },
        }
