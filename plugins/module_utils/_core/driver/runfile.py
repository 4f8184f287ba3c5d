# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's own installer, a .run file: what is asked for, and what it leaves on a node."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..errors import InputError

UNINSTALLER = "/usr/bin/nvidia-uninstall"
# Where the installer writes what it has put where; its first line is "1.0-5809505 (580.95.05)".
TRACES = "/var/lib/nvidia/log"
LOG = "/var/log/nvidia-installer.log"
COPY = "/var/lib/gpu-node/nvidia-driver.run"
VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
SHA256 = re.compile(r"[0-9a-f]{64}")
LOCATION = re.compile(r"https?://[^\s\"'@]+|/[^\n]+")


@dataclasses.dataclass(frozen=True)
class Runfile:
    """The file: its path on the node or its address, and its checksum."""

    location: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Installed:
    """What the installer has left: a version, empty where it left nothing; what its run needs."""

    version: str = ""
    dkms: bool = False
    missing: t.Tuple[str, ...] = ()
    present: bool = True


def parse(
    values: t.Optional[t.Mapping[str, t.Any]], source: str, version: str, state: str
) -> t.Optional[Runfile]:
    """Return the file; InputError names the key that cannot be meant."""
    if (values is None) != (source != "runfile"):
        wanted = "its location and sha256" if values is None else "source to be runfile with it"
        raise InputError.of("runfile", values and values.get("location"), wanted)
    if values is None:
        return None
    if not LOCATION.fullmatch(values["location"]):
        raise InputError.of(
            "runfile.location", values["location"], "a path on the node, or an http(s) address"
        )
    checksum = values["sha256"].lower()
    if not SHA256.fullmatch(checksum):
        raise InputError.of("runfile.sha256", values["sha256"], "64 hexadecimal digits")
    if state == "present" and not VERSION.fullmatch(version):
        raise InputError.of(
            "version", version, "the exact version that the file has, such as 580.95.05"
        )
    return Runfile(values["location"], checksum)


def parse_traces(text: str) -> str:
    """Return the version in the installer's list of what it has put where."""
    match = re.match(r"[^\n]*\(([^)\n]+)\)|([^\s(]+)", text)
    return (match[1] or match[2] or "") if match else ""
