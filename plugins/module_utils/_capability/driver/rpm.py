# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""rpm with dnf and with zypper, as nvidia_driver uses them."""

from __future__ import annotations

import re
import shlex
import typing as t

from ..._core.driver.record import Record
from ..._core.driver.select import Removal
from ..._core.errors import NodeError
from ..._core.packages import rpm
from ..._core.packages.apt import Package, Policy, Simulation
from ..._core.packages.apt_sources import Source
from ..._host.api import Completed, Host
from ..package_manager import Caller, Change, tail

DNF_LOCKS = "/etc/dnf/plugins/versionlock.list"
ZYPPER_LOCKS = "/etc/zypp/locks"
ZYPPER_BUSY = 7
ZYPPER_NOTHING_FOUND = 104
# Installed, but a restart or a reboot is advised, or a script of a package has complained.
ZYPPER_GOOD = (0, 102, 103, 106, 107)
RPM_BUSY = re.compile(r"transaction lock on|Existing lock |[Ww]aiting for process with pid")
RPM_KEYS = ("rpm", "-q", "--qf", "%{VERSION}-%{RELEASE}\\n")
# dnf's shell ends with status 0 all the same; nothing was done then.
DNF_LOCKED = re.compile(r"^Error: .* already locked by \d+", re.M)
KEEP = "--setopt=clean_requirements_on_remove=False"


def _of(name: str, version: str) -> str:
    """Return how rpm calls one version of a package."""
    return f"{name}-{version.split(':')[-1]}"


class _Rpm:
    """What both have in common: rpm knows what is installed and what needs it."""

    def __init__(self, host: Host, timeout: float, environment: t.Mapping[str, str]) -> None:
        self._host = host
        self._call = Caller(host, timeout, self._is_busy, environment)

    def _is_busy(self, done: Completed) -> bool:
        said = f"{done.out}\n{done.err}"
        return bool(DNF_LOCKED.search(said) or (done.rc != 0 and RPM_BUSY.search(said)))

    def _locked(self) -> t.FrozenSet[str]:
        raise NotImplementedError

    def packages(self) -> t.Dict[str, Package]:
        """Return the packages that are there or locked."""
        return rpm.parse_packages(self._all(), self._locked())

    def _all(self) -> str:
        return self._host.run(["rpm", "-qa", "--qf", rpm.RPM_FORMAT]).out

    def interrupted(self) -> bool:
        """Packages that are there twice tell, and are marked; rpm has no journal for outsiders."""
        return False

    def repair(self) -> None:
        """Take away what a killed upgrade left of the older version, or a downgrade of the newer."""
        found = rpm.doubles(self._all())
        older = [_of(name, one) for name, versions in found for one in versions[:-1]]
        newer = [_of(name, one) for name, versions in found for one in versions[1:]]
        if found:
            test = self._call(["rpm", "--erase", "--test", *older], check=False)
            self._call(["rpm", "--erase", *(older if test.rc == 0 else newer)])

    def sources(self) -> t.Tuple[Source, ...]:
        """Repositories of rpm packages have no components that could be enabled."""
        return ()

    def clean(self) -> None:
        """Nothing is left behind."""

    def trusted(self) -> t.Tuple[str, ...]:
        """Return rpm's keys as VERSION-RELEASE; it has none where it was never taught one."""
        done = self._host.run([*RPM_KEYS, "gpg-pubkey"], check=False)
        return tuple(done.out.split()) if done.rc == 0 else ()

    def trust(self, path: str) -> None:
        """Believe a key, for all repositories: rpm knows no other way."""
        self._call(["rpm", "--import", path])

    def distrust(self, keys: t.Sequence[str]) -> None:
        """Forget keys."""
        self._call(["rpm", "--erase", *(f"gpg-pubkey-{one}" for one in keys)])

    def removal(self, record: Record, packages: t.Mapping[str, Package]) -> Removal:
        """Return what taking back the additions comes to: what others need stays."""
        ours = {name for name in record.packages if name in packages and packages[name].installed}
        kept: t.Set[str] = set()
        users: t.Set[str] = set()
        while ours - kept:
            done = self._call(["rpm", "--erase", "--test", *sorted(ours - kept)], check=False)
            needs = rpm.parse_needs(done.err + done.out)
            if done.rc == 0 or not needs:
                break
            users |= {user for _needed, user in needs} - set(record.packages)
            words = ["rpm", "-q", "--whatprovides", "--qf", "%{NAME}\\n"]
            asked = self._call([*words, *sorted({one for one, _user in needs})], check=False)
            needed = set(asked.out.split()) & (ours - kept)
            if not needed:
                raise NodeError(
                    "rpm does not say which of the added packages others need",
                    cause=tail(done),
                    hint="remove the packages that it names, then run again",
                )
            kept |= needed
        return Removal(tuple(sorted(ours - kept)), tuple(sorted(kept)), tuple(sorted(users)))

    def automatic(self) -> t.FrozenSet[str]:
        """Return nothing: rpm knows no dependencies that came by themselves."""
        return frozenset()

    def _refuse(self, tool: str, done: Completed, change: Change) -> NodeError:
        said = rpm.zypper_messages(done.out) + "\n" + done.err
        named = set(re.findall(r"[A-Za-z0-9][A-Za-z0-9_+.-]+", said))
        held = sorted((self._locked() & named) - change.holds)
        what = f" while {', '.join(held)} is locked" if held else ""
        return NodeError(
            f"{tool} finds no way to install the driver{what}; nothing was changed",
            cause=tail(Completed(done.rc, said, "")),
            hint=f"take the lock away: {self.unlock_words} {' '.join(held)}"
            if held
            else f"look at the packages that {tool} names: a repository or an exclusion is in the way",
        )

    unlock_words = ""


