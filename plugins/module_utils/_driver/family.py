# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the families of distributions differ in; a family has a file in families, and the planner knows none of them."""

from __future__ import annotations

import re
import typing as t

from .._base.steps import Step
from .branches import NO_VERSION, Version
from .kernel.modules import SigningKey, refuse_key
from .names import Names, Offer, Wanted
from .report import uses_dkms
from .select import Choice, built
from .state import Desired, Observed, Record


class Family:
    """A family as it is where it is like most; one that is like no other is that of a system that is not known.

    ``name`` is that by which package managers are known, ``apt`` says that it has apt. ``pattern`` finds kernel
    modules of any branch. ``archive`` is what in the distribution's own archive has its driver, empty where NVIDIA's
    repository alone does. ``has_precompiled`` says that such kernel modules are a choice of the user's, ``module`` is
    dnf's that has the driver in streams, ``locking`` the package without which none can be held. ``builds`` says that
    the modules are built for one kernel and may serve others, ``kernels`` finds those that come along with them.
    """

    name = ""
    apt = False
    pattern = ""
    archive = ""
    has_precompiled = False
    module = ""
    locking = ""
    builds = False
    kernels = ""
    # The commands that a person is told.
    unhold, purge = "apt-mark unhold", "apt-get purge"

    # --- names: which packages there are, and what has to be asked of the sources before ---

    def names(self, offered: Offer, wanted: Wanted) -> Names:
        """Return the packages that fit what is wanted."""
        raise NotImplementedError

    def prefixes(self, wanted: Wanted) -> t.Tuple[str, ...]:
        """Return what the names begin with that decide about the packages."""
        return ()

    def candidates(self, kernel: str) -> t.Tuple[str, ...]:
        """Return the packages whose versions decide, for a running kernel."""
        return ()

    def modules(self, names: t.Iterable[str]) -> t.Tuple[str, ...]:
        """Return those of the offered names whose relations decide: packages with kernel modules."""
        return ()

    def ending(self, installed: t.Iterable[str], record: Record, desired: Desired) -> str:
        """Return how the names of a branch end."""
        return ""

    def wants_precompiled(
        self, asked: str, installed: t.Iterable[str], key: t.Optional[SigningKey]
    ) -> bool:
        """Tell whether precompiled kernel modules come before those that DKMS builds."""
        return False

    def type_of(self, package: str) -> str:
        """Return the type of the kernel modules that a package has, empty where it has none."""
        if not re.fullmatch(self.pattern, package):
            return ""
        return "open" if "open" in package.split("-") else "proprietary"

    # --- choose: which versions go together ---

    def asked(self, observed: Observed) -> t.Set[str]:
        """Return the packages of kernel modules whose versions and relations are asked for beside the names."""
        return set()

    def choose(self, observed: Observed, desired: Desired, kind: str) -> Choice:
        """Return one version of the driver that all its packages are offered in."""
        return built(observed, desired, kind)

    def newest(self, observed: Observed, desired: Desired, kind: str) -> Version:
        """Return the newest version that is offered of a branch, which is the version that is desired."""
        return self.choose(observed, desired, kind).version or NO_VERSION

    def unusable(self, observed: Observed, steps: t.Iterable[Step], words: str) -> t.List[str]:
        """Return the kernel modules among what is to be installed that a refusal of the package manager is about."""
        return []

    # --- offered: what stands in the way, what goes along, and what is left ---

    def streams(self, observed: Observed, desired: Desired) -> t.List[Step]:
        """Return the step that has the sources offer the version."""
        return []

    def prerequisites(self, observed: Observed, desired: Desired, choice: Choice) -> t.List[Step]:
        """Return the steps that install what the driver stands on; NodeError where that is not wanted."""
        return []

    def refuse_others(self, installed: t.Iterable[str]) -> None:
        """Refuse where the driver of another packager is installed."""

    def refuse_unsigned(self, observed: Observed, desired: Desired, package: str) -> None:
        """Refuse kernel modules, of a key that is not known, which the firmware does not accept."""
        if observed.signing_key:
            lacking = [one for one in ("dkms", "mokutil") if not observed.installed(one)]
            refuse_key(observed.signing_key, lacking)

    def excluded(self, names: t.Iterable[str], targets: t.Collection[str]) -> t.Set[str]:
        """Return the packages that the targets exclude: of another branch or generation."""
        return set()

    def alike(self, observed: Observed, kind: str, package: str) -> bool:
        """Tell whether a package has modules of the wanted branch and type, for whichever kernel."""
        return False

    def tracks(self, observed: Observed, kind: str) -> bool:
        """Tell whether the modules of new kernels come by themselves."""
        return False

    def objects(
        self, observed: Observed, drop: t.Iterable[str], taken: t.Collection[str]
    ) -> t.List[str]:
        """Return what goes with kernel modules that go."""
        return []

    def waits(self, observed: Observed, choice: Choice) -> str:
        """Say that the modules are there for a newer kernel only, which is to be booted."""
        return ""

    def remedy(self, observed: Observed, choice: Choice, kernel: str) -> str:
        """Say what a kernel without modules lacks, and what to do."""
        missing = observed.names.headers_of(kernel) if uses_dkms(choice) else ""
        return otherwise(missing)


def otherwise(missing: str) -> str:
    """Return the advice to install what a kernel lacks, or to do without the kernel."""
    advice = f"install {missing}" if missing else "install its modules"
    return f". Next step: {advice}, or remove that kernel"


UNKNOWN = Family()
