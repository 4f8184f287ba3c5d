# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""apt and dpkg."""

from __future__ import annotations

import contextlib
import re
import shlex
import typing as t

from ..._base.errors import NodeError
from ..._base.packages import apt
from ..._base.packages.package import (
    Change,
    Package,
    Policy,
    Relations,
    Simulation,
    broken_of,
    still_there,
)
from ..host import Completed
from .api import Locked, OutOfOrder, failure
from .apt_sources import UNREADABLE, AptSources, complaints

PREFERENCES = "/etc/apt/preferences"
OWN_PREFERENCES = "/var/lib/gpu-node/apt-preferences"
# confdef takes the default if there is one, otherwise confold keeps the user's file.
CONFIG_FILES = ("--force-confdef", "--force-confold")
FORCE = ("--no-install-recommends", "--allow-change-held-packages", "--allow-downgrades")
REMOVE_TORN = "--force-remove-reinstreq"
# apt reads no preferences whose names have another extension: apt_preferences(5).
OTHERS_NAME = re.compile(r"(?!(?:zz-)?gpu-node-)[A-Za-z0-9_-]+(?:\.pref)?")
ARCHIVE = "/var/cache/apt/archives"


class Apt(AptSources):
    """apt, and dpkg below it."""

    environment = {
        "DEBIAN_FRONTEND": "noninteractive",
        "APT_LISTCHANGES_FRONTEND": "none",
        "UCF_FORCE_CONFFOLD": "1",
        # needrestart must not restart containerd. Ubuntu has a mode of its own, so it does not run at all.
        "NEEDRESTART_MODE": "l",
        "NEEDRESTART_SUSPEND": "1",
    }
    tool, on_hold, unhold = "apt", "on hold", "release it: apt-mark unhold"
    obstacles = "a pin or a foreign source"

    def _locks(self) -> t.Tuple[str, ...]:
        return "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"

    def _is_busy(self, completed: Completed) -> bool:
        return completed.rc != 0 and apt.is_busy(completed.err)

    # --- looking ---

    def _packages(self) -> t.Dict[str, Package]:
        # Without the pattern packages that are only on hold are missing.
        command = ["dpkg-query", "-W", "-f", apt.DPKG_FORMAT, "*"]
        return apt.parse_packages(self._host.run(command).out)

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        return apt.parse_policy(self._look(["apt-cache", "policy", *names]).out)

    def known(self, prefix: str) -> t.List[str]:
        return self._look(["apt-cache", "pkgnames", prefix]).out.split()

    def relations(self, names: t.Collection[str]) -> Relations:
        # It fails if it does not know one of them.
        command = self._of(["apt-cache", "show", *names])
        return apt.parse_relations(self._host.run(command, check=False).out)

    def unneeded(self, change: Change) -> t.Set[str]:
        with self._pins(change) as pins:
            command = ["apt-get", "--simulate", *pins, "--auto-remove", *_install_command(change)]
            completed = self._call(self._of(command), check=False)
        return set(apt.parse_simulation(completed.out).removed) if completed.rc == 0 else set()

    def interrupted(self) -> bool:
        # dpkg's journal has numbered files then.
        return any(name.isdigit() for name in self._host.listdir("/var/lib/dpkg/updates"))

    def _needed(self, names: t.Set[str]) -> t.Tuple[t.Set[str], t.Set[str]]:
        removed = self._simulate_purge(names)
        if removed is None:
            # dpkg looks only at the packages that would be removed.
            command = ["dpkg", REMOVE_TORN, "--no-act", "--purge", *sorted(names)]
            completed = self._call(command, check=False)
            needs = apt.parse_removal(f"{completed.out}\n{completed.err}")
            users = {user for user, _package in needs} - names
            return users, {package for user, package in needs if user in users} & names or names
        dragged = removed - names
        if not dragged:
            return dragged, set()
        # If apt does not say what they need, it may be any of them.
        return dragged, names & self.dependencies(dragged) or names

    def dependencies(self, names: t.Collection[str]) -> t.FrozenSet[str]:
        command = ["apt-cache", "depends", "--recurse", "--installed", "--important"]
        return apt.parse_dependencies(self._call_offline([*command, *sorted(names)]).out)

    def leftover(self, names: t.Collection[str], along: t.Collection[str]) -> t.Tuple[str, ...]:
        # apt refuses to simulate the removal of dependencies of a package on hold, so it lists unneeded packages.
        free = self.removal(names).packages
        if not free:
            return ()
        options = ["--simulate", "--allow-change-held-packages", "--auto-remove", "purge"]
        completed = self._call_offline(["apt-get", *options, *free], check=False)
        return tuple(sorted({*names, *along} & {*apt.parse_simulation(completed.out).removed}))

    def _simulate_purge(self, names: t.Iterable[str]) -> t.Optional[t.Set[str]]:
        """Return the packages that a removal would take, None if apt refuses every transaction."""
        # Our holds are released before; solver 3.0 would refuse to say what else would be removed.
        options = ["--simulate", "--ignore-hold", "-o", "APT::Solver=internal"]
        options += ["--allow-change-held-packages", "purge"]
        command = ["apt-get", *options, *sorted(names)]
        completed = self._call_offline(command, check=False)
        if completed.rc == 0:
            return set(apt.parse_simulation(completed.out).removed)
        if apt.refuses_all(f"{completed.out}\n{completed.err}"):
            return None
        raise failure(command, completed)

    def _preferences(self) -> t.Dict[str, str]:
        """Return the files of the user's preferences, by their paths."""
        # Those that are called as ours are written with the repository that the user names.
        names = filter(OTHERS_NAME.fullmatch, self._host.listdir(f"{PREFERENCES}.d"))
        paths = [f"{PREFERENCES}.d/{name}" for name in names]
        return {path: self._host.read(path) or "" for path in (PREFERENCES, *paths)}

    def _pinned(self, names: t.Collection[str]) -> str:
        pins = apt.pins_of(self._preferences(), names)
        phrases = [f"{path} pins {', '.join(hit)}" for path, hit in pins.items()]
        hint = "let it allow what apt names, or ask for another version"
        return f"{'; '.join(phrases)}: {hint}" if phrases else ""

    # --- changing ---

    def update(self) -> str:
        completed = self._call(["apt-get", "-q", "update"], check=False)
        return complaints(completed)

    def simulate(self, change: Change) -> Simulation:
        with self._pins(change) as pins:
            command = ["apt-get", "--simulate", *pins, *_install_command(change)]
            completed = self._call(self._of(command), check=False)
        if UNREADABLE in completed.err:
            self.check_sources({})
        if completed.rc != 0:
            raise self._refused(completed) or self._no_way(completed, change)
        simulation = apt.parse_simulation(completed.out)
        self._respect({*simulation.new} - change.packages.keys() if change.pins else ())
        # Warn of the user's preferences that an exact version overrules.
        chosen = {name: version for name, version in change.packages.items() if version}
        files = self._preferences()
        policies = self.policies(sorted(chosen)) if apt.pins_of(files, chosen) else {}
        for path, names in apt.overruled_pins(files, chosen, policies).items():
            pinned, version = ", ".join(names), apt.upstream(chosen[names[0]])
            self.warnings[f"version {version} overrules {path}, which pins {pinned}"] = None
        return simulation

    def _refused(self, completed: Completed) -> t.Optional[OutOfOrder]:
        """Return the error if apt refuses all transactions, since installed packages are not in order."""
        output = f"{completed.out}\n{completed.err}"
        if not apt.refuses_all(output):
            return None
        command = "apt-get --fix-broken install"
        broken = self._broken()
        if any(package.needs_files for package in broken.values()):
            command = apt.repair_command(broken)
        return OutOfOrder(
            "apt refuses every transaction, since packages on the node are not in order; nothing was changed",
            cause=apt.unmet(output) if "unmet dependencies" in output else apt.read_errors(output),
            hint=f"run {command} on the node, look at what it would remove, then run again",
        )

    def _respect(self, names: t.Collection[str]) -> None:
        """Refuse packages that the user's preferences bar in every version, which pins of ours would overrule."""
        known = self.policies(sorted(names)) if names else {}
        barred = [name for name in sorted(names) if name in known and not known[name].versions]
        if barred:
            raise NodeError(
                f"the packages of {self._purpose} need {', '.join(barred)}, which preferences of the node keep away; "
                "nothing was changed",
                hint=self._pinned(barred) or f"look for a pin: apt-cache policy {' '.join(barred)}",
            )

    def change(self, change: Change) -> None:
        with self._pins(change) as pins:
            self._carry_out(change, [*pins, *_install_command(change)])

    def _carry_out(self, change: Change, command: t.Sequence[str]) -> None:
        """Carry out a transaction. It succeeds if apt fails only to configure packages that were broken before."""
        if self.interrupted():
            self._configure_all()
        before = self._broken()
        try:
            self._change(command)
        except Locked:
            raise
        except NodeError:
            after = self._packages()
            broken = broken_of(after)
            as_before = broken.keys() <= before.keys()
            if self.interrupted() or not as_before or not change.is_done(after):
                raise
            self._warn_of(broken)

    def _broken(self) -> t.Dict[str, Package]:
        return broken_of(self._packages())

    def _warn_of(self, broken: t.Mapping[str, Package]) -> None:
        """Warn of packages of others that are not in order."""
        if broken:
            self.warnings[apt.describe_broken(broken)] = None

    def fetch(self, change: Change) -> None:
        with self._pins(change) as pins:
            self._change([*pins, "--download-only", *_install_command(change)])

    def automatic(self) -> t.FrozenSet[str]:
        return frozenset(self._call_offline(["apt-mark", "showauto"]).out.split())

    def restore(self, change: Change, automatic: t.Collection[str]) -> None:
        # They are in apt's archive if the sources no longer have them.
        self._carry_out(change, [*FORCE, "--purge", "install", *self._requested(change)])
        if automatic:
            self._call(["apt-mark", "auto", *sorted(automatic)])

    def by_hand(self, change: Change) -> str:
        return shlex.join(["apt-get", *FORCE, "install", *self._requested(change)])

    def _requested(self, change: Change) -> t.List[str]:
        policies = self.policies(sorted(change.packages))
        archive = self._host.listdir(ARCHIVE)
        command = []
        for name, version in change.packages.items():
            offered = name in policies and version in policies[name].versions
            start = f"{name}_{(version or '').replace(':', '%3a')}_"
            files = [file for file in archive if file.startswith(start) and file.endswith(".deb")]
            command.append(f"{name}={version}" if offered or not files else f"{ARCHIVE}/{files[0]}")
        return command + [f"{name}-" for name in change.remove]

    def _change(self, command: t.Sequence[str]) -> None:
        options = ["-y", "-q", "-o", "Dpkg::Use-Pty=0"]
        options += ["-o", f"DPkg::Lock::Timeout={int(self._timeout)}"]
        for option in CONFIG_FILES:
            options += ["-o", f"Dpkg::Options::={option}"]
        call = self._call_offline if "purge" in command else self._call
        call(["apt-get", *options, *command])

    def purge(self, names: t.Sequence[str]) -> None:
        more = self._needed({*names})[0]
        if more:
            raise NodeError(
                f"the removal would take {', '.join(sorted(more))} along; nothing was removed",
                hint="run again: what they need stays then",
            )
        try:
            self._change(["-o", f"Dpkg::Options::={REMOVE_TORN}", "purge", *names])
        except Locked:
            raise
        except NodeError:
            # apt also fails at packages of others: dpkg removes what it has left.
            if self.interrupted():
                self._configure_all()
            left = still_there(names, self._packages())
            if left:
                self._call(["dpkg", REMOVE_TORN, "--purge", *left], check=False)
            if still_there(left, self._packages()):
                raise
            self._warn_of(self._broken())

    @contextlib.contextmanager
    def _pins(self, change: Change) -> t.Iterator[t.List[str]]:
        """Yield apt's options that keep packages at versions, for one call."""
        try:
            if change.pins:
                text = preferences(change.pins, self._host.read(PREFERENCES) or "")
                self._host.write(OWN_PREFERENCES, text, mode=0o644)
            pins = ["-o", f"Dir::Etc::Preferences={OWN_PREFERENCES}"]
            yield pins if change.pins else []
        finally:
            self.clean()

    def clean(self) -> None:
        self._host.remove(OWN_PREFERENCES)

    def finish(self, names: t.Collection[str]) -> None:
        try:
            self.repair()
        except Locked:
            raise
        except NodeError:
            broken = self._broken()
            refuses = self._call(["apt-get", "check"], check=False).rc != 0
            if refuses or self.interrupted() or not broken.keys().isdisjoint(names):
                raise
            self._warn_of(broken)

    def check_repair(self) -> None:
        broken = self._broken()
        torn = {name: package for name, package in broken.items() if package.needs_files}
        for packages in ([*torn], [*broken]):
            completed = self._call(["apt-get", "--simulate", *_repair(packages)], check=False)
            if completed.rc == 0 or not torn:
                break
        if completed.rc != 0:
            error = self._refused(completed)
            error = error or self._refused(self._call(["apt-get", "check"], check=False))
            if error:
                raise error

    def _configure_all(self) -> None:
        """Finish what a killed dpkg has begun, as far as possible."""
        self._call(["dpkg", *CONFIG_FILES, "--configure", "-a"], check=False)

    def repair(self) -> None:
        self._configure_all()
        broken = self._broken()
        halves = {name: package for name, package in broken.items() if package.needs_files}
        try:
            self._reinstall(halves)
        except NodeError:
            # What is unpacked beside them may need them in its own version, and it is not the one that apt takes.
            if not halves or halves == broken:
                raise
            self._reinstall(broken)
        self._call(["dpkg", *CONFIG_FILES, "--configure", "-a"])
        left = self._broken()
        if left:
            raise NodeError(
                f"dpkg can't finish with {', '.join(sorted(left))}",
                hint=f"look at what it says: apt-get install --reinstall {' '.join(sorted(left))}",
            )

    def _reinstall(self, torn: t.Mapping[str, Package]) -> None:
        self._change(_repair([*torn]))
        held = [name for name, package in torn.items() if package.held]
        if held:
            self.hold(held)  # apt drops the hold of what it installs

    def hold(self, names: t.Sequence[str]) -> None:
        self._call(["apt-mark", "hold", *names])

    def release(self, names: t.Sequence[str]) -> None:
        self._call_offline(["apt-mark", "unhold", *names])


def _repair(torn: t.Sequence[str]) -> t.List[str]:
    """Return apt-get's arguments that bring packages in order and remove none."""
    command = ["--fix-broken", "--no-remove", "--no-install-recommends"]
    command += ["--reinstall", "--allow-change-held-packages"] if torn else []
    return [*command, "install", *torn]


def _install_command(change: Change) -> t.List[str]:
    command = [*FORCE, "install"]
    packages = change.packages.items()
    command += [f"{name}={version}" if version else name for name, version in packages]
    return command + [f"{name}-" for name in change.remove]


def preferences(pins: t.Mapping[str, str], existing: str) -> str:
    """Return an apt preferences file that keeps packages at versions, beside what was there."""
    stanzas = [existing.strip("\n")] if existing.strip() else []
    stanzas += [
        f"Package: {packages}\nPin: version {version}\nPin-Priority: 1001"
        for packages, version in sorted(pins.items())
    ]
    return "\n\n".join(stanzas) + "\n"