class Dnf(_Rpm):
    """dnf 4, whose plugin versionlock keeps packages at their version."""

    unlock_words = "dnf versionlock delete"

    def __init__(self, host: Host, timeout: float) -> None:
        super().__init__(host, timeout, {})

    def _locked(self) -> t.FrozenSet[str]:
        return rpm.parse_dnf_locks(self._host.read(DNF_LOCKS) or "")

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        """Return what the repositories offer."""
        words = ["repoquery", "--available", "--showduplicates", "--qf", rpm.DNF_FORMAT]
        done = self._dnf([*words, *names], check=False)
        return rpm.parse_repoquery(done.out, set(names)) if done.rc == 0 else {}

    def known(self, prefix: str) -> t.List[str]:
        """Return the names of the packages that begin so."""
        return self._dnf(["repoquery", "--qf", "%{name}", f"{prefix}*"]).out.split()

    def update(self) -> str:
        """Fetch the lists of the repositories."""
        done = self._dnf(["--assumeyes", "makecache", "--refresh"], check=False)
        return "" if done.rc == 0 else tail(done)

    def simulate(self, change: Change) -> Simulation:
        """Return what a transaction would do."""
        done = self._shell(["--assumeno"], change, check=False)
        found = rpm.parse_dnf_transaction(done.out)
        if not any(found) and "Nothing to do" not in done.out + done.err:
            raise self._refuse("dnf", done, change)
        return found

    def change(self, change: Change) -> None:
        """Install and remove packages in one transaction."""
        self._shell(["-y"], change)

    def restore(self, change: Change, automatic: t.Collection[str]) -> None:
        """Put packages back, in one transaction as well."""
        self.change(change)

    def by_hand(self, change: Change) -> str:
        """Return the command with which a person puts packages back."""
        return "dnf history undo last"

    def purge(self, names: t.Sequence[str]) -> None:
        """Remove packages and no other package."""
        if names:
            self._call(["rpm", "--erase", "--test", *names])
            self._dnf(["-y", KEEP, "remove", *names])

    def hold(self, names: t.Sequence[str]) -> None:
        """Lock packages at the version that is installed."""
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
        """Take the locks away."""
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
                hint="mend the cause named above and run again, which finishes what was begun",
            )
        return done


