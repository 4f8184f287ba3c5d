# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""dnf 4 and dnf 5, which stand on rpm."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ..._base.errors import NodeError
from ..._base.packages import rpm
from ..._base.packages.package import EXCLUSION_HINT, Change, Policy, Simulation
from ..host import Completed, Host
from .api import RETRY_SECONDS, Locked, NoHold, PackageManager, failure, tail
from .rpm import KEYS_FOLDER, TEST, Rpm, exact, is_repositories
from .trial import trial_folder

DNF_LOCKS = "/etc/dnf/plugins/versionlock.list"
PROGRAM = "/usr/bin/dnf"
DNF5_LOCKS = "/etc/dnf/versionlock.toml"
# A process that has locked one of these for writing is at work; dnf 5 would wait for as long as that takes.
GUARDS = (
    "/var/lib/dnf/system-repo.lock",
    "/usr/lib/sysimage/rpm/.rpm.lock",
    "/var/lib/rpm/.rpm.lock",
)
# It knows \\n in a format, and takes tabs as they are.
DNF5_FORMAT = rpm.DNF_FORMAT.replace("\\t", "\t") + "\\n"
ANYWAY = "--setopt=disable_excludes=*"
# Locks of ours would hide versions; those of others are respected by the plan.
QUERY = ("repoquery", "--available")
UNLOCKED = ("--disableplugin=versionlock", "--setopt=exit_on_lock=True")
# So that dnf names each repository that does not answer; by the user's setting it may fail, or skip it silently.
ALL_ANSWER = "--setopt=*.skip_if_unavailable=False"
NO_WEAK = "--setopt=install_weak_deps=False"
KEEP = "--setopt=clean_requirements_on_remove=False"


