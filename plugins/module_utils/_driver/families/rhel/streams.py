# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The module streams of the driver in RHEL 8 and 9."""

from __future__ import annotations

import re
import typing as t

from ...._base.errors import InputError
from ...._base.packages.package import Policy
from ...._base.packages.rpm import ordered
from ...._base.steps import Step
from ... import branches
from ...branches import Version
from ...state import Desired, Observed, Streams
from .precompiled import is_precompiled, version_of

MODULE = "nvidia-driver"
MODULE_FILE = f"/etc/dnf/modules.d/{MODULE}.module"
# NVIDIA's repositories have modules for these releases: RHEL's and Amazon Linux 2023.
RELEASES = ("8", "9", "2023")
# By the type of the kernel modules; precompiled ones are proprietary there.
PRECOMPILED = "precompiled"
ENDINGS = {"open": "-open", "proprietary": "-dkms", PRECOMPILED: ""}
ROLLING = {"open": "open-dkms", "proprietary": "latest-dkms", PRECOMPILED: "latest"}

ARTIFACT = re.compile(r": +(\S+)-(\d+):(\S+)\.(\w+)$", re.M)


def parse_enabled(text: str) -> str:
    """Return the stream in dnf's file of a module, empty where it is not enabled."""
    values = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    return values.get("stream", "") if values.get("state") == "enabled" else ""


def parse_info(text: str) -> t.Dict[str, t.Tuple[t.Tuple[str, str, str], ...]]:
    """Return the packages of each stream by what ``dnf module info`` says, which has a paragraph for each build."""
    found: t.Dict[str, t.Tuple[t.Tuple[str, str, str], ...]] = {}
    for paragraph in re.split(r"\n\s*\n", text):
        stream = re.search(r"^Stream +: (\S+)", paragraph, flags=re.M)
        if stream:
            packages = tuple(match.groups() for match in ARTIFACT.finditer(paragraph))
            rows = tuple((name, machine, _full(*rest)) for name, *rest, machine in packages)
            found[stream[1]] = (*found.get(stream[1], ()), *rows)
    return found


def _full(epoch: str, version: str) -> str:
    return version if epoch == "0" else f"{epoch}:{version}"


def with_stream(
    policies: t.Mapping[str, Policy], streams: Streams, stream: str, machine: str
) -> t.Dict[str, Policy]:
    """Return what the sources offer once a stream is enabled: of what any stream has, only its packages."""
    modular = {name for rows in streams.offered.values() for name, _machine, _version in rows}
    found: t.Dict[str, t.Set[str]] = {}
    for name, of, version in streams.offered.get(stream, ()):
        if of in ("noarch", machine):
            found.setdefault(name, set()).add(version)
    others = {name: one for name, one in policies.items() if name not in modular}
    return {**others, **ordered(found)}


def wanted(observed: Observed, desired: Desired) -> t.Tuple[Version, str]:
    """Return the version or branch that a stream must have, empty where all will do, and the type of modules.

    The type is empty where the modules are in no stream.
    """
    kind = observed.wanted_type(desired.kernel_modules)
    package = observed.names.kernel.get(kind, "")
    version = version_of(package) or desired.version or branches.last(observed.gpus)
    if is_precompiled(package):
        kind = PRECOMPILED if kind == "proprietary" else ""
    return version, kind


def stream_fits(stream: str, version: Version, kind: str) -> bool:
    """Tell whether a stream has a version and a module type; an empty version fits every branch."""
    branch = version.branch or r"\d+"
    return stream == ROLLING[kind] or bool(re.fullmatch(f"{branch}{ENDINGS[kind]}", stream))


def _fitting(streams: Streams, version: Version, kind: str) -> t.List[str]:
    """Return the streams of a module type that have a version."""
    number = Version.of(version)
    return [
        name
        for name, rows in streams.offered.items()
        if stream_fits(name, version, kind)
        and any(Version.of(one).fits(number) for _name, _machine, one in rows)
    ]


def choose_stream(streams: Streams, version: Version, kind: str) -> str:
    """Return the stream to enable, empty where the one that is enabled fits or none does."""
    fitting = _fitting(streams, version, kind)
    if streams.enabled in fitting:
        return ""
    exact = f"{version.branch}{ENDINGS[kind]}"
    preferred = [one for one in (exact, ROLLING[kind]) if one in fitting]
    return next(iter(preferred), "") or max(
        fitting, key=lambda one: int(Version(one).branch), default=""
    )


def stream_step(streams: Streams, version: Version, kind: str) -> t.Optional[Step]:
    """Return the step, None where the enabled stream fits or none is offered.

    InputError names the streams that are offered where none of them fits.
    """
    found = choose_stream(streams, version, kind)
    if found:
        words = f", in place of {streams.enabled}" if streams.enabled else ""
        params = {"stream": found, "before": streams.enabled}
        return Step("stream", f"enable the module stream {MODULE}:{found}{words}", params)
    if streams.offered and not _fitting(streams, version, kind):
        raise InputError.of(
            "version",
            version,
            f"a branch that the module {MODULE} has a stream of with {kind} kernel modules: "
            f"{', '.join(streams.offered)}",
        )
    return None
