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
KEYS = "/etc/apt/keyrings/"
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
    can_preview = True
    tool, on_hold, unhold = "apt", "on hold", "release it: apt-mark unhold"
    obstacles = "a pin or a foreign source"
    _aside: t.Optional[tempfile.TemporaryDirectory[str]] = None
    # Leaves out our own sources file where apt can't read its sources because of it.
    _readable: t.Optional[contextlib.ExitStack] = None
    _parts: t.Sequence[str] = ()

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
        return apt.parse_policy(self._look(["apt-cache", "policy", *names]).out)

    def known(self, prefix: str) -> t.List[str]:
        return self._look(["apt-cache", "pkgnames", prefix]).out.split()

    def _look(self, command: t.Sequence[str]) -> Completed:
        """Run a command that reads apt's sources; where our own file keeps it from that, it is left out."""
        completed = self._host.run(self._of(command), check=False)
        if completed.rc != 0 and self._leave_out_own():
            completed = self._host.run(self._of(command), check=False)
        if completed.rc != 0:
            self.check_sources({})
            return self._call(self._of(command))
        return completed

    def _leave_out_own(self) -> bool:
        """Have apt read its sources without our own file, and return whether that helps."""
        own = set(filter(self._is_own, self._parts_there()))
        if self._readable or not own or self._read_sources({}, own):
            return False
        self._readable = contextlib.ExitStack()
        self._parts = self._readable.enter_context(self._trial_folder({}, own))
        return True

    def _read_own(self) -> None:
        """Have apt read all of its sources again."""
        if self._readable:
            self._readable.close()
            self._readable, self._parts = None, ()

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
        sources = self._sources()
        if not any(source.options for source in sources):
            return sources
        native = self._host.run(["dpkg", "--print-architecture"]).out.strip()
        return tuple(source for source in sources if source.has_architecture(native))

    def _sources(self) -> t.Tuple[Source, ...]:
        """Return the entries of all architectures."""
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

    def check_sources(self, files: t.Mapping[str, str], removed: t.Collection[str] = ()) -> None:
        written = sorted(path for path in files if path.startswith(FOLDER))
        error = self._read_sources(files, removed)
        if not error:
            if not files:
                self._read_own()
            return
        ours = {*written, *filter(self._is_own, self._parts_there())}
        if self._read_sources({}, ours):
            raise NodeError(
                "apt can't read the node's package sources",
                cause=error,
                hint="mend the entry that apt names, then run again",
            )
        raise NodeError(
            f"apt can't read the package sources with {', '.join(sorted(ours))}, and it was left out",
            cause=error,
            hint="have all entries of one address and suite agree in their options, or add what is missing to the "
            "node's own entry yourself, then run again",
        )

    def _parts_there(self) -> t.List[str]:
        return [f"{FOLDER}/{name}" for name in self._host.listdir(FOLDER)]

    def _is_own(self, path: str) -> bool:
        """Return whether a sources file was written by gpu.node."""
        return path == OWN_SOURCES and (self._host.read(path) or "").startswith(apt.HEADER)

    def _read_sources(self, files: t.Mapping[str, str], removed: t.Collection[str]) -> str:
        """Return why apt can't read its sources with other files in their folder, empty if it can."""
        with self._trial_folder(files, removed) as options:
            completed = self._host.run(["apt-get", *options, "indextargets"], check=False)
        return apt.read_errors(completed.err) if completed.rc != 0 else ""

    def _trial_folder(
        self, files: t.Mapping[str, str], removed: t.Collection[str]
    ) -> t.ContextManager[t.List[str]]:
        """Give apt's options for a copy of the folder of sources in which files are written and removed."""
        folders = (FOLDER, f"{PREFERENCES}.d")
        paths = [f"{folder}/{name}" for folder in folders for name in self._host.listdir(folder)]
        texts = {path: self._host.read(path) or "" for path in paths}
        texts = {path: text for path, text in {**texts, **files}.items() if path not in removed}
        return _folder_of(texts)

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

    def preview_sources(self, files: t.Mapping[str, str], removed: t.Collection[str]) -> bool:
        self._read_own()
        self._readable = contextlib.ExitStack()
        self._parts = self._readable.enter_context(self._trial_folder(files, removed))
        if self.update_aside():
            return True
        self.end_preview()
        return False

    def end_preview(self) -> None:
        self._read_own()
        self._aside = None

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
        options = [*self._parts]
        if self._aside is not None:
            options += ["-o", f"Dir::State::lists={self._aside.name}/"]
        if options:
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


@contextlib.contextmanager
def _folder_of(texts: t.Mapping[str, str]) -> t.Iterator[t.List[str]]:
    """Write sources, preferences and keys into a temporary folder and give the options that make apt read them."""
    with tempfile.TemporaryDirectory(prefix="gpu-node-sources-") as folder:
        os.chmod(folder, 0o755)  # apt reads keys as a user of its own
        for name in (FOLDER, f"{PREFERENCES}.d"):
            os.makedirs(folder + name)
        keys = [path for path in texts if path.startswith(KEYS)]
        for path, text in texts.items():
            for key in keys:
                text = text.replace(key, folder + key)
            os.makedirs(os.path.dirname(folder + path), exist_ok=True)
            with open(folder + path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        yield [
            *("-o", f"Dir::Etc::SourceParts={folder}{FOLDER}/"),
            *("-o", f"Dir::Etc::PreferencesParts={folder}{PREFERENCES}.d/"),
        ]


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
