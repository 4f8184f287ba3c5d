# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes of dictionaries with a package manager of dictionaries, and what a run of a module for software tells there."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import (
    Change,
    Package,
    Policy,
    Simulation,
    State,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages.pgp import read
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._machine import run
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.api import PackageManager

from tests.fakes.library.dcgm_nodes import Services
from tests.fakes.library.fakes import FakeHost

LONG = 120  # characters of a text, above which its digest is shown
SYSTEMS = {
    "debian": "ID=debian\nVERSION_CODENAME=trixie\n",
    "ubuntu": "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n",
    "rhel": 'ID=rocky\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n',
    "suse": 'ID=sles\nID_LIKE="suse"\nVERSION_ID="15.7"\n',
}


class SoftwareNode(Services, FakeHost):
    """A node; ``offered`` are the versions that its sources offer, ``coming`` those once the lists are fetched.

    ``users`` are packages by those that they need, ``rival`` is what goes where one that is new comes.
    """

    last: ClassVar[SoftwareNode]

    def __init__(self, system: str, offered: Mapping[str, Sequence[str]]) -> None:
        SoftwareNode.last = self
        FakeHost.__init__(self, {"/etc/os-release": SYSTEMS.get(system, system)})
        self.calls: list[tuple[str, ...]] = []
        self.there: dict[str, Package] = {}
        self.before = self.offered = self.coming = dict(offered)
        self.users: dict[str, str] = {}
        self.keys: tuple[str, ...] = ()
        self.rival = self.note = ""
        self.interrupted = False
        self.begin("580.95.05")

    def installed(self) -> dict[str, str]:
        return {name: one.version for name, one in self.there.items() if one.installed}

    def put(self, name: str, **values: Any) -> None:
        """Have a package be there, or be there otherwise."""
        before = self.there.get(name, Package("", "", State.INSTALLED))
        self.there[name] = before._replace(**values)

    def write(self, path: str, text: str, **values: Any) -> str | None:
        digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:12]
        self.calls.append(("write", path, text if len(text) <= LONG else digest))
        return super().write(path, text, **values)

    def remove(self, path: str) -> bool:
        found = super().remove(path)
        self.calls += [("remove", path)] if found else []
        return found

    def run(self, argv: Sequence[str], **values: Any) -> Completed:
        if tuple(argv[:2]) != ("systemctl", "show"):
            self.calls.append(tuple(argv))
        return super().run(argv, **values)


class Shelf(PackageManager):
    """The package manager of such a node."""

    tool = "shelf"

    @property
    def node(self) -> SoftwareNode:
        assert isinstance(self._host, SoftwareNode)
        return self._host

    def _locks(self) -> tuple[str, ...]:
        return ()

    def _is_busy(self, done: Completed) -> bool:
        return False

    def _packages(self) -> dict[str, Package]:
        return dict(self.node.there)

    def policies(self, names: Sequence[str]) -> dict[str, Policy]:
        found = {name: tuple(self.node.offered.get(name, ())) for name in names}
        return {name: Policy(one[0], one) for name, one in found.items() if one}

    def known(self, prefix: str) -> list[str]:
        return [name for name in self.node.offered if name.startswith(prefix)]

    def interrupted(self) -> bool:
        return self.node.interrupted

    def _needed(self, names: set[str]) -> tuple[set[str], set[str]]:
        needed = names & set(self.node.users)
        return {self.node.users[one] for one in needed}, needed

    def simulate(self, change: Change) -> Simulation:
        have = self.node.installed()
        new = tuple(sorted(name for name in change.packages if name not in have))
        lost = [self.node.rival] if new and self.node.rival in have else []
        return Simulation(new, (), (*change.remove, *lost))

    def update(self) -> str:
        self.node.calls.append(("update",))
        self.node.offered = self.node.coming
        return self.node.note

    def preview_sources(self, files: Mapping[str, str], removed: Collection[str]) -> str:
        self.node.calls.append(("preview", *sorted(files), *(f"-{path}" for path in removed)))
        self.node.before, self.node.offered = self.node.offered, self.node.coming
        return self.node.note

    def end_preview(self) -> None:
        self.node.calls.append(("end_preview",))
        self.node.offered = self.node.before

    def change(self, change: Change) -> None:
        words = [f"{name}={version}" for name, version in sorted(change.packages.items())]
        words += [f"-{name}" for name in sorted(change.remove)]
        self.node.calls.append(("change", *words, "holds", *sorted(change.holds)))
        for name, version in change.packages.items():
            self.node.put(name, version=version, state=State.INSTALLED)
        for name in change.remove:
            del self.node.there[name]

    def by_hand(self, change: Change) -> str:
        return "shelf"

    def purge(self, names: Sequence[str]) -> None:
        self.node.calls.append(("purge", *names))
        for name in names:
            del self.node.there[name]

    def repair(self) -> None:
        self.node.calls.append(("repair",))
        self.node.interrupted = False
        for name in self.node.there:
            self.node.put(name, state=State.INSTALLED, torn=False)

    def hold(self, names: Sequence[str]) -> None:
        self._held(names, held=True)

    def release(self, names: Sequence[str]) -> None:
        self._held(names, held=False)

    def _held(self, names: Collection[str], *, held: bool) -> None:
        self.node.calls.append(("hold" if held else "release", *names))
        for name in names:
            self.node.put(name, held=held)

    def check_hold(self) -> None:
        self.node.calls.append(("check_hold",))

    def clean(self) -> None:
        self.node.calls.append(("clean",))

    def trust(self, path: str) -> None:
        self.node.calls.append(("trust", path))
        self.node.keys = tuple(one.fingerprint for one in read(self.node.files[path], "key"))

    def distrust(self, keys: Sequence[str]) -> None:
        self.node.calls.append(("distrust", *keys))
        self.node.keys = ()

    def trusted(self) -> tuple[str, ...]:
        return self.node.keys


def told(
    node: SoftwareNode, make: Callable[..., Any], values: Mapping[str, Any], *, check_mode: bool
) -> dict[str, Any]:
    """Return what a run of a module tells, and what it calls, writes and leaves."""
    node.calls.clear()
    done: list[Step] = []
    found: dict[str, Any] = {}
    try:
        one = run.with_own_files(make(node, values, check_mode=check_mode))
        found = run._converge(check_mode, True, one, done)
    except NodeError as error:
        steps = [step.describe() for step in done]
        found = {"error": str(error), "until": error.until, "steps": steps, **error.details}
    found["calls"] = [" ".join(words) for words in node.calls]
    found["steps"] = [_line(one) for one in found["steps"]]
    return {key: value for key, value in found.items() if value}


def _line(step: Mapping[str, Any]) -> str:
    return " ".join([f"{step['action']}: {step['summary']}", *step["needs"]])


@dataclasses.dataclass(frozen=True)
class Situation:
    """A node before a run: what is ``offered`` at first, and what ``happened`` to it."""

    offered: Mapping[str, Sequence[str]]
    happened: Callable[[SoftwareNode], None] = lambda _node: None

    def node(self, system: str) -> SoftwareNode:
        """Return a node of a system in it."""
        found = SoftwareNode(system, self.offered)
        self.happened(found)
        return found
