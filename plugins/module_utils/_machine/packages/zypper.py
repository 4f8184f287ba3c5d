# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""zypper, whose locks keep packages at their version, and which is run without our locks."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import typing as t

from ..._base.errors import NodeError
from ..._base.packages import exit_status, rpm, zypper
from ..._base.packages.package import Change, Package, Policy, Removal, Simulation
from ..._base.packages.pgp import binary, read
from ..host import Completed
from .api import tail
from .rpm import KEYS_FOLDER, TEST, Rpm, is_repositories
from .trial import changed_texts, copy_missing, trial_folder

LOCKS = "/etc/zypp/locks"
REPOSITORIES = "/etc/zypp/repos.d"
# The folders of the vendor's and the system's configuration.
CONFIGURATIONS = ("/usr/etc/zypp", "/etc/zypp")
PRIVATE = "/run/gpu-node-zypper-{}"
# No repository is read from there.
NO_REPOSITORIES = "/run/gpu-node-no-repositories"
CACHE = "/var/cache/zypp"
BUSY = 7
NOT_ALL_READ = 4
NO_REPOSITORY = 6
NOTHING_FOUND = 104
SCRIPT_FAILED = 107
OFFLINE = ("--no-refresh", "--reposd-dir", NO_REPOSITORIES)
GOOD = exit_status.succeeded("zypper")


