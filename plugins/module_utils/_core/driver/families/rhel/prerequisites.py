# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the driver stands on in the RHEL family: EPEL, which has dkms, and dnf's plugin that locks versions."""

from __future__ import annotations

import typing as t

from ....errors import NodeError
from ....steps import Step
from ...report import uses_dkms
from ...select import Choice
from ...state import Desired, Observed

LOCKING = "python3-dnf-plugin-versionlock"
OWN = ("fedora", "amzn")  # they have dkms themselves


def steps(observed: Observed, desired: Desired, choice: Choice) -> t.List[Step]:
    """Return the step that installs what is missing; NodeError where that is not wanted, or not offered."""
    epel = _epel(observed, desired) if _lacks_dkms(observed, choice) else ""
    found = [epel] if epel else []
    found += [LOCKING] if observed.lacks_locking else []
    if not found:
        return []
    # What EPEL has is not known before.
    params = {"packages": dict.fromkeys(found), "remove": (), "pins": {}, "opens": bool(epel)}
    return [Step("install", f"install {' and '.join(found)}, which the driver needs", params)]


def _lacks_dkms(observed: Observed, choice: Choice) -> bool:
    """Tell whether DKMS is to build and is neither there nor offered."""
    new = choice.version is not None and not observed.installed(choice.kernel)
    there = observed.installed("dkms") or observed.candidate("dkms")
    return new and uses_dkms(choice) and not there


def _epel(observed: Observed, desired: Desired) -> str:
    """Return the package that brings EPEL."""
    names = [one for one in observed.names.needs if "epel-release" in one]
    offered = next((one for one in names if observed.candidate(one)), "")
    there = next((one for one in names if observed.installed(one)), "")
    if offered and not there and desired.prerequisites == "install":
        return offered
    cause, hint = _words(observed, offered, there)
    raise NodeError(
        "dkms, which builds the kernel modules, is in none of the node's sources; nothing was changed",
        cause=cause,
        hint=hint,
    )


def _words(observed: Observed, offered: str, there: str) -> t.Tuple[str, str]:
    """Return why dkms is not offered, and what to do; packages that bring EPEL are offered, or there."""
    if observed.distribution in OWN:
        words = "the distribution's own repositories have it, and are off or exclude it"
        return words, "enable them, and see to excludepkgs in dnf's configuration"
    if there:
        words = f"it comes from EPEL: {there} is installed and its repository off"
        return words, "enable its repository: dnf config-manager --set-enabled epel"
    words = "it comes from EPEL, which the node does not have"
    if offered:
        advice = f"set prerequisites to install, which installs {offered} from your sources, or install it yourself"
        return words, advice
    return words, "enable EPEL, or another source that has dkms"