class Dnf(Rpm):
    """dnf 4, whose plugin versionlock keeps packages at their version."""

    tool, unhold = "dnf", "remove the lock: dnf versionlock delete"
    # For commands that need no repository.
    offline = "--disablerepo=*"
    _unlocked: t.Tuple[str, ...] = UNLOCKED
    _query: t.Tuple[str, ...] = (*QUERY, "--showduplicates", "--qf", rpm.DNF_FORMAT)
    _everywhere: t.Tuple[str, ...] = ("--disable-modular-filtering",)
    # Ignores the user's exclusions, with dnf 5 also locks, for packages of ours that are removed.
    _anyway = "--disableexcludes=all"

    def __init__(self, *values: t.Any) -> None:
        super().__init__(*values)
        self._trial = contextlib.ExitStack()
        # Options for repositories as they are not in their files yet, and those that no file has.
        self._previewed: t.Dict[str, t.List[str]] = {}
        self._new: t.Set[str] = set()

    def _locked(self) -> t.FrozenSet[str]:
        return rpm.parse_dnf_locks(self._host.read(DNF_LOCKS) or "")

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        completed = self._dnf([*self._query, *names], check=False)
        if completed.rc != 0:
            raise NodeError(
                "dnf can't be asked what the repositories offer",
                cause=tail(completed),
                hint="fix the cause named above: dnf repoquery must work on the node",
            )
        return rpm.parse_repoquery(completed.out, set(names))

    def excluded(self, names: t.Sequence[str]) -> t.FrozenSet[str]:
        """Return those of packages that the user's exclusions hide, whichever module stream they are of."""
        options = ((), (self._anyway,))
        queries = ([*self._query, *self._everywhere, *option, *names] for option in options)
        answers = (self._dnf(query, check=False).out for query in queries)
        offered, present = (rpm.parse_repoquery(text, set(names)) for text in answers)
        return frozenset(present.keys() - offered.keys())

    def _stuck(self, refusal: str, change: Change) -> t.Tuple[t.Sequence[str], str]:
        stuck, hint = super()._stuck(refusal, change)
        names = {*change.packages, *rpm.FILTERED.findall(refusal)}
        excluded = [] if stuck else sorted(self.excluded(sorted(names)))
        if excluded:
            hint = f"dnf's configuration excludes {', '.join(excluded)}: {EXCLUSION_HINT}"
        return stuck, hint

    def known(self, prefix: str) -> t.List[str]:
        # Kernel modules for one kernel each are in module streams of their own.
        anywhere = self._everywhere if prefix.startswith("kmod-") else ()
        return self._dnf(["repoquery", *anywhere, "--qf", "%{name}", f"{prefix}*"]).out.split()

    def update(self) -> str:
        completed = self._refresh()
        return "; ".join(self.unanswered.values()) if completed.rc == 0 else tail(completed)

    def update_aside(self) -> bool:
        # dnf's cache is no state of the node: any command of dnf fetches lists that have expired.
        return self._refresh().rc == 0

    def _refresh(self) -> Completed:
        self._forget_unanswered()
        return self._dnf(["--assumeyes", "makecache", "--refresh"], check=False)

    def _forget_unanswered(self) -> None:
        for name, reason in self.unanswered.items():
            self.warnings.pop(_left_out(name, reason), None)
        self.unanswered.clear()

    def preview_sources(self, files: t.Mapping[str, str], removed: t.Collection[str]) -> str:
        self.end_preview()
        folder = self._trial.enter_context(trial_folder(files, KEYS_FOLDER))
        for path in filter(is_repositories, removed):
            for name in rpm.parse_repositories(self._host.read(path) or ""):
                self._previewed[name] = [f"--setopt={name}.enabled=0"]
        for path in filter(is_repositories, files):
            with open(folder + path, encoding="utf-8") as file:
                repositories = rpm.parse_repositories(file.read())
            for name, values in repositories.items():
                options = [f"--setopt={name}.{key}={value}" for key, value in values.items()]
                if not self._host.exists(path):
                    self._new.add(name)
                    options.append(f"--repofrompath={name},{values['baseurl']}")
                self._previewed[name] = options
        return self.update()

    def end_preview(self) -> None:
        self._trial.close()
        self._previewed, self._new = {}, set()
        self._forget_unanswered()

    def simulate(self, change: Change) -> Simulation:
        completed = self._transaction(change, dry=True)
        dnf_transaction = rpm.parse_dnf_transaction(completed.out)
        # dnf skips packages that it can't install, and reports that there is nothing to do if there are no others.
        if any(not rpm.has(dnf_transaction, name) for name in self._lacking(change)):
            raise self._no_way(completed, change)
        return dnf_transaction

    def change(self, change: Change) -> None:
        completed = self._transaction(change)
        expected = rpm.parse_dnf_versions(completed.out).items()
        lacking = self._lacking(change)
        lacking += [name for name, version in expected if not self._is_there(exact(name, version))]
        left = [name for name in change.remove if self._is_there(name)]
        brought = {*change.packages, *dict(expected)}
        left += [exact(name, old[0]) for name, old in rpm.doubles(self._all()) if name in brought]
        # Scripts of packages print errors of their own, and dnf's shell ends with status 0 whatever happened in it.
        if lacking or left:
            states = {"not installed": lacking, "still there": left}
            lists = {state: ", ".join(dict.fromkeys(names)) for state, names in states.items()}
            parts = [f"{state}: {names}" for state, names in lists.items() if names]
            raise NodeError(
                f"dnf could not carry out the transaction ({'; '.join(parts)})",
                cause=tail(completed),
                hint="fix the cause named above and run again, which finishes what was begun",
            )

    def check_hold(self) -> None:
        completed = self._host.run(self._lock_command("list"), check=False)
        if completed.rc != 0:
            raise NoHold(
                "dnf can't lock packages at their version",
                cause=tail(completed),
                hint="install its plugin versionlock (python3-dnf-plugin-versionlock), set prerequisites to install "
                "where the sources have it, or set hold to false",
            )

    def by_hand(self, change: Change) -> str:
        return "dnf history undo last"

    def purge(self, names: t.Sequence[str]) -> None:
        if names:
            self._call([*TEST, *names])
            options = [self.offline, self._anyway, *self._unlocked]
            command = ["dnf", "-q", *options, "-y", KEEP, "remove", *names]
            completed = self._call(command, check=False)
            if any(map(self._is_there, names)):
                raise failure(command, completed)

    def hold(self, names: t.Sequence[str]) -> None:
        self.check_hold()
        stale = sorted(set(names) & self._locked())
        if stale:
            self.release(stale)
        self._call(self._lock_command("add", *names))

    def release(self, names: t.Sequence[str]) -> None:
        self._call(self._lock_command("delete", *names))

    def _lock_command(self, *args: str) -> t.List[str]:
        return ["dnf", "-q", self.offline, "versionlock", *args]

    def _dnf(self, command: t.Sequence[str], *, check: bool = True) -> Completed:
        return self._ask(["-q", *self._unlocked, *command], check=check)

    def _ask(
        self, command: t.Sequence[str], *, check: bool = True, stdin: t.Optional[str] = None
    ) -> Completed:
        """Run a command that changes no package, and again without each repository that does not answer."""
        while True:
            argv = ["dnf", ALL_ANSWER, *self._sources(), *command]
            completed = self._call(argv, check=False, stdin=stdin)
            name, reason = rpm.parse_unanswered(completed.err)
            # A message of a plugin of dnf about a repository of its own stops nothing.
            if completed.rc == 0 or not name or name in self.unanswered:
                break
            self.unanswered[name] = reason
            self.warnings[_left_out(name, reason)] = None
        if check and completed.rc != 0:
            raise failure(argv, completed)
        return completed

    def _sources(self) -> t.List[str]:
        """Return the options that add previewed repositories, and leave out those that have not answered."""
        silent = self.unanswered
        known = (options for name, options in self._previewed.items() if name not in silent)
        off = [f"--setopt={name}.enabled=0" for name in silent if name not in self._new]
        return [*(option for options in known for option in options), *off]

    def module(self, command: t.Sequence[str], *, check: bool = False) -> str:
        """Call ``dnf module`` and return its output, empty if it fails and ``check`` is not set."""
        completed = self._dnf(["--assumeyes", "module", *command], check=check)
        return completed.out if completed.rc == 0 else ""

    def _transaction(self, change: Change, *, dry: bool = False) -> Completed:
        lines = [f"module enable {change.stream}"] if change.stream else []
        lines += [f"install {package}" for package in _requested(change)]
        lines += [f"remove {name}" for name in change.remove]
        command = ["--assumeno" if dry else "-y", *UNLOCKED, KEEP, NO_WEAK]
        command += ["--setopt=module_stream_switch=True"] if change.stream else []
        stdin = "\n".join([*lines, "run", "exit"]) + "\n"
        if dry:
            return self._ask([*command, "shell"], check=False, stdin=stdin)
        return self._call(["dnf", *self._sources(), *command, "shell"], check=False, stdin=stdin)


