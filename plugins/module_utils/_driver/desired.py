# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the user wants of the driver, parsed from the options of gpu.node.nvidia_driver."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._base.errors import InputError
from .._base.packages import repository
from .._base.packages.repository import Repository
from .._base.text.masking import masked_text
from .branches import Table, Version
from .module_options import declared
from .module_options.declared import Options
from .releases import table

VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")
SHA256 = re.compile(r"[0-9a-f]{64}")
LOCATION = re.compile(r"https?://[^\s\"'@]+|/[^\n]+")
Values = t.Optional[t.Mapping[str, t.Any]]


class Runfile(t.NamedTuple):
    """NVIDIA's installer: its path on the node or its address, and its checksum."""

    location: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user wants."""

    state: str
    version: Version
    kernel_modules: str
    components: t.Tuple[str, ...]
    hold: bool
    load: bool
    persistence: bool
    manage_sources: bool
    secure_boot: str
    reload: str
    module_options: Options = ()
    source: str = "distribution"
    repository: t.Optional[Repository] = None
    runfile: t.Optional[Runfile] = None
    hold_kernel: bool = False
    update: bool = False
    adopt: bool = False
    precompiled: str = "auto"
    prerequisites: str = "refuse"
    releases: t.Optional[Table] = None


def parse_desired(params: t.Mapping[str, t.Any]) -> Desired:
    """Return what the options say; InputError names the one that cannot be meant."""
    named = params["repository"], params["source"]
    parsed = {
        "version": Version(params["version"]),
        "runfile": _runfile(params),
        "components": tuple(params["components"]),
        "repository": parse_repository(*named) if params["state"] == "present" else None,
        "module_options": declared.parse(params["module_options"]),
        "releases": table.parse(params["releases"]),
    }
    return Desired(**{**params, **parsed})


def parse_repository(values: Values, source: str) -> t.Optional[Repository]:
    """Return the repository; InputError names the key that cannot be meant."""
    if values is None and source == "repository":
        expected = "its url and its key, or its preset, with source: repository"
        raise InputError.of("repository", None, expected)
    if values is not None and source != "repository":
        said = values.get("preset") or masked_text(values.get("url") or "")
        raise InputError.of("repository", said, "source to be repository with it")
    return None if values is None else repository.parse(values)


def _runfile(params: t.Mapping[str, t.Any]) -> t.Optional[Runfile]:
    values, version = params["runfile"], params["version"]
    if (values is None) != (params["source"] != "runfile"):
        wanted = "its location and sha256" if values is None else "source to be runfile with it"
        raise InputError.of("runfile", values and values.get("location"), wanted)
    if values is None:
        return None
    location, checksum = values["location"], values["sha256"].lower()
    if not LOCATION.fullmatch(location):
        expected = "a path on the node, or an http(s) address"
        raise InputError.of("runfile.location", location, expected)
    if not SHA256.fullmatch(checksum):
        raise InputError.of("runfile.sha256", values["sha256"], "64 hexadecimal digits")
    if params["state"] == "present" and not VERSION.fullmatch(version):
        expected = "the exact version that the file has, such as 580.95.05"
        raise InputError.of("version", version, expected)
    return Runfile(location, checksum)
