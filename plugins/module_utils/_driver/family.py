# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the planner asks of a family of distributions. Each family has a file in families."""

from __future__ import annotations

import typing as t

from .._base.steps import Step
from .branches import NO_VERSION, Version
from .desired import Desired
from .facts import DriverState, Traits
from .kernel.modules import SigningKey, refuse_key
from .packages.names import Names, Offer, Requirements
from .packages.versions import Choice, built, otherwise
from .record import Record


class Family:
    """What differs between the families beyond their traits, with what most of them have in common.

    This class by itself is a distribution whose packages are not known.
    """

    traits: Traits = Traits()

    # --- names: which packages there are, and what has to be asked of the sources before ---

    def names(self, offered: Offer, requirements: Requirements) -> Names:
        """Return the packages that fit the requirements."""
        return Names()

    def prefixes(self, requirements: Requirements) -> t.Tuple[str, ...]:
        """Return the prefixes of the package names that decide which packages there are."""
        return ()

    def candidates(self, offered: Offer, requirements: Requirements) -> t.Tuple[str, ...]:
        """Return the packages whose policies decide, by the names that are offered and what is installed."""
        return ()

    def ending(self, installed: t.Iterable[str], record: Record, desired: Desired) -> str:
        """Return how the names of a branch end."""
        return ""

    def wants_precompiled(
        self, asked: str, installed: t.Iterable[str], key: t.Optional[SigningKey]
    ) -> bool:
        """Return whether precompiled kernel modules are preferred to those that DKMS builds."""
        return False

    # --- choose: which versions go together ---

    def asked(self, state: DriverState) -> t.Set[str]:
        """Return further packages of kernel modules whose versions and relations are needed."""
        return set()

    def choose(self, state: DriverState, desired: Desired, kind: str) -> Choice:
        """Return one version of the driver in which all its packages are offered."""
        return built(state, desired, kind)

    def newest(self, state: DriverState, desired: Desired, kind: str) -> Version:
        """Return the newest version that is offered of the desired branch."""
        return self.choose(state, desired, kind).version or NO_VERSION

    def unusable(self, state: DriverState, steps: t.Iterable[Step], refusal: str) -> t.List[str]:
        """Return the kernel modules to be installed that a refusal of the package manager is about."""
        return []

    # --- offered: what stands in the way, what goes along, and what is left ---

    def streams(self, state: DriverState, desired: Desired) -> t.List[Step]:
        """Return the step that makes the sources offer the version."""
        return []

    def prerequisites(self, state: DriverState, desired: Desired, choice: Choice) -> t.List[Step]:
        """Return the steps that install what the driver needs.

        Raises:
            NodeError: if something is missing and may not be installed.
        """
        return []

    def refuse_others(self, installed: t.Iterable[str]) -> None:
        """Raise NodeError if the driver of another packager is installed."""
        return

    def displaced(self, state: DriverState, desired: Desired, choice: Choice) -> t.List[str]:
        """Return kernel modules of others that those of the choice exclude and that may be removed for them.

        Raises:
            NodeError: if there are some that may not.
        """
        return []

    def dependencies(
        self, state: DriverState, choice: Choice, changed: t.Collection[str]
    ) -> t.Dict[str, str]:
        """Return installed dependencies of what is ``changed`` that a transaction must name, with their versions."""
        return {}

    def refuse_foreign(self, state: DriverState) -> None:
        """Raise NodeError if packages of another packager have kernel modules of the driver."""
        return

    def check_signature(self, state: DriverState, desired: Desired, package: str) -> None:
        """Raise NodeError if the kernel does not accept the key that kernel modules are signed with."""
        key, is_signed = state.machine.signing_key, package in state.software.names.modules.signed
        if key and not is_signed and desired.kernel.secure_boot == "refuse":
            self.refuse_unsigned(key, state, desired, package)

    def refuse_unsigned(
        self, key: SigningKey, state: DriverState, desired: Desired, package: str
    ) -> None:
        """Raise NodeError if the kernel does not accept ``key``, which DKMS signs with."""
        missing = [name for name in ("dkms", "mokutil") if not state.software.installed(name)]
        refuse_key(key, missing)

    def excluded(self, names: t.Iterable[str], targets: t.Collection[str]) -> t.Set[str]:
        """Return the packages of another branch or generation, which the targets exclude."""
        return set()

    def alike(self, state: DriverState, kind: str, package: str) -> bool:
        """Return whether a package has modules of the desired branch and type, for whichever kernel."""
        return False

    def tracks(self, state: DriverState, kind: str) -> bool:
        """Return whether the modules of new kernels are installed along with these."""
        return False

    def objects(
        self, state: DriverState, drop: t.Iterable[str], taken: t.Collection[str]
    ) -> t.List[str]:
        """Return the packages that go along with kernel modules that go."""
        return []

    def waits(self, state: DriverState, choice: Choice) -> str:
        """Return why a newer kernel must be booted, which alone has the modules; empty if it need not."""
        return ""

    def remedy(self, state: DriverState, choice: Choice, kernel: str) -> str:
        """Return what a kernel without modules lacks, and the next step."""
        headers = state.software.names.headers.package_for(kernel) if choice.dkms else ""
        package = state.software.packages.get(headers)
        if package and not package.gone:
            return f". Next step: see why DKMS builds none, by dkms autoinstall -k {kernel}, or remove that kernel"
        return otherwise(headers)


UNSUPPORTED = Family()


def load_family(name: str) -> Family:
    """Return the family of that name, or UNSUPPORTED if there is none.

    A family is imported when it is needed, since a node compiles whatever a module imports at each run. The imports
    are statements, as Ansible sends a module only the files that it finds in import statements.
    """
    if name == "debian":
        from .families.debian import DEBIAN

        return DEBIAN
    if name == "ubuntu":
        from .families.ubuntu import UBUNTU

        return UBUNTU
    if name == "rhel":
        from .families.rhel import RHEL

        return RHEL
    if name == "suse":
        from .families.suse import SUSE

        return SUSE
    return UNSUPPORTED
