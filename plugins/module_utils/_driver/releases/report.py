# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a run says of releases: the newest of the branch, its support, and the security bulletins."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import NodeError
from ..branches import NO_VERSION, Version
from ..select import wanted_type
from ..state import Desired, Observed
from . import standing

BENIGN = "W:"  # apt also warns of what is no failure
FAILED = "fetch"


def installed(observed: Observed) -> Version:
    """Return the version that is installed, empty where there is none."""
    return next(
        filter(None, map(observed.driver, observed.names.user_space)), observed.runfile.version
    )


def present(observed: Observed, desired: Desired) -> Version:
    """Return the version of the driver to speak of: what is installed, or loaded where nothing is known of that."""
    loaded = observed.loaded[0] if observed.loaded else NO_VERSION
    there = NO_VERSION if desired.source == "preinstalled" else installed(observed)
    return there or loaded


def newest(observed: Observed, desired: Desired, version: Version) -> Version:
    """Return the newest version of a version's branch that an update would bring, itself where none is newer.

    It is empty where no packages are asked for.
    """
    if not version or desired.runfile or desired.source == "preinstalled":
        return NO_VERSION
    wanted = dataclasses.replace(desired, version=Version(version.branch), update=True)
    try:
        kind = wanted_type(observed, wanted)
        found = observed.family.newest(observed, wanted, kind)
    except NodeError:
        found = NO_VERSION
    known = [one for one in (found, version) if one.fits(version.branch)]
    return max(known, key=lambda one: one.numbers)


def warnings(
    observed: Observed, desired: Desired, version: t.Optional[Version]
) -> t.Tuple[str, ...]:
    """Return what is wrong with the version that a plan leads to, and with the lists that it was chosen by."""
    of = version or NO_VERSION
    names = observed.names
    there = observed.drivers(names.user_space[0]) if names.prebuilt and of else ()
    offered = next((one for one in there if one.fits(of.branch)), NO_VERSION)
    best = newest(observed, desired, of)
    found = standing.warnings(of, best, desired.releases, observed.today, observed.gpus, offered)
    complaints = observed.refresh_note.split("; ") if desired.update else []
    failed = [one for one in complaints if FAILED in one or not one.startswith(BENIGN)]
    if any(failed):
        found.append(
            f"the package lists could not be fetched, so a newer driver may be missed: {'; '.join(failed)}"
        )
    return tuple(found)


def result(
    observed: Observed, desired: Desired, planned: t.Mapping[str, str]
) -> t.Dict[str, t.Any]:
    """Return what the module reports of the driver that is there, by the packages that a run leads to."""
    there = desired.state == "present"
    version, known = present(observed, desired) if there else NO_VERSION, desired.releases
    offered = newest(observed, desired, version)
    newer = "" if offered == version else offered
    brought = [Version.of(planned[one]) for one in observed.names.user_space if one in planned]
    return {
        "newer_version": newer,
        "support": standing.support(version, known, observed.today) if version and known else {},
        "security": standing.security(version, known) if version and known else {},
        "releases": standing.age(known, observed.today) if known else {},
        "notes": standing.notes("" if newer in brought else newer, version, known, observed.today),
    }
