# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which branches of the driver run an architecture of GPUs, by NVIDIA's lists of supported products."""

from __future__ import annotations

import re
import typing as t

from ..errors import NodeError

FIRST = {"blackwell": 570}
LAST = {"kepler": 470, "maxwell": 580, "pascal": 580, "volta": 580}


class NoSupport(NodeError):
    """None of the versions runs a GPU of the node."""


Gpus = t.Sequence[t.Tuple[str, str]]


def branch(version: str) -> str:
    """Return the branch of a version, or of a package's version; empty where it does not say."""
    match = re.match(r"\d+", version.split(":", 1)[-1])
    return match[0] if match else ""


def fits(version: str, wanted: str) -> bool:
    """Tell whether a version is the one asked for, or of the branch; all are where nothing is asked for."""
    return not wanted or f"{version}.".startswith(f"{wanted}.")


def rule(architecture: str) -> str:
    """Return the rule in words, empty where there is none."""
    if architecture in FIRST:
        return f"{architecture} GPUs need branch {FIRST[architecture]} or later"
    if architecture in LAST:
        return f"{LAST[architecture]} is the last branch for {architecture} GPUs"
    return ""


def last(gpus: Gpus) -> str:
    """Return the branch after which some GPU is left without a driver, empty where there is none."""
    branches = [LAST[one] for _address, one in gpus if one in LAST]
    return str(min(branches)) if branches else ""


def unsupported(version: str, gpus: Gpus) -> t.List[t.Tuple[str, str]]:
    """Return the GPUs, given as (address, architecture), that a version or branch does not run."""
    number = int(branch(version) or 0)
    return [
        (address, one)
        for address, one in gpus
        if number and not FIRST.get(one, 0) <= number <= LAST.get(one, number)
    ]


def able(versions: t.Sequence[str], gpus: Gpus) -> t.List[str]:
    """Return those of the versions, in their order, that run most of the GPUs; none where they run no GPU."""
    counts = {one: len(gpus) - len(unsupported(one, gpus)) for one in versions}
    most = max(counts.values(), default=0)
    return [one for one, count in counts.items() if count == most and (count or not gpus)]


def no_version(versions: t.Sequence[str], gpus: Gpus) -> NoSupport:
    """Return the error where none of the versions runs a GPU of the node."""
    address, architecture = unsupported(versions[0], gpus)[0]
    wanted = LAST.get(architecture) or FIRST.get(architecture)
    return NoSupport(
        f"the driver {', '.join(versions)} does not run the {architecture} GPU {address}",
        cause=rule(architecture),
        hint=f"ask for such a branch, as with version {wanted}, from a source that offers it",
    )


def warnings(version: t.Optional[str], gpus: Gpus) -> t.List[str]:
    """Return what to say of GPUs that stay without a driver beside others."""
    return [
        f"the {architecture} GPU {address} does not run with the driver {version}: {rule(architecture)}"
        for address, architecture in unsupported(version or "", gpus)
    ]
