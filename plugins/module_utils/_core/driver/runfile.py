# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's own installer, a .run file: what it leaves on a node, and the steps that run it."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..errors import InputError, NodeError
from ..steps import Step
from . import secure_boot
from .packages.names import Names

UNINSTALLER = "/usr/bin/nvidia-uninstall"
# Where the installer writes what it has put where; its first line is "1.0-5809505 (580.95.05)".
TRACES = "/var/lib/nvidia/log"
LOG = "/var/log/nvidia-installer.log"
COPY = "/var/lib/gpu-node/nvidia-driver.run"
VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
SHA256 = re.compile(r"[0-9a-f]{64}")
LOCATION = re.compile(r"https?://[^\s\"'@]+|/[^\n]+")
# Older installers choose the flavour by the folder of its source.
TYPED = 560
NAMES = Names(
    family="runfile",
    title="NVIDIA's installer",
    releases={},
    kernel={"open": "", "proprietary": ""},
    user_space=(),
    persistenced="",
)


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
    lacking: t.Tuple[str, ...] = ()
    present: bool = True


class State(t.Protocol):
    """What of a node decides; Observed has it."""

    @property
    def kernel(self) -> str:
        """The running kernel."""

    @property
    def headers(self) -> bool:
        """Whether its headers are there."""

    @property
    def nouveau(self) -> bool:
        """Whether nouveau is loaded."""

    @property
    def loaded(self) -> t.Optional[t.Tuple[str, str]]:
        """The version and flavour of the loaded driver."""

    @property
    def signing_key(self) -> t.Optional[secure_boot.SigningKey]:
        """The key of DKMS, with Secure Boot on."""

    @property
    def runfile(self) -> Installed:
        """What the installer has left."""


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


def command(version: str, kind: str, installed: Installed, *, running: bool) -> t.Tuple[str, ...]:
    """Return the arguments of the installer: silent, no part of a desktop, nothing unloaded."""
    words = ["--silent", "--no-x-check", "--no-opengl-files", "--no-check-for-alternate-installs"]
    if int(version.split(".")[0]) >= TYPED:
        words.append(f"--kernel-module-type={kind}")
    elif kind == "open":
        words.append("--kernel-module-build-directory=kernel-open")
    words += ["--dkms"] if installed.dkms else []
    words += ["--allow-installation-with-running-driver"] if running else []
    return tuple(words)


def steps(
    state: State,
    runfile: Runfile,
    version: str,
    kind: str,
    *,
    ours: str,
    packages: t.Sequence[str],
    refuse_unsigned: bool,
) -> t.List[Step]:
    """Return the step that installs, none where the version is there or nouveau must go first.

    ``ours`` is what an earlier run installed, "version flavour", or "?" where it was cut off.
    """
    have = state.runfile.version
    if packages:
        raise NodeError(
            f"the driver is installed from packages: {', '.join(packages)}",
            cause="the files of the two would mix",
            hint="remove the packages first: state absent, or the package manager where you installed them",
        )
    if have and not ours:
        if have == version:
            return []
        raise NodeError(
            f"version {have} from NVIDIA's installer is on the node, and not by this module",
            cause=f"{TRACES} is there, and version {version} would replace it",
            hint=f"run {UNINSTALLER} on the node, or ask for version {have}",
        )
    if ours == f"{version} {kind}" and have == version:
        return []
    if state.nouveau:
        return []  # The installer refuses while nouveau holds the GPUs; the blacklist and a boot come first.
    _check(state, runfile, refuse_unsigned)
    words = command(version, kind, state.runfile, running=state.loaded is not None)
    how = (
        "DKMS builds" if state.runfile.dkms else "the installer builds, for the running kernel only"
    )
    text = f"install {version} from {runfile.location}, with {kind} kernel modules that {how}"
    params = {
        "location": runfile.location,
        "sha256": runfile.sha256,
        "version": version,
        "kind": kind,
        "words": words,
    }
    return [Step("runfile", text, params)]


def _check(state: State, runfile: Runfile, refuse_unsigned: bool) -> None:
    """Refuse what the installer would fail at after it has begun."""
    if not state.runfile.present:
        raise InputError.of(
            "runfile.location", runfile.location, "a file that is there on the node"
        )
    if not state.headers:
        raise NodeError(
            f"the headers of the running kernel {state.kernel} are not installed",
            cause="NVIDIA's installer builds the kernel modules on the node",
            hint="install the distribution's package with them, then run again",
        )
    if state.runfile.lacking:
        raise NodeError(
            f"the node has no {', '.join(state.runfile.lacking)}",
            cause="NVIDIA's installer builds the kernel modules on the node",
            hint="install a compiler and make, then run again",
        )
    if state.signing_key and refuse_unsigned:
        if not state.runfile.dkms:
            raise NodeError(
                "Secure Boot is on",
                cause="without DKMS the installer has no key to sign the modules with",
                hint="install dkms and enrol its key, or turn Secure Boot off",
            )
        secure_boot.refuse(state.signing_key)
