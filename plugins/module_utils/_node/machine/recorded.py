# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Package managers, and the additions of a capability, which are recorded first so that they can be removed again."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import NodeError
from ..._base.packages.package import Record, held
from ..._base.packages.pgp import MAX_BYTES
from ..._base.packages.presets import Presets, System, expand
from ..._base.packages.repository import fetched, is_trusted
from ..._machine import download
from ..._machine.host import Host
from ..._machine.packages.api import PackageManager
from ..._machine.packages.apt import Apt
from .facts import os_release

R = t.TypeVar("R", bound=Record)


# Imported only if they are used: a module's imports are compiled on the node each time.
def _dnf(host: Host, timeout: float, purpose: str, variable: str) -> PackageManager:
    from ..._machine.packages.dnf import fitting_dnf

    return fitting_dnf(host, timeout, purpose, variable)


def _zypper(host: Host, timeout: float, purpose: str, variable: str) -> PackageManager:
    from ..._machine.packages.zypper import Zypper

    return Zypper(host, timeout, purpose, variable)


FAMILIES: t.Dict[str, t.Callable[[Host, float, str, str], PackageManager]] = {
    "debian": Apt,
    "ubuntu": Apt,
    "rhel": _dnf,
    "suse": _zypper,
}
NO_KEY = (
    "see that the node reaches the address, through a proxy by the play's environment, or give the repository's key as "
    "text or as a file on the node"
)


def named(
    host: Host, values: t.Optional[t.Mapping[str, t.Any]], presets: Presets, family: str = ""
) -> t.Optional[t.Mapping[str, t.Any]]:
    """Return the options of a repository, with the values of its preset for this node."""

    def system() -> System:
        release = os_release(host)
        names = release.get("ID", ""), release.get("VERSION_ID", "")
        machine = host.run(["uname", "-m"]).out.strip()
        return System(*names, machine, family, release.get("PRETTY_NAME", " ".join(names)))

    return None if values is None else expand(values, presets, system)


def repository_files(
    params: t.Mapping[str, t.Any], hint: str = NO_KEY
) -> t.Tuple[t.Mapping[str, str], t.Tuple[str, ...]]:
    """Return the files that a repository's step writes, with a key that is fetched, and the keys that rpm has to trust.

    Args:
        params: The parameters of the step.
        hint: The next step if the key can't be fetched.

    Raises:
        NodeError: if the key can't be fetched, or is not the pinned one.
    """
    fetch = params.get("fetch")
    if not fetch:
        return params["files"], params["trust"]
    text = download.fetched(fetch.repository.key_url, MAX_BYTES, hint)
    key, trust = fetched(fetch, text)
    return {**key, **params["files"]}, trust


def package_manager(
    family: str, host: Host, timeout: float, purpose: str, module: str = ""
) -> PackageManager:
    """Return the package manager of a family of distributions.

    Args:
        family: The family, such as debian.
        host: The node.
        timeout: How many seconds to wait for another process that holds its lock.
        purpose: What is installed, for errors.
        module: The module whose role has the variable for the timeout.
    """
    variable = f"{module}_lock_timeout" if module else ""
    return FAMILIES[family](host, timeout, purpose, variable)


class Additions(t.Generic[R]):
    """The record of additions at ``path``, and the additions that capabilities with packages have in common."""

    def __init__(self, host: Host, path: str, kind: t.Type[R]) -> None:
        self._host, self._path, self._kind = host, path, kind

    @property
    def record(self) -> R:
        """Return the additions until now.

        Raises:
            NodeError: if the file is damaged.
        """
        return self._kind.load(self._host.read(self._path), self._path)

    def remember(self, **additions: t.Any) -> None:
        """Record what is about to be added, or was removed."""
        record = dataclasses.replace(self.record, **additions)
        if record:
            self._host.write(self._path, record.dump(), mode=0o644)
        else:
            self._host.remove(self._path)

    def forget(self) -> None:
        """Remove the record, after all additions were removed."""
        self._host.remove(self._path)

    def hold(self, manager: PackageManager, names: t.Collection[str]) -> None:
        """Keep packages at their version."""
        self.remember(holds=self.record.holds | set(names))
        manager.hold(sorted(names))

    def release(self, manager: PackageManager, names: t.Collection[str]) -> None:
        """Remove our holds of packages."""
        holds = self.record.holds
        there = held(holds & set(names), manager.packages())
        if there:
            manager.release(there)
        self.remember(holds=holds - set(names))

    def write_repository(self, manager: PackageManager, params: t.Mapping[str, t.Any]) -> None:
        """Write the files of a step, with a key that is fetched, and remove its stale files."""
        files, trust = repository_files(params)
        earlier = self.record
        self.remember(repository=True, keys=earlier.keys | set(trust))
        self.write_sources(manager, files, earlier, params["stale"])
        if trust:
            manager.trust(params["key"])
        if params["forget"]:
            self.forget_repository(manager, params["stale"])
            self.remember(repository=False, keys=frozenset())
        else:
            self._remove(params["stale"])

    def write_sources(
        self,
        manager: PackageManager,
        files: t.Mapping[str, str],
        earlier: R,
        stale: t.Collection[str] = (),
    ) -> None:
        """Write files of package sources, and restore the earlier ones if the package manager can't read them.

        Args:
            manager: The package manager that reads them.
            files: Texts by path.
            earlier: The record before it had these files.
            stale: Files that are removed next.

        Raises:
            NodeError: if the package manager can't read its sources with the files.
        """
        there = [path for path in files if self._host.exists(path)]
        before = {path: self._host.read(path) or "" for path in there if path.endswith(".sources")}
        for path, text in files.items():
            self._host.write(path, text, mode=0o644)
        try:
            manager.check_sources({}, stale)
        except NodeError:
            self._remove(path for path in files if path not in there)
            for path, text in before.items():
                self._host.write(path, text, mode=0o644)
            self.remember(**{name: getattr(earlier, name) for name in vars(earlier)})
            raise

    def forget_repository(self, manager: PackageManager, paths: t.Iterable[str]) -> None:
        """Remove a repository's files, and have rpm stop trusting our keys."""
        keys, trusted = self.record.keys, manager.trusted()
        ours = [key_id for key_id in trusted if any(is_trusted(key, [key_id]) for key in keys)]
        if ours:
            manager.distrust(ours)
        self._remove(paths)

    def _remove(self, paths: t.Iterable[str]) -> None:
        for path in paths:
            self._host.remove(path)


def existing(host: Host, paths: t.Iterable[str]) -> t.Dict[str, str]:
    """Return the texts of the files that exist, by their paths."""
    texts = {path: host.read(path) for path in paths}
    return {path: text for path, text in texts.items() if text is not None}
