# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The interface of the package managers apt, dnf and zypper."""

from __future__ import annotations

import abc
import re
import time
import typing as t

from ..._base.errors import NodeError
from ..._base.kubelet.pods import paths
from ..._base.packages import exit_status
from ..._base.packages.apt import Source
from ..._base.packages.package import Change, Package, Policy, Relations, Removal, Simulation, held
from ..._base.text.shown import printable
from ..host import Completed, Host

RETRY_SECONDS = 2.0
# apt: "It is held by process 7", dpkg: "by another process with pid 7", zypper: "the application with pid 7".
HELD_BY = re.compile(r"\b(?:process|pid)\s+(?:with pid\s+)?(\d+)")
UNITS = (".service", ".scope")


class Locked(NodeError):
    """Another process has held a package manager's lock for too long."""


ERROR = re.compile(r"E: |(dpkg: )?error\b|problem:", re.IGNORECASE)


class NoHold(NodeError):
    """The package manager cannot keep packages at their version."""


class NoWay(NodeError):
    """The package manager finds no way to carry a transaction out."""


class OutOfOrder(NoWay):
    """The package manager refuses every transaction, since packages that are there are not in order."""


def tail(completed: Completed) -> str:
    """Return the end of a command's output, after its first error if that came earlier."""
    lines = [line for line in f"{completed.out}\n{completed.err}".split("\n") if line.strip()]
    early = next((at for at, line in enumerate(lines[:-20]) if ERROR.match(line)), None)
    if early is None:
        return "\n".join(lines[-20:])
    return "\n".join([*lines[early : early + 10], "...", *lines[-10:]])


def failure(argv: t.Sequence[str], completed: Completed) -> NodeError:
    """Return the error of a command that failed."""
    return NodeError(
        f"{argv[0]} failed with {exit_status.describe(argv[0], completed.rc)}",
        cause=tail(completed),
        hint="fix the cause named above and run again, which finishes what was begun",
        rc=completed.rc,
        command=" ".join(argv),
    )


