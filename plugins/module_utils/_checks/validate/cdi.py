# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""CDI: a specification that describes what the node has, and runtimes that read it."""

from __future__ import annotations

import typing as t

from .check import Check, few, judged, skipped
from .daemon import CdiReport

NAMES = SERVICE, DEVICES, FILES, CURRENT = "CDI", "CDI devices", "CDI files", "CDI specification"
AGAIN = "run the role gpu.node.cdi"


class SpecificationState(t.NamedTuple):
    """How the specification differs from the one that the node should have, or why that is not known.

    ``lost`` says which files of packages are gone, with the next step.
    """

    differences: t.Tuple[str, ...] = ()
    unknown: str = ""
    lost: str = ""
    next_step: str = ""


def checks(
    report: CdiReport, devices: t.Optional[t.Sequence[str]], current: SpecificationState
) -> t.List[Check]:
    """Return the checks of the specification; ``devices`` are what the GPUs have, None where that is not known."""
    if report.devices is None:
        return [skipped(name, "nothing keeps a CDI specification here") for name in NAMES]
    path = report.path
    step = "see the log of gpu-cdi.service, fix the cause, then run the role gpu.node.cdi"
    failed = "gpu-cdi.service failed: the specification is not kept up to date"
    gone = ", ".join(report.missing)
    mounts = f"{path} mounts files that are gone ({gone})" if gone else ""
    differs = f"{path} is out of date{few(current.differences)}" if current.differences else ""
    return [
        judged(SERVICE, failed if report.failed else "", step),
        _devices(report, devices),
        judged(FILES, current.lost or mounts, current.next_step or AGAIN),
        skipped(CURRENT, current.unknown) if current.unknown else judged(CURRENT, differs, AGAIN),
    ]


def _devices(report: CdiReport, devices: t.Optional[t.Sequence[str]]) -> Check:
    if devices is None:
        return skipped(DEVICES, "the driver does not answer")
    # Devices are described by their UUIDs, and once more by their index.
    described = [device for device in report.devices or () if device.startswith(("GPU-", "MIG-"))]
    matches = sorted(described) == sorted(devices)
    cause = f"{report.path} does not describe the devices that the GPUs have"
    return judged(DEVICES, "" if matches else cause, AGAIN)
