# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A repository that the user names: what a node has of it, and what is done to it."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._core.driver import branches as driver_branches
from ..._core.driver.packages import suse as driver_suse_names
from ..._core.driver.packages.names import Names
from ..._core.driver.packages.repository import PREFIXES, SUBNET, named, with_fabric
from ..._core.driver.record import Record
from ..._core.driver.repository import PATHS
from ..._core.driver.select import Desired, Observed, flavour
from ..._core.packages.package import Policy
from ..._host.api import Host
from ..._host.packages.api import PackageManager
from ..recorded import distrust

REPOSITORY_SPEC: t.Dict[str, t.Any] = {
    "type": "dict",
    "options": {
        "url": {"type": "str", "required": True},
        "key": {"type": "str", "required": True, "no_log": False},
        "key_fingerprints": {"type": "list", "elements": "str", "default": [], "no_log": False},
        "suite": {"type": "str", "default": "/"},
        "components": {"type": "list", "elements": "str", "default": []},
        "signed_metadata": {"type": "bool", "default": False},
        "plain_http": {"type": "bool", "default": False},
    },
}


def existing(host: Host) -> t.Dict[str, str]:
    """Return our files that are there, by their paths."""
    found = {path: host.read(path) for path in PATHS}
    return {path: text for path, text in found.items() if text is not None}


class RepositorySteps:
    """The part of the capability that knows repositories."""

    _host: Host
    _desired: Desired
    _manager: PackageManager

    def _record(self) -> Record:
        raise NotImplementedError

    def _remember(self, **additions: t.Any) -> None:
        raise NotImplementedError

    def _with_repository(self, observed: Observed) -> Observed:
        """Add the key's text, where it is a file of the node, and the keys that rpm believes."""
        repository = self._desired.repository
        if repository is None or self._desired.state == "absent":
            return observed
        path = repository.key_path
        return dataclasses.replace(
            observed,
            repository_key=self._host.read(path) if path else None,
            trusted=self._manager.trusted(),
        )

    def _repository_names(self, observed: Observed) -> Names:
        installed = [name for name in observed.packages if observed.installed(name)]
        kind = flavour(self._desired.kernel_modules, observed.gpus)
        version = self._desired.version or driver_branches.last(observed.gpus)
        return named(observed.names, self._offered(), version, installed, kind)

    def _suse_names(self, observed: Observed) -> Names:
        """Return the names in SUSE, where the versions that are offered tell what belongs together."""
        there = {name: observed.installed(name) for name in observed.packages}
        have = {name: version for name, version in there.items() if version}
        names = driver_suse_names.candidates(observed.kernel)
        policies = self._manager.policies(names)
        for name in have.keys() & set(names):
            found = policies.get(name, Policy(None, ()))
            policies[name] = found._replace(versions=(*found.versions, have[name]))
        kind = flavour(self._desired.kernel_modules, observed.gpus)
        version = self._desired.version or driver_branches.last(observed.gpus)
        return driver_suse_names.suse(
            observed.names, policies, version, have, kind, observed.kernel
        )

    def _fabric_names(self, observed: Observed, names: Names) -> Names:
        """Return the names with the fabric manager that is offered; only NVSwitches need one."""
        if not observed.nvswitch or self._desired.state == "absent":
            return names
        wanted, bridged = self._desired.version, observed.bridged
        offered = self._offered() | set(self._manager.known(SUBNET) if bridged else ())
        return with_fabric(names, offered, wanted, bridged=bridged)

    def _offered(self) -> t.FrozenSet[str]:
        return frozenset(name for prefix in PREFIXES for name in self._manager.known(prefix))

    def _repository(self, params: t.Mapping[str, t.Any]) -> None:
        """Write the files; the record comes first, so that what is added can be taken back."""
        record = self._record()
        self._remember(repository=True, keys=record.keys | set(params["trust"]))
        for path, text in params["files"].items():
            self._host.write(path, text, mode=0o644)
        for path in params["stale"]:
            self._host.remove(path)
        if params["trust"]:
            self._manager.trust(params["key"])
        if self._desired.repository is None:
            self._forget_repository()
            self._remember(repository=False, keys=frozenset())

    def _forget_repository(self) -> None:
        distrust(self._manager, self._record().keys)
        for path in PATHS:
            self._host.remove(path)
