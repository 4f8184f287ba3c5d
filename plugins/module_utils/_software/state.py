# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node has of packages that are kept at one version."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.packages.package import Package, Policy, Record, Removal

R = t.TypeVar("R", bound=Record)


@dataclasses.dataclass(frozen=True)
class Observed(t.Generic[R]):
    """What the node has.

    ``refreshed`` says that this run has fetched the package lists, ``note`` what went wrong with it. ``removal`` is
    there when additions are to be removed again and the packages are in order.
    """

    family: str
    packages: t.Mapping[str, Package]
    policies: t.Mapping[str, Policy]
    record: R
    interrupted: bool = False
    refreshed: bool = False
    note: str = ""
    removal: t.Optional[Removal] = None

    def version(self, name: str) -> t.Optional[str]:
        """Return the version of a package that is installed."""
        found = self.packages.get(name)
        return found.version if found and found.installed else None

    def offered(self, name: str) -> t.Tuple[str, ...]:
        """Return the versions of a package that the sources offer, newest first."""
        policy = self.policies.get(name)
        return policy.versions if policy else ()

    def versions(self, name: str) -> t.Tuple[str, ...]:
        """Return every version that can be had, newest first, the installed one among them."""
        offered, have = self.offered(name), self.version(name)
        return offered if have is None or have in offered else (*offered, have)

    def there(self, names: t.Iterable[str]) -> t.Dict[str, str]:
        """Return the versions of those of the packages that are installed."""
        found = {name: self.version(name) for name in names}
        return {name: version for name, version in found.items() if version}

    def held(self, name: str) -> bool:
        """Tell whether a package is on hold."""
        return name in self.packages and self.packages[name].held

    @property
    def unfinished(self) -> bool:
        """Tell whether a transaction was killed."""
        return self.interrupted or any(one.broken for one in self.packages.values())
