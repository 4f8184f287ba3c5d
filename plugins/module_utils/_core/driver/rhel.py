# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver's packages in NVIDIA's repository for the RHEL family, and their module streams."""

from __future__ import annotations

import re
import typing as t

from ..errors import InputError
from ..steps import Step
from .branches import branch as branch_of
from .names import Names, Offer, Wanted, fabric

MODULE = "nvidia-driver"
FILE = f"/etc/dnf/modules.d/{MODULE}.module"
# Only these releases of the RHEL family have modules of the driver.
RELEASES = ("8", "9")
ENDINGS = {"open": "open", "proprietary": "dkms"}
ROLLING = {"open": "open-dkms", "proprietary": "latest-dkms"}


class Streams(t.NamedTuple):
    """The stream that is enabled, empty where none is, and those that are offered where it matters."""

    enabled: str = ""
    offered: t.Tuple[str, ...] = ()


def parse_enabled(text: str) -> str:
    """Return the stream in dnf's file of a module, empty where it is not enabled."""
    values = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    return values.get("stream", "") if values.get("state") == "enabled" else ""


def parse_list(text: str) -> t.Tuple[str, ...]:
    """Return the streams in the table of ``dnf module list``, in its order."""
    rows = re.findall(rf"^{MODULE}\s+(\S+)", text, flags=re.M)
    return tuple(dict.fromkeys(rows))


def fits(stream: str, version: str, kind: str) -> bool:
    """Tell whether a stream has a version and a flavour; an empty version fits every branch."""
    branch = branch_of(version) or r"\d+"
    return stream == ROLLING[kind] or bool(re.fullmatch(f"{branch}-{ENDINGS[kind]}", stream))


def stream_step(streams: Streams, version: str, kind: str) -> t.Optional[Step]:
    """Return the step, None where the enabled stream fits or none is offered.

    InputError names the streams that are offered where none of them fits.
    """
    if not streams.offered or fits(streams.enabled, version, kind):
        return None
    fitting = [one for one in streams.offered if fits(one, version, kind)]
    if not fitting:
        raise InputError.of(
            "version",
            version,
            f"a branch that the module {MODULE} has a stream of with {kind} kernel modules: "
            f"{', '.join(streams.offered)}",
        )
    exact = f"{branch_of(version)}-{ENDINGS[kind]}"
    rolling = next((one for one in fitting if one in ROLLING.values()), "")
    wanted = exact if exact in fitting else rolling
    wanted = wanted or max(fitting, key=lambda one: int(branch_of(one)))
    words = f", in place of {streams.enabled}" if streams.enabled else ""
    params = {"stream": wanted, "before": streams.enabled}
    return Step("stream", f"enable the module stream {MODULE}:{wanted}{words}", params)


def packages(offered: Offer, wanted: Wanted) -> Names:
    """Return the packages; only the fabric manager's name depends on what is offered."""
    return Names(
        title="RHEL family",
        family="rhel",
        kernel={"open": "kmod-nvidia-open-dkms", "proprietary": "kmod-nvidia-latest-dkms"},
        user_space=("nvidia-driver-cuda", "nvidia-persistenced"),
        persistenced="nvidia-persistenced",
        headers="kernel-devel-{}",
        **fabric(offered, wanted, "nvidia-fabric-manager"),
    )