class Zypper(_Rpm):
    """zypper, whose locks keep packages at their version, and must be off while we change them."""

    unlock_words = "zypper removelock"

    def __init__(self, host: Host, timeout: float) -> None:
        super().__init__(host, timeout, {})

    def _is_busy(self, done: Completed) -> bool:
        return done.rc == ZYPPER_BUSY or super()._is_busy(done)

    def _locked(self) -> t.FrozenSet[str]:
        return rpm.parse_zypper_locks(self._host.read(ZYPPER_LOCKS) or "")

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        """Return what the repositories offer."""
        return self._search(["--match-exact", *(name for name in names if name)])

    def known(self, prefix: str) -> t.List[str]:
        """Return the names of the packages that begin so."""
        return sorted(self._search([f"{prefix}*"]))

    def _search(self, words: t.Sequence[str]) -> t.Dict[str, Policy]:
        options = ["--xmlout", "--no-refresh", "search", "--details", "--type", "package"]
        done = self._zypper([*options, *words], good=(0, ZYPPER_NOTHING_FOUND))
        return rpm.parse_zypper_search(done.out)

    def update(self) -> str:
        """Fetch the lists of the repositories."""
        done = self._zypper(["refresh"], check=False)
        return "" if done.rc == 0 else tail(done)

    def simulate(self, change: Change) -> Simulation:
        """Return what a transaction would do."""
        with_locks = sorted(self._locked() & change.holds)
        if with_locks:
            self.release(with_locks)
        try:
            done = self._install(["--xmlout"], ["--dry-run"], change, check=False)
        finally:
            if with_locks:
                self.hold(with_locks)
        if done.rc not in ZYPPER_GOOD:
            raise self._refuse("zypper", done, change)
        return rpm.parse_zypper_summary(done.out)

    def change(self, change: Change) -> None:
        """Install and remove packages in one transaction."""
        with_locks = self._locked() & change.holds
        if with_locks:
            self.release(sorted(with_locks))
        try:
            self._install([], [], change)
        finally:
            there = self.packages()
            again = sorted(name for name in with_locks if name in there)
            if again:
                self.hold(again)

    def restore(self, change: Change, automatic: t.Collection[str]) -> None:
        """Put packages back, in one transaction as well."""
        self.change(change)

    def by_hand(self, change: Change) -> str:
        """Return the command with which a person puts packages back."""
        return shlex.join(["zypper", "install", "--oldpackage", *_names(change)])

    def purge(self, names: t.Sequence[str]) -> None:
        """Remove packages and no other package."""
        if names:
            self._call(["rpm", "--erase", "--test", *names])
            self._zypper(["remove", "--no-clean-deps", *names])

    def hold(self, names: t.Sequence[str]) -> None:
        """Lock packages."""
        self._zypper(["addlock", *names])

    def release(self, names: t.Sequence[str]) -> None:
        """Take the locks away."""
        self._zypper(["removelock", *names])

    def _install(
        self,
        before: t.Sequence[str],
        options: t.Sequence[str],
        change: Change,
        *,
        check: bool = True,
    ) -> Completed:
        words = [*before, "install", *options, "--no-recommends", "--oldpackage"]
        words += ["--auto-agree-with-licenses", *_names(change)]
        return self._zypper(words, check=check)

    def _zypper(
        self, words: t.Sequence[str], *, check: bool = True, good: t.Sequence[int] = ZYPPER_GOOD
    ) -> Completed:
        return self._call(["zypper", "--non-interactive", *words], check=check, good=good)


def _names(change: Change) -> t.List[str]:
    """Return what zypper is told to install, and with a mark before it to remove."""
    names = [f"{name}={version}" if version else name for name, version in change.packages.items()]
    return names + [f"!{name}" for name in change.remove]