class PackageManager(abc.ABC):
    """A node's package manager, through its own commands.

    Args:
        host: The node.
        timeout: How many seconds to wait for another process that holds its lock.
        purpose: What is installed, for errors.
        variable: The role's variable that has the timeout.

    Attributes:
        warnings: Problems that stop nothing, such as a repository that does not answer.
    """

    environment: t.Mapping[str, str] = {}
    tool = ""
    # Terms for errors: a package on hold, the command that ends that, and other obstacles.
    on_hold, unhold, obstacles = "", "", ""

    def __init__(self, host: Host, timeout: float, purpose: str, variable: str = "") -> None:
        self._host, self._timeout, self._purpose = host, timeout, purpose
        self._variable = f" ({variable})" if variable else ""
        self.warnings: t.Dict[str, None] = {}  # in order, each once
        # Repositories that can't be read, each with the reason that its command gives.
        self.unanswered: t.Dict[str, str] = {}

    @property
    def unexplained(self) -> str:
        """Return the next step if it is not known what is in the way of a transaction."""
        return f"look at the packages that {self.tool} names: {self.obstacles} is in the way"

    @abc.abstractmethod
    def _locks(self) -> t.Tuple[str, ...]:
        """Return the files that a process has locked for as long as it changes packages."""

    @abc.abstractmethod
    def _is_busy(self, completed: Completed) -> bool:
        """Return whether a command gave up because another process holds the lock."""

    def _call(
        self,
        argv: t.Sequence[str],
        *,
        check: bool = True,
        stdin: t.Optional[str] = None,
        good: t.Sequence[int] = (0,),
    ) -> Completed:
        """Run a command, and again for as long as another process holds the lock."""
        deadline = time.monotonic() + self._timeout
        while True:
            completed = self._host.run(argv, check=False, env=self.environment, stdin=stdin)
            busy = self._is_busy(completed)
            if not busy or time.monotonic() >= deadline:
                break
            time.sleep(RETRY_SECONDS)
        if busy:
            raise self._too_long(tail(completed))
        if check and completed.rc not in good:
            raise failure(argv, completed)
        return completed

    def _too_long(self, output: str) -> Locked:
        holder = _holder(self._host, output, self._locks())
        suffix = f": {holder} holds the lock" if holder else ""
        return Locked(
            f"another package manager is at work on the node, for longer than {self._timeout:g} s{suffix}",
            cause=output,
            hint=f"wait until it has ended, or raise lock_timeout{self._variable}",
        )

    # --- looking ---

    def packages(self) -> t.Dict[str, Package]:
        """Return the packages that are installed or on hold.

        A transaction of another process looks like one that was killed, so its end is waited for.
        """
        deadline = time.monotonic() + self._timeout
        while True:
            result = self._packages()
            broken = any(package.broken for package in result.values())
            whole = not self.interrupted() and not broken
            if whole or not _holder(self._host, "", self._locks()):
                return result
            if time.monotonic() >= deadline:
                raise self._too_long("")
            time.sleep(RETRY_SECONDS)

    @abc.abstractmethod
    def _packages(self) -> t.Dict[str, Package]:
        """Return the packages as they are."""

    @abc.abstractmethod
    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        """Return what the sources offer."""

    @abc.abstractmethod
    def known(self, prefix: str) -> t.List[str]:
        """Return the names of the packages, offered or installed, that begin with a prefix."""

    def relations(self, names: t.Collection[str]) -> Relations:
        """Return what the offered versions of packages depend on, if the package manager can be asked."""
        return {}

    def dependencies(self, names: t.Collection[str]) -> t.FrozenSet[str]:
        """Return installed packages and all that they need, if the package manager can be asked."""
        return frozenset()

    def unneeded(self, change: Change) -> t.Set[str]:
        """Return the dependencies that nothing needs after a transaction, if the package manager can be asked."""
        return set()

    def owners(self, paths: t.Sequence[str]) -> t.Dict[str, str]:
        """Return the packages of files, by path, if the package manager can be asked."""
        return {}

    def interrupted(self) -> bool:
        """Return whether a transaction was killed, if there is a journal of them."""
        return False

    def sources(self) -> t.Tuple[Source, ...]:
        """Return the node's sources, as far as components can be enabled in them."""
        return ()

    def check_sources(self, files: t.Mapping[str, str], removed: t.Collection[str] = ()) -> None:  # noqa: B027
        """Check that the package manager can read its sources once ``files`` are written and others are removed.

        Raises:
            NodeError: if it can't.
        """

    @abc.abstractmethod
    def preview_sources(self, files: t.Mapping[str, str], removed: t.Collection[str]) -> str:
        """Fetch the lists of other sources for this process alone, and return the problems of that.

        Until the preview ends, all queries use these: the node's sources with ``files`` written, by their paths, and
        others removed. Of a source that does not answer they use the node's lists.
        """

    @abc.abstractmethod
    def end_preview(self) -> None:
        """Use the node's own sources again."""

    def automatic(self) -> t.FrozenSet[str]:
        """Return the packages that were installed only as dependencies."""
        return frozenset()

    def trusted(self) -> t.Tuple[str, ...]:
        """Return the keys that are trusted for all repositories, as rpm names them."""
        return ()

    def removal(self, names: t.Collection[str]) -> Removal:
        """Return the result of removing installed packages: those that other packages need stay."""
        ours = set(names)
        dependencies: t.Set[str] = set()
        users: t.Set[str] = set()
        while ours - dependencies:
            dragged, needed = self._needed(ours - dependencies)
            if not dragged:
                break
            users |= dragged - ours
            dependencies |= needed
        ours -= dependencies
        return Removal(tuple(sorted(ours)), tuple(sorted(dependencies)), tuple(sorted(users)))

    def leftover(self, names: t.Collection[str], along: t.Collection[str]) -> t.Tuple[str, ...]:
        """Return those of the names that nothing else needs, with those of ``along`` that only they need."""
        return self.removal({*names, *along}).packages

    @abc.abstractmethod
    def _needed(self, names: t.Set[str]) -> t.Tuple[t.Set[str], t.Set[str]]:
        """Return the packages that would have to go along, and those of the names that they need."""

    @abc.abstractmethod
    def simulate(self, change: Change) -> Simulation:
        """Return what a transaction would do.

        Raises:
            NodeError: if there is no way to carry it out.
        """

    def _no_way(self, completed: Completed, change: Change, verb: str = "install") -> NodeError:
        """Return the error of a command that finds no way, with the packages on hold that are in the way."""
        stuck, hint = self._stuck(f"{completed.out}\n{completed.err}", change)
        suffix = f" while {', '.join(stuck)} is {self.on_hold}" if stuck else ""
        return NoWay(
            f"{self.tool} finds no way to {verb} {self._purpose}{suffix}; nothing was changed",
            cause=tail(completed),
            hint=hint,
        )

    def _stuck(self, refusal: str, change: Change) -> t.Tuple[t.Sequence[str], str]:
        """Return the packages on hold that a refusal names, and the next step."""
        named = set(re.findall(r"[A-Za-z0-9][A-Za-z0-9_+.-]+", refusal))
        stuck = held(named - change.holds, self.packages())
        hint = self._pinned(named) or self.unexplained
        return stuck, f"{self.unhold} {' '.join(stuck)}" if stuck else hint

    def _pinned(self, names: t.Collection[str]) -> str:
        """Return a hint about the user's preferences for packages, if the package manager has them."""
        return ""

    # --- changing ---

    @abc.abstractmethod
    def update(self) -> str:
        """Fetch the package lists and return the problems; a source that fails is no failure."""

    def update_aside(self) -> bool:
        """Fetch lists for this process alone, and return whether that is possible; the node keeps its own."""
        return False

    @abc.abstractmethod
    def change(self, change: Change) -> None:
        """Install and remove packages, in one transaction."""

    def fetch(self, change: Change) -> None:  # noqa: B027
        """Download what a change installs, if that is a step of its own."""

    def restore(self, change: Change, automatic: t.Collection[str]) -> None:
        """Restore packages; those of ``automatic`` were installed as dependencies."""
        self.change(change)

    @abc.abstractmethod
    def by_hand(self, change: Change) -> str:
        """Return the command with which a person restores packages."""

    @abc.abstractmethod
    def purge(self, names: t.Sequence[str]) -> None:
        """Remove packages with their configuration, and no other package."""

    @abc.abstractmethod
    def repair(self) -> None:
        """Finish what a killed transaction has begun."""

    def finish(self, names: t.Collection[str]) -> None:
        """Repair the packages ``names``, and what keeps the package manager from working."""
        self.repair()

    def check_repair(self) -> None:  # noqa: B027
        """Check that a repair can succeed.

        Raises:
            NodeError: if it is known to fail.
        """

    @abc.abstractmethod
    def hold(self, names: t.Sequence[str]) -> None:
        """Keep packages at the version that is installed."""

    def check_hold(self) -> None:  # noqa: B027
        """Check that packages can be kept at their version.

        Raises:
            NodeError: if they can't, with what is missing.
        """

    @abc.abstractmethod
    def release(self, names: t.Sequence[str]) -> None:
        """Take packages off hold."""

    def clean(self) -> None:  # noqa: B027
        """Remove the files of ours that a killed run has left."""

    def trust(self, path: str) -> None:  # noqa: B027
        """Trust a key for all repositories, if sources don't name their own."""

    def distrust(self, keys: t.Sequence[str]) -> None:  # noqa: B027
        """Stop trusting keys, if that doesn't follow from removing their files."""


def _holder(host: Host, output: str, locks: t.Iterable[str]) -> str:
    """Return the process that a package manager names, or that has a lock: "7 (apt-get, apt-daily.service)"."""
    match = HELD_BY.search(output)
    pids = [int(match[1])] if match else []
    pids += [pid for pid in map(host.lock_holder, locks) if pid]
    if not pids:
        return ""
    pid = pids[0]
    name = printable(_proc(host, pid, "comm").strip())
    cgroups = paths(_proc(host, pid, "cgroup"), _proc(host, 1, "cgroup"))
    units = (cgroup.rsplit("/", 1)[-1] for cgroup in cgroups if cgroup.endswith(UNITS))
    description = ", ".join(filter(None, (name, next(units, ""))))
    return f"{pid} ({description})" if description else str(pid)


def _proc(host: Host, pid: int, name: str) -> str:
    """Return a file of a process, empty if the process has ended."""
    try:
        return host.read(f"/proc/{pid}/{name}") or ""
    except NodeError:
        return ""