class Dnf5(Dnf):
    """dnf 5, which Fedora calls dnf: it has no shell, and its version locks are no plugin that has to be installed."""

    offline, _unlocked = "--setopt=*.enabled=0", ()
    _query, _everywhere = (*QUERY, f"--queryformat={DNF5_FORMAT}"), ()
    _anyway = ANYWAY

    def _locked(self) -> t.FrozenSet[str]:
        return rpm.parse_dnf5_locks(self._host.read(DNF5_LOCKS) or "")

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
        """Return the process that has locked rpm's database, empty if none has."""
        statuses = [self._host.status(path) for path in GUARDS]
        files = {str(status.inode) for status in statuses if status is not None}
        return rpm.writer(self._host.read("/proc/locks") or "", files) if files else ""

    def known(self, prefix: str) -> t.List[str]:
        return self._dnf(["repoquery", "--queryformat=%{name}\\n", f"{prefix}*"]).out.split()

    def simulate(self, change: Change) -> Simulation:
        simulation = super().simulate(change)
        if self._ours(change):
            # The option that ignores our locks ignores the user's exclusions too.
            names = {*simulation.new, *simulation.changed}
            missing = sorted(names - self.policies(sorted(names)).keys())
            if missing:
                cause = f"excluded in dnf's configuration: {', '.join(missing)}"
                raise self._no_way(Completed(1, "", cause), change)
        return simulation

    def check_hold(self) -> None:
        pass

    def _ours(self, change: Change) -> t.List[str]:
        return [ANYWAY] if self._locked() & change.holds else []

    def _transaction(self, change: Change, *, dry: bool = False) -> Completed:
        packages = _requested(change)
        actions = ["--action=install", *packages] if packages else []
        actions += ["--action=remove", *change.remove] if change.remove else []
        options = ["-q", "--assumeno" if dry else "-y", KEEP, NO_WEAK, *self._ours(change)]
        command = [*options, "do", *actions]
        if dry:
            return self._ask(command, check=False)
        return self._call(["dnf", *self._sources(), *command], check=False)


def _requested(change: Change) -> t.List[str]:
    """Return the packages that a change installs, as dnf names them."""
    packages = change.packages.items()
    return [f"{name}-{version}" if version else name for name, version in packages]


def _left_out(name: str, reason: str) -> str:
    """Return the warning about a repository that does not answer."""
    return f"the repository {name} does not answer and is left out of account: {reason}"


def fitting_dnf(host: Host, timeout: float, purpose: str, variable: str = "") -> PackageManager:
    """Return the package manager for the version of dnf that the node has."""
    is_dnf5 = (host.readlink(PROGRAM) or "").endswith("dnf5")
    return (Dnf5 if is_dnf5 else Dnf)(host, timeout, purpose, variable)
