# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The traits of versions of Kubernetes that matter for the DRA driver's devices, in one table.

Preflight, the driver, and the documentation read it. Sources: Kubernetes' changelogs,
pkg/features/kube_features.go, and k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

import re
import typing as t

Version = t.Tuple[int, int, int]

OLDEST: Version = (1, 36, 2)  # before it a GPU may be allocated twice
RECOMMENDED: Version = (1, 36, 3)
FIRST: Version = (0, 0, 0)


class Trait(t.NamedTuple):
    """A trait of the versions from ``since`` on, before the one that fixes it (None: none up to RECOMMENDED).

    ``means`` is a clause without a full stop, ``reference`` the issue or change.
    """

    means: str
    reference: str
    mended: t.Optional[Version] = None
    since: Version = FIRST

    def of(self, version: Version) -> bool:
        """Return whether a version has the trait."""
        return self.since <= version and (self.mended is None or version < self.mended)

    def __str__(self) -> str:
        return f"{self.means} ({self.reference})"


LEAKS = Trait(
    "counters of a device that is tried and not taken are not given back while a pod is tried, so that a claim may"
    " wait forever although devices are free",
    "kubernetes/kubernetes#140663",
    (1, 36, 3),
)
POOL_NAMES = Trait(
    "counters are those of a pool's name alone, so that two drivers' pools of one name share them",
    "kubernetes/kubernetes#140504",
)
LAST_DISTINCT = Trait(
    "distinctAttribute compares a device with the last one of each request only: two of three may be alike",
    "kubernetes/kubernetes#140600",
)
ALL_POOLS = Trait(
    "allocationMode All gets nothing on any node while the slices of any node with counters are incomplete or invalid",
    "kubernetes/kubernetes#134189",
    since=(1, 35, 0),
)
TRAITS = (
    Trait("resource.k8s.io/v1 is not served", "kubernetes/enhancements#4381", (1, 34, 0)),
    Trait(
        "devices that consume counters need them in their own slice, and the driver's slices are refused",
        "kubernetes/kubernetes#134189",
        (1, 35, 0),
    ),
    Trait(
        "the feature gates DRAConsumableCapacity, DRAPartitionableDevices, DRADeviceTaints, and DRAExtendedResource are"
        " off by default, and no release has what 1.36.2 fixes",
        "kubernetes/enhancements#5075, kubernetes/enhancements#4815, kubernetes/enhancements#5055,"
        " kubernetes/enhancements#5004",
        (1, 36, 0),
    ),
    Trait(
        "kube-scheduler forgets the counters of shares that pods have, and gives the whole GPU or its MIG devices to"
        " other pods too",
        "kubernetes/kubernetes#139211",
        OLDEST,
    ),
    Trait(
        "kube-scheduler ends at a claim for all devices (allocationMode All) with counters, which each user who may"
        " create claims can make",
        "kubernetes/kubernetes#138988",
        OLDEST,
    ),
    LEAKS,
    POOL_NAMES,
    LAST_DISTINCT,
    ALL_POOLS,
    Trait(
        "a request with adminAccess, as for monitoring, needs the counters of a device once more, so that it gets none"
        " whose counters a pod has taken",
        "kubernetes/kubernetes#140729",
    ),
    Trait(
        "kube-scheduler reads the counters of all nodes for each node, which takes long on many nodes",
        "kubernetes/kubernetes#138917",
    ),
)


def parse(text: str) -> t.Optional[Version]:
    """Return the version in the output of a program or a server, None if there is none."""
    match = re.search(r"\bv?(\d{1,4})\.(\d{1,4})\.(\d{1,4})\b", text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def text(version: Version) -> str:
    """Return a version as 1.36.3."""
    return ".".join(map(str, version))


def refusal(version: Version) -> str:
    """Return why a version can't be used, by the traits that are fixed next; empty from the oldest usable one on."""
    traits = [trait for trait in TRAITS if trait.of(version)]
    nearest = min((trait.mended for trait in traits if trait.mended), default=FIRST)
    reasons = [str(trait) for trait in traits if trait.mended == nearest]
    if not reasons or nearest > OLDEST:
        return ""
    return f"Kubernetes {text(version)}, with which {', and '.join(reasons)}"
