# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""apt and dpkg."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import typing as t

from ..._base.errors import NodeError
from ..._base.packages import apt
from ..._base.packages.apt import Source, parse_deb822, parse_one_line
from ..._base.packages.package import Change, Package, Policy, Relations, Simulation, State
from ..host import Completed
from .api import PackageManager

FOLDER = "/etc/apt/sources.list.d"
OWN_SOURCES = f"{FOLDER}/gpu-node.sources"
PREFERENCES = "/etc/apt/preferences"
OWN_PREFERENCES = "/var/lib/gpu-node/apt-preferences"
# confdef takes the default where there is one, confold keeps the user's file where there is none.
CONFIG_FILES = ("--force-confdef", "--force-confold")
FORCE = ("--no-install-recommends", "--allow-change-held-packages", "--allow-downgrades")
ARCHIVE = "/var/cache/apt/archives"


class Apt(PackageManager):
    """apt, and dpkg below it."""

    environment = {
        "DEBIAN_FRONTEND": "noninteractive",
        "APT_LISTCHANGES_FRONTEND": "none",
        "UCF_FORCE_CONFFOLD": "1",
        # It must not restart containerd. Ubuntu's own mode is out where it is not run at all.
        "NEEDRESTART_MODE": "l",
        "NEEDRESTART_SUSPEND": "1",
    }
    tool, on_hold, unhold = "apt", "on hold", "release it: apt-mark unhold"
    obstacles = "a pin or a foreign source"
    _aside: t.Optional[tempfile.TemporaryDirectory[str]] = None

    def _locks(self) -> t.Tuple[str, ...]:
        return "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock"

    def _is_busy(self, done: Completed) -> bool:
        return done.rc != 0 and apt.is_busy(done.err)

    # --- looking ---

    def _packages(self) -> t.Dict[str, Package]:
        # Without the pattern those that are only on hold are missing.
        command = ["dpkg-query", "-W", "-f", apt.DPKG_FORMAT, "*"]
        return apt.parse_packages(self._host.run(command).out)

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        return apt.parse_policy(self._host.run(self._of(["apt-cache", "policy", *names])).out)

    def known(self, prefix: str) -> t.List[str]:
        return self._host.run(self._of(["apt-cache", "pkgnames", prefix])).out.split()

    def relations(self, names: t.Collection[str]) -> Relations:
        # It fails where it does not know one of them.
        command = self._of(["apt-cache", "show", *names])
        return apt.parse_relations(self._host.run(command, check=False).out)

    def unneeded(self, change: Change) -> t.Set[str]:
        with self._pins(change) as pins:
            command = ["apt-get", "--simulate", *pins, "--auto-remove", *_words(change)]
            done = self._call(self._of(command), check=False)
        return set(apt.parse_simulation(done.out).removed) if done.rc == 0 else set()

    def interrupted(self) -> bool:
        # dpkg's journal has numbered files then.
        return any(name.isdigit() for name in self._host.listdir("/var/lib/dpkg/updates"))

    def sources(self) -> t.Tuple[Source, ...]:
        host = self._host
        found = parse_one_line(host.read("/etc/apt/sources.list") or "")
        for name in host.listdir(FOLDER):
            path = f"{FOLDER}/{name}"
            if name.endswith(".list"):
                found += parse_one_line(host.read(path) or "")
            elif name.endswith(".sources"):
                text = host.read(path) or ""
                if path != OWN_SOURCES or not text.startswith(apt.HEADER):
                    found += parse_deb822(text)
        return tuple(found)

    def _needed(self, names: t.Set[str]) -> t.Tuple[t.Set[str], t.Set[str]]:
        dragged = self._simulate_purge(names) - names
        if not dragged:
            return dragged, set()
        # Where apt does not tell what they need, it may be any of them.
        return dragged, names & self.dependencies(dragged) or names

    def dependencies(self, names: t.Collection[str]) -> t.FrozenSet[str]:
        command = ["apt-cache", "depends", "--recurse", "--installed", "--important"]
        return apt.parse_dependencies(self._host.run([*command, *sorted(names)]).out)

    def leftover(self, names: t.Collection[str], along: t.Collection[str]) -> t.Tuple[str, ...]:
        # apt refuses to simulate the removal of what a package on hold needs, so it is asked what is unneeded.
        free = self.removal(names).packages
        if not free:
            return ()
        options = ["--simulate", "--allow-change-held-packages", "--auto-remove", "purge"]
        done = self._call(["apt-get", *options, *free])
        return tuple(sorted({*names, *along} & {*apt.parse_simulation(done.out).removed}))

    def _simulate_purge(self, names: t.Iterable[str]) -> t.Set[str]:
        # Our holds are released before; solver 3.0 would refuse to tell what would go along.
        options = ["--simulate", "--ignore-hold", "-o", "APT::Solver=internal"]
        options += ["--allow-change-held-packages", "purge"]
        done = self._call(["apt-get", *options, *sorted(names)])
        return set(apt.parse_simulation(done.out).removed)

    def _pinned(self, names: t.Collection[str]) -> str:
        there = self._host.listdir(f"{PREFERENCES}.d")
        # Those that begin as ours do are written with the repository that the user names.
        others = [f"{PREFERENCES}.d/{one}" for one in there if not one.startswith("gpu-node-")]
        texts = {path: self._host.read(path) or "" for path in (PREFERENCES, *others)}
        found = apt.pins_of(texts, names)
        words = [f"{path} pins {', '.join(hit)}" for path, hit in found.items()]
        hint = "let it allow what apt names, or ask for another version"
        return f"{'; '.join(words)}: {hint}" if words else ""

    # --- changing ---

    def update(self) -> str:
        done = self._call(["apt-get", "-q", "update"], check=False)
        complaints = [line for line in done.err.split("\n") if line.startswith(("W:", "E:"))]
        return "; ".join(complaints[-4:])

    def update_aside(self) -> bool:
        # Gone with this process.
        self._aside = tempfile.TemporaryDirectory(prefix="gpu-node-lists-")
        os.mkdir(f"{self._aside.name}/partial")
        done = self._call(self._of(["apt-get", "-q", "update"]), check=False)
        if done.rc != 0 or "Failed to fetch" in done.err:
            self._aside = None  # what is missing here the node's own lists have
        return self._aside is not None

    def _of(self, command: t.Sequence[str]) -> t.List[str]:
        """Return a command that reads the lists that were fetched aside, where some were."""
        if self._aside is None:
            return [*command]
        options = ["-o", f"Dir::State::lists={self._aside.name}/"]
        options += ["-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="]
        return [command[0], *options, *command[1:]]

    def simulate(self, change: Change) -> Simulation:
        with self._pins(change) as pins:
            command = ["apt-get", "--simulate", *pins, *_words(change)]
            done = self._call(self._of(command), check=False)
        if done.rc != 0:
            raise self._no_way(done, change)
        found = apt.parse_simulation(done.out)
        self._respect({*found.new} - change.packages.keys() if change.pins else ())
        return found

    def _respect(self, names: t.Collection[str]) -> None:
        """Refuse what the user's preferences keep away in every version, which pins of ours would overrule."""
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
            self._change([*pins, *_words(change)])

    def fetch(self, change: Change) -> None:
        with self._pins(change) as pins:
            self._change([*pins, "--download-only", *_words(change)])

    def automatic(self) -> t.FrozenSet[str]:
        return frozenset(self._call(["apt-mark", "showauto"]).out.split())

    def restore(self, change: Change, automatic: t.Collection[str]) -> None:
        # They are in apt's archive where the sources no longer have them.
        self._change([*FORCE, "--purge", "install", *self._wanted(change)])
        if automatic:
            self._call(["apt-mark", "auto", *sorted(automatic)])

    def by_hand(self, change: Change) -> str:
        return shlex.join(["apt-get", *FORCE, "install", *self._wanted(change)])

    def _wanted(self, change: Change) -> t.List[str]:
        policies = self.policies(sorted(change.packages))
        archive = self._host.listdir(ARCHIVE)
        command = []
        for name, version in change.packages.items():
            offered = name in policies and version in policies[name].versions
            start = f"{name}_{(version or '').replace(':', '%3a')}_"
            files = [one for one in archive if one.startswith(start) and one.endswith(".deb")]
            command.append(f"{name}={version}" if offered or not files else f"{ARCHIVE}/{files[0]}")
        return command + [f"{name}-" for name in change.remove]

    def _change(self, command: t.Sequence[str]) -> None:
        options = ["-y", "-q", "-o", "Dpkg::Use-Pty=0"]
        options += ["-o", f"DPkg::Lock::Timeout={int(self._timeout)}"]
        for one in CONFIG_FILES:
            options += ["-o", f"Dpkg::Options::={one}"]
        self._call(["apt-get", *options, *command])

    def purge(self, names: t.Sequence[str]) -> None:
        more = self._simulate_purge(names) - set(names)
        if more:
            raise NodeError(
                f"the removal would take {', '.join(sorted(more))} along; nothing was removed",
                hint="run again: what they need stays then",
            )
        self._change(["purge", *names])

    @contextlib.contextmanager
    def _pins(self, change: Change) -> t.Iterator[t.List[str]]:
        """Give apt's options that keep packages at versions, for one call."""
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

    def repair(self) -> None:
        self._call(["dpkg", *CONFIG_FILES, "--configure", "-a"], check=False)
        broken = {name: one for name, one in self.packages().items() if one.broken}
        half = State.HALF_INSTALLED
        halves = {name: one for name, one in broken.items() if one.state is half or one.torn}
        try:
            self._reinstall(halves)
        except NodeError:
            # What is unpacked beside them may need them in its own version, and it is not the one that apt takes.
            if not halves or halves == broken:
                raise
            self._reinstall(broken)
        self._call(["dpkg", *CONFIG_FILES, "--configure", "-a"])
        left = [name for name, package in self.packages().items() if package.broken]
        if left:
            raise NodeError(
                f"dpkg can't finish with {', '.join(sorted(left))}",
                hint=f"look at what it says: apt-get install --reinstall {' '.join(sorted(left))}",
            )

    def _reinstall(self, torn: t.Mapping[str, Package]) -> None:
        command = ["--fix-broken", "--no-remove", "--no-install-recommends"]
        command += ["--reinstall", "--allow-change-held-packages"] if torn else []
        self._change([*command, "install", *torn])
        held = [name for name, one in torn.items() if one.held]
        if held:
            self.hold(held)  # apt drops the hold of what it installs

    def hold(self, names: t.Sequence[str]) -> None:
        self._call(["apt-mark", "hold", *names])

    def release(self, names: t.Sequence[str]) -> None:
        self._call(["apt-mark", "unhold", *names])


def _words(change: Change) -> t.List[str]:
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
