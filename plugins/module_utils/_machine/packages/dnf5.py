# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""dnf 5, which Fedora calls dnf: it has no shell, keeps its locks in another file and waits for others by itself."""

from __future__ import annotations

import time
import typing as t

from ..._base.packages import rpm
from ..._base.packages.package import Change, Policy, Simulation
from ..host import Completed, Host
from .api import RETRY_SECONDS, Locked, PackageManager
from .rpm import KEEP, Dnf

PROGRAM = "/usr/bin/dnf"
LOCKS = "/etc/dnf/versionlock.toml"
# Who writes one of these is at work; dnf 5 would wait for as long as that takes.
GUARDS = (
    "/var/lib/dnf/system-repo.lock",
    "/usr/lib/sysimage/rpm/.rpm.lock",
    "/var/lib/rpm/.rpm.lock",
)
# It knows \\n in a format, and takes tabs as they are.
FORMAT = rpm.DNF_FORMAT.replace("\\t", "\t") + "\\n"
ANYWAY = "--setopt=disable_excludes=*"


def fitting_dnf(host: Host, timeout: float, purpose: str, variable: str = "") -> PackageManager:
    """Return the one that the node calls dnf."""
    five = (host.readlink(PROGRAM) or "").endswith("dnf5")
    return (Dnf5 if five else Dnf)(host, timeout, purpose, variable)


class Dnf5(Dnf):
    """dnf 5; its version locks are no plugin, so nothing has to be installed for them."""

    def _locked(self) -> t.FrozenSet[str]:
        return rpm.parse_dnf5_locks(self._host.read(LOCKS) or "")

    def _call(self, argv: t.Sequence[str], **values: t.Any) -> Completed:
        deadline = time.monotonic() + self._timeout
        while holder := self._holder():
            if time.monotonic() >= deadline:
                raise Locked(
                    f"another package manager is at work on the node, for longer than {self._timeout:g} s",
                    cause=f"the process {holder} holds its lock",
                    hint="wait until it has ended, or raise lock_timeout",
                )
            time.sleep(RETRY_SECONDS)
        return super()._call(argv, **values)

    def _holder(self) -> str:
        """Return the process that has locked what rpm has installed, empty where none has."""
        found = [self._host.status(path) for path in GUARDS]
        files = {str(one.inode) for one in found if one is not None}
        return rpm.writer(self._host.read("/proc/locks") or "", files) if files else ""

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        command = ["repoquery", "--available", f"--queryformat={FORMAT}", *names]
        done = self._dnf(command, check=False)
        return rpm.parse_repoquery(done.out, set(names)) if done.rc == 0 else {}

    def known(self, prefix: str) -> t.List[str]:
        return self._dnf(["repoquery", "--queryformat=%{name}\\n", f"{prefix}*"]).out.split()

    def simulate(self, change: Change) -> Simulation:
        found = super().simulate(change)
        if self._ours(change):
            self._check_excluded(found, change)
        return found

    def _check_excluded(self, found: Simulation, change: Change) -> None:
        """Refuse what the user's exclusions forbid: where our locks are left out of account, so are they."""
        names = {*found.new, *found.changed}
        missing = sorted(names - self.policies(sorted(names)).keys())
        if missing:
            words = f"excluded in dnf's configuration: {', '.join(missing)}"
            raise self._no_way(Completed(1, "", words), change)

    def check_hold(self) -> None:
        pass

    def _ours(self, change: Change) -> t.List[str]:
        return [ANYWAY] if self._locked() & change.holds else []

    def _dnf(self, command: t.Sequence[str], *, check: bool = True) -> Completed:
        return self._call(["dnf", "-q", *command], check=check)

    def _transaction(
        self, options: t.Sequence[str], change: Change, *, check: bool = True
    ) -> Completed:
        wanted = [f"{name}-{one}" if one else name for name, one in change.packages.items()]
        actions = ["--action=install", *wanted] if wanted else []
        actions += ["--action=remove", *change.remove] if change.remove else []
        command = [
            "dnf",
            "-q",
            *options,
            KEEP,
            "--setopt=install_weak_deps=False",
            *self._ours(change),
        ]
        return self._call([*command, "do", *actions], check=check)
