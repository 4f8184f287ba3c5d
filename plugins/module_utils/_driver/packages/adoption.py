# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver that somebody else has installed: what is adopted, its counterparts in the desired one, the way back."""

from __future__ import annotations

import re
import typing as t

from ..._base.steps import Step
from ..facts import DriverState, Traits
from .names import mark, part

# Packages that are there for each type of kernel modules.
TYPED = re.compile(r"nvidia-(?:driver|headless|headless-no-dkms|kernel-source)-.*")
OPEN = "-open"


def advice(traits: Traits, adopt: bool, source: str) -> str:
    """Return the part of a hint that says how packages are adopted, or what helps if that did not."""
    if adopt and source == "distribution":
        return "let it come from the repository that it is of by source: repository, "
    fits = traits.apt and not adopt
    return "take it over with its packages by adopt: true, " if fits else ""


def steps(state: DriverState, install: t.Sequence[Step]) -> t.List[Step]:
    """Return the steps before a transaction: write down what is taken over, and have the installer's driver go."""
    before = state.history.record.adopted_versions
    packages = state.foreign_packages
    fresh = {name: version for name, version in packages.items() if name not in before}
    versions = [f"{name} ({version})" for name, version in sorted(fresh.items())]
    gone = state.software.nvidia_installer and not state.types
    version = state.software.runfile.version or "of unknown version"
    versions += [f"the driver {version} from NVIDIA's installer"] if gone else []
    result = []
    if versions:
        params = {"packages": fresh, "runfile": version if gone else ""}
        result.append(Step("adopt", f"take over {', '.join(versions)}", params))
    if gone:
        text = f"uninstall the driver {version} that NVIDIA's installer has brought"
        fetch = next((step.params for step in install if step.action == "install"), None)
        result.append(Step("uninstall", text, {"fetch": fetch}))
    return result


def counterparts(state: DriverState, known: t.Collection[str], kind: str) -> t.List[str]:
    """Return the packages of the desired branch and type that replace those ``known``, without kernel modules.

    What its owner has removed since does not come back.
    """
    branch = mark(state.software.names.user_space[0]) if state.software.names.user_space else ""
    types = {OPEN in counterpart for counterpart in known if state.type_of(counterpart)}
    swaps = types == {kind != "open"}
    result = []
    for name in sorted(known):
        if state.type_of(name) or name.startswith("linux-"):
            continue
        counterpart = name
        if mark(name):
            is_open = name.endswith(OPEN)
            if swaps and TYPED.fullmatch(name):
                is_open = kind == "open"
            counterpart = f"{part(name)}-{branch}" if branch else part(name)
            counterpart += OPEN if is_open else ""
        there = state.software.packages.get(counterpart)
        asked = counterpart in state.history.record.requested
        if asked or (there and not there.gone) or state.software.installed(name):
            result.append(counterpart)
    return result


def exchanged(state: DriverState) -> t.Dict[str, str]:
    """Return the former versions of packages of others that we have changed or removed since."""
    record = state.history.record
    return {
        name: version
        for name, version in sorted(record.foreign_packages.items())
        if name in record.exchanged and state.software.installed(name) != version
    }


def modules_given_up(state: DriverState) -> str:
    """Return which kernel modules do not come back, or an empty string if more than modules was exchanged.

    SUSE installs modules by the hardware: without a user space they were no driver, for which ours would have to stay.
    """
    modules = exchanged(state)
    if not state.machine.traits.builds or not all(map(state.type_of, modules)):
        return ""
    named = ", ".join(f"{name} {version}" for name, version in modules.items())
    return f"{named} can't be put back, as no repository that could be read has it"


def why_left(state: DriverState) -> str:
    """Return why the driver that was there can't be put back, empty if it can or never went."""
    if state.history.record.replaced:
        return f"the driver {state.history.record.replaced} was from NVIDIA's installer"
    if state.software.back is None:
        packages = (f"{name} {version}" for name, version in exchanged(state).items())
        return f"not all of {', '.join(packages)} can be had any more"
    return ""


def in_words(state: DriverState, removal: str) -> str:
    """Return the summary of a removal."""
    why = why_left(state)
    if why:
        return f"leave the driver as it is, since {why}; forget the record of additions"
    packages = [f"{name} ({version})" for name, version in (state.software.back or {}).items()]
    return f"put back {', '.join(packages)}; {removal}" if packages else removal