class Zypper(Rpm):
    """zypper, through its own commands."""

    tool, unhold = "zypper", "remove the lock: zypper removelock"
    obstacles = "a repository or a package of another vendor"
    _aside: t.Optional[tempfile.TemporaryDirectory[str]] = None
    # Options for repositories that are in no file yet.
    _repositories: t.Tuple[str, ...] = ()

    def __init__(self, *values: t.Any) -> None:
        super().__init__(*values)
        self._trial = contextlib.ExitStack()

    def _is_busy(self, completed: Completed) -> bool:
        return completed.rc == BUSY or super()._is_busy(completed)

    def _locked(self) -> t.FrozenSet[str]:
        return zypper.locked(self._locks_text(), ())

    def _locks_text(self) -> str:
        return self._host.read(LOCKS) or ""

    def _packages(self) -> t.Dict[str, Package]:
        text = self._all()
        return rpm.parse_packages(text, zypper.locked(self._locks_text(), rpm.names(text)))

    def policies(self, names: t.Sequence[str]) -> t.Dict[str, Policy]:
        asked = [name.partition("=") for name in names if name]
        exact: t.Dict[str, Policy] = {}
        offered = self._search(["--match-exact", *dict.fromkeys(name for name, _e, _v in asked)])
        for name, equals, version in asked:
            if equals and name in offered:
                # SUSE's kernels have a count of their builds after the version.
                versions = tuple(
                    candidate
                    for candidate in offered[name].versions
                    if f"{candidate}.".startswith(f"{version}.")
                )
                candidate = versions[0] if versions else None
                exact[f"{name}={version}"] = Policy(candidate, versions)
        return {**offered, **exact}

    def _full(self, change: Change) -> Change:
        """Return a change in which packages NAME=VERSION are names with the full version that is offered."""
        exact = [name for name in change.packages if "=" in name]
        if not exact:
            return change
        policies = self.policies(exact)
        packages = {name: version for name, version in change.packages.items() if name not in exact}
        for request in exact:
            name, _equals, version = request.partition("=")
            candidate = policies[request].candidate if request in policies else None
            packages[name] = candidate or version
        return change._replace(packages=packages)

    def known(self, prefix: str) -> t.List[str]:
        return sorted(self._search([f"{prefix}*"]))

    def _search(self, command: t.Sequence[str]) -> t.Dict[str, Policy]:
        options = ["--xmlout", "--no-refresh", "search", "--details", "--type", "package"]
        completed = self._zypper([*options, *command], check=False)
        if completed.rc not in (*GOOD, NOTHING_FOUND):
            raise NodeError(
                f"zypper search failed with {exit_status.describe('zypper', completed.rc)}",
                cause=zypper.messages(completed.out).strip() or tail(completed),
                hint="fix the cause named above and run again",
                rc=completed.rc,
            )
        self._warn(zypper.skipped(completed.out))
        return zypper.parse_search(completed.out)

    def _warn(self, skipped: t.Sequence[zypper.Skipped]) -> None:
        # Each repository once, even if another query failed for another reason.
        new = [repository for repository in skipped if repository.name not in self.unanswered]
        self.unanswered.update({repository.name: repository.reason for repository in new})
        self.warnings.update(dict.fromkeys(map(str, new)))

    def owners(self, paths: t.Sequence[str]) -> t.Dict[str, str]:
        result = {}
        for path in paths:  # rpm answers in order, but prints its errors at any place
            completed = self._host.run(["rpm", "-qf", "--qf", "%{NAME}\\n", path], check=False)
            if completed.rc == 0:
                result[path] = completed.out.split()[0]
        return result

    def update(self) -> str:
        return self._failure(*self._refresh())

    def _failure(self, completed: Completed, skipped: t.Sequence[zypper.Skipped]) -> str:
        """Return the problems of a refresh, and warn of the repositories that it could not read."""
        self._warn(skipped)
        if completed.rc == 0 and not skipped:
            return ""
        notes = list(map(str, skipped)) or [zypper.messages(completed.out).strip()]
        return "; ".join(filter(None, notes)) or tail(completed)

    def update_aside(self) -> bool:
        completed, skipped = self._refresh_aside(self._new_aside())
        if completed.rc not in (0, NO_REPOSITORY) and not skipped:
            self._aside = None  # what is missing here the node's own lists have
        return self._aside is not None

    def _new_aside(self) -> str:
        """Return a folder for lists that is removed with this process."""
        self._aside = tempfile.TemporaryDirectory(prefix="gpu-node-lists-")
        return self._aside.name

    def _refresh_aside(self, folder: str) -> t.Tuple[Completed, t.List[zypper.Skipped]]:
        """Refresh the lists in a folder, which gets the node's lists of a repository that can't be read."""
        completed, skipped = self._refresh()
        for repository in skipped:
            path = f"raw/{repository.alias}/repodata"
            if repository.alias:
                copy_missing(self._host, f"{CACHE}/{path}", f"{folder}/{path}")
        return completed, skipped

    def _refresh(self) -> t.Tuple[Completed, t.List[zypper.Skipped]]:
        """Refresh all repositories; return the result, and those that could not be read."""
        completed = self._zypper(["--xmlout", "refresh"], check=False)
        return completed, zypper.skipped(completed.out) if completed.rc == NOT_ALL_READ else []

    def preview_sources(self, files: t.Mapping[str, str], removed: t.Collection[str]) -> str:
        self.end_preview()
        paths = [f"{REPOSITORIES}/{name}" for name in self._host.listdir(REPOSITORIES)]
        texts = changed_texts(self._host, filter(is_repositories, paths), files, removed)
        trial = self._trial.enter_context(trial_folder(texts, KEYS_FOLDER))
        self._repositories = ("--reposd-dir", f"{trial}{REPOSITORIES}")
        lists, unverified = self._new_aside(), []
        for path in filter(is_repositories, files):
            for name, values in rpm.parse_repositories(files[path]).items():
                # zypper verifies lists with keys that rpm believes, and this one is only tried.
                self._zypper(["--no-gpg-checks", "refresh", name], check=False)
                index = f"{lists}/raw/{name}/repodata/repomd.xml"
                key = values["gpgkey"].partition("://")[2]
                text = files.get(key) or self._host.read(key) or ""
                reason = self._unverified(index, text, required=values["repo_gpgcheck"] == "1")
                if reason:
                    unverified.append(zypper.Skipped(values["name"], name, reason))
                    os.remove(trial + path)
        completed, skipped = self._refresh_aside(lists)
        return self._failure(completed, [*unverified, *skipped])

    def _unverified(self, path: str, key: str, *, required: bool) -> str:
        """Return why lists are not signed by a key, empty if they are; unless ``required``, they may be unsigned."""
        signature = f"{path}.asc"
        if not os.path.exists(path) or not (required or os.path.exists(signature)):
            return ""
        keyring = f"{path}.gpg"
        with open(keyring, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(binary(read(key, "key")))
        completed = self._host.run(["gpgv", "--keyring", keyring, signature, path], check=False)
        if completed.rc == 0:
            return ""
        return f"its lists are not signed by its key: {tail(completed)}"

    def end_preview(self) -> None:
        self._trial.close()
        self._aside, self._repositories = None, ()

    def simulate(self, change: Change) -> Simulation:
        change = self._full(change)
        with self._unlocked(change):
            completed = self._install(change, dry=True)
        self._warn(zypper.skipped(completed.out))
        if completed.rc in GOOD:
            summary = zypper.parse_summary(completed.out)
            if any(summary) or not self._lacking(change):
                return summary
        raise self._no_way(completed._replace(out=zypper.messages(completed.out)), change)

    def change(self, change: Change) -> None:
        change = self._full(change)
        with self._unlocked(change):
            completed = self._install(change)
        lacking = self._lacking(change)
        if lacking:
            raise NodeError(
                f"zypper has ended without an error, and {', '.join(lacking)} is not installed",
                cause=tail(completed),
                hint="fix the cause named above and run again, which finishes what was begun",
            )
        failed = zypper.failed_scripts(f"{completed.out}\n{completed.err}")
        if failed or completed.rc == SCRIPT_FAILED:
            meaning = exit_status.STATUSES["zypper"][SCRIPT_FAILED].meaning
            cause = "; ".join(failed) or tail(completed)
            self.warnings[f"all packages are installed, but {meaning}: {cause}"] = None

    def removal(self, names: t.Collection[str]) -> Removal:
        # Others may have installed further versions of kernels and their headers.
        several = {package for package in rpm.several(self._all()) if package.startswith("kernel-")}
        result = super().removal(set(names) - several)
        if result.packages:
            # A lock by name alone of a package that we added is taken for ours.
            change = Change({}, result.packages, {}, frozenset(result.packages))
            with self._unlocked(change):
                completed = self._remove(result.packages, dry=True)
            if completed.rc not in GOOD:
                wrong = completed._replace(out=zypper.messages(completed.out))
                raise self._no_way(wrong, change, "remove")
        return result

    @contextlib.contextmanager
    def _unlocked(self, change: Change) -> t.Iterator[None]:
        """Have zypper read a copy of the locks without ours; the locks themselves stay as they are."""
        text = self._locks_text()
        foreign = zypper.without(text, change.holds)
        if not {lock.name for lock in zypper.parse_locks(text)} & change.holds:
            yield
            return
        folder = PRIVATE.format(os.getpid())
        locks, path = f"{folder}/locks", f"{folder}/zypp.conf"
        try:
            self._host.write(locks, foreign, mode=0o600)
            configuration = zypper.configuration(self._configuration_files(), locks)
            self._host.write(path, configuration, mode=0o600)
            self.environment = {"ZYPP_CONF": path}
            yield
        finally:
            self.environment = {}
            self._host.remove(folder)

    def _configuration_files(self) -> t.Dict[str, str]:
        paths = [f"{folder}/zypp.conf" for folder in CONFIGURATIONS]
        for folder in CONFIGURATIONS:
            names = self._host.listdir(f"{folder}/zypp.conf.d")
            paths += [f"{folder}/zypp.conf.d/{name}" for name in names if name.endswith(".conf")]
        texts = {path: self._host.read(path) for path in paths}
        return {path: text for path, text in texts.items() if text is not None}

    def _stuck(self, refusal: str, change: Change) -> t.Tuple[t.Sequence[str], str]:
        locks = zypper.in_the_way(self._locks_text(), refusal, change.holds)
        if locks:
            commands = [shlex.join(["zypper", "removelock", *lock.arguments]) for lock in locks]
            names = list(dict.fromkeys(lock.pattern for lock in locks))
            return names, f"remove the lock: {'; '.join(commands)}"
        stuck, hint = super()._stuck(refusal, change)
        paths = [f"{REPOSITORIES}/{name}" for name in self._host.listdir(REPOSITORIES)]
        texts = [self._host.read(path) or "" for path in paths if path.endswith(".repo")]
        off = zypper.disabled(texts)
        return stuck, f"{hint}; disabled repositories are: {', '.join(off)}" if off else hint

    def by_hand(self, change: Change) -> str:
        return shlex.join(["zypper", "install", "--oldpackage", *_names(change)])

    def purge(self, names: t.Sequence[str]) -> None:
        if names:
            self._call([*TEST, *names])
            self._remove(names)

    def _remove(self, names: t.Sequence[str], *, dry: bool = False) -> Completed:
        return self._transact("remove", ["--no-clean-deps", *names], dry=dry)

    def hold(self, names: t.Sequence[str]) -> None:
        self._zypper([*OFFLINE, "addlock", *names])

    def release(self, names: t.Sequence[str]) -> None:
        self._zypper([*OFFLINE, "removelock", *names])

    def _install(self, change: Change, *, dry: bool = False) -> Completed:
        args = ["--no-recommends", "--oldpackage", "--auto-agree-with-licenses"]
        args += ["--download", "in-advance", *_names(change)]
        return self._transact("install", args, dry=dry)

    def _transact(self, verb: str, args: t.Sequence[str], *, dry: bool) -> Completed:
        # With the lists that the plan was made from; a removal needs none.
        options = ["--no-refresh"] if verb == "install" else OFFLINE
        before, more = (["--xmlout"], ["--dry-run"]) if dry else ([], [])
        return self._zypper([*before, *options, verb, *more, *args], check=not dry)

    def _zypper(self, command: t.Sequence[str], *, check: bool = True) -> Completed:
        options = ["--cache-dir", self._aside.name] if self._aside else []
        # zypper takes the first of several folders.
        options += () if "--reposd-dir" in command else self._repositories
        command = ["zypper", "--non-interactive", *options, *command]
        return self._call(command, check=check, good=GOOD)


def _names(change: Change) -> t.List[str]:
    """Return zypper's arguments for the packages to install, and with a mark before them to remove."""
    names = [f"{name}={version}" if version else name for name, version in change.packages.items()]
    return names + [f"!{name}" for name in change.remove]
