# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""dnf."""

from __future__ import annotations

import re
import typing as t

from ..._core.errors import NodeError
from ..._core.packages import rpm
from ..._core.packages.package import Change, Policy, Simulation
from ..api import Completed
from .api import tail
from .rpm import Rpm

DNF_LOCKS = "/etc/dnf/plugins/versionlock.list"
KEEP = "--setopt=clean_requirements_on_remove=False"


class Dnf(Rpm):
    """dnf 4, whose plugin versionlock keeps packages at their version."""

    tool, unhold = "dnf", "remove the lock: dnf versionlock delete"

    def _locked(self) -> t.FrozenSet[str]:
        return rpm.parse_dnf_locks(self._host.read(DNF_LOCKS) or "")

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        words = ["repoquery", "--available", "--showduplicates", "--qf", rpm.DNF_FORMAT]
        done = self._dnf([*words, *names], check=False)
        return rpm.parse_repoquery(done.out, set(names)) if done.rc == 0 else {}

    def known(self, prefix: str) -> t.List[str]:
        return self._dnf(["repoquery", "--qf", "%{name}", f"{prefix}*"]).out.split()

    def update(self) -> str:
        done = self._dnf(["--assumeyes", "makecache", "--refresh"], check=False)
        return "" if done.rc == 0 else tail(done)

    def simulate(self, change: Change) -> Simulation:
        done = self._shell(["--assumeno"], change, check=False)
        found = rpm.parse_dnf_transaction(done.out)
        if not any(found) and "Nothing to do" not in done.out + done.err:
            raise self._no_way(done, change)
        return found

    def change(self, change: Change) -> None:
        self._shell(["-y"], change)

    def by_hand(self, change: Change) -> str:
        return "dnf history undo last"

    def purge(self, names: t.Sequence[str]) -> None:
        if names:
            self._call(["rpm", "--erase", "--test", *names])
            self._dnf(["-y", KEEP, "remove", *names])

    def hold(self, names: t.Sequence[str]) -> None:
        done = self._host.run(["dnf", "-q", "versionlock", "list"], check=False)
        if done.rc != 0:
            raise NodeError(
                "dnf cannot lock packages at their version",
                cause=tail(done),
                hint="install its plugin versionlock (python3-dnf-plugin-versionlock), or set hold to false",
            )
        stale = sorted(set(names) & self._locked())
        if stale:
            self.release(stale)
        self._call(["dnf", "-q", "versionlock", "add", *names])

    def release(self, names: t.Sequence[str]) -> None:
        self._call(["dnf", "-q", "versionlock", "delete", *names])

    def _dnf(self, words: t.Sequence[str], *, check: bool = True) -> Completed:
        # Locks of ours would hide versions; those of others are respected by the plan.
        options = ["-q", "--disableplugin=versionlock", "--setopt=exit_on_lock=True"]
        return self._call(["dnf", *options, *words], check=check)

    def module(self, words: t.Sequence[str], *, check: bool = False) -> str:
        """Call ``dnf module`` and return what it prints, nothing where it fails and may."""
        done = self._dnf(["--assumeyes", "module", *words], check=check)
        return done.out if done.rc == 0 else ""

    def _shell(self, options: t.Sequence[str], change: Change, *, check: bool = True) -> Completed:
        lines = [
            f"install {name}-{version}" if version else f"install {name}"
            for name, version in change.packages.items()
        ]
        lines += [f"remove {name}" for name in change.remove]
        words = ["dnf", *options, "--disableplugin=versionlock", "--setopt=exit_on_lock=True", KEEP]
        words += ["--setopt=install_weak_deps=False", "shell"]
        done = self._call(words, check=check, stdin="\n".join([*lines, "run", "exit"]) + "\n")
        # The shell ends with status 0 whatever happened in it.
        if check and re.search(r"^(?:Error|Failed)\b", done.out + "\n" + done.err, flags=re.M):
            raise NodeError(
                "dnf could not carry out the transaction",
                cause=tail(done),
                hint="fix the cause named above and run again, which finishes what was begun",
            )
        return done
