# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a node has of packages that are kept at one version."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.packages.package import Package, Packages, Policy, Record, Removal

R = t.TypeVar("R", bound=Record)


@dataclasses.dataclass(frozen=True)
class Observed(Packages, t.Generic[R]):
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

    def there(self, names: t.Iterable[str]) -> t.Dict[str, str]:
        """Return the versions of those of the packages that are installed."""
        found = {name: self.installed(name) for name in names}
        return {name: version for name, version in found.items() if version}
