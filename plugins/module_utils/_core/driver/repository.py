# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The repository that the user names for the driver: its files, and what it is preferred for."""

from __future__ import annotations

import typing as t

from ..errors import InputError
from ..packages import repository as package_repository
from ..packages.pgp import PublicKey
from ..packages.repository import URL, Place, Repository, check_key, is_trusted

__all__ = ["PATHS", "PLACE", "Repository", "check_key", "files", "is_trusted", "parse", "texts"]

PLACE = Place("gpu-node-driver", "The NVIDIA driver, for gpu.node", "gpu.node.nvidia_driver")
ID = PLACE.name
SOURCES = PLACE.sources
PREFERENCES = f"/etc/apt/preferences.d/{ID}"
APT_KEYS = PLACE.apt_keys
RPM_KEY = PLACE.rpm_key
REPOSITORIES = PLACE.rpm_repositories
PATHS = (*PLACE.paths, PREFERENCES)
# The repository is preferred for these only: of all else the distribution's own packages win.
PREFERRED = "nvidia-* libnvidia-* libcuda* libnvcuvid* libnvoptix* libxnvctrl* firmware-nvidia-* cuda-drivers*"
APT_PRIORITY, APT_OTHERS = 600, 400


def parse(values: t.Optional[t.Mapping[str, t.Any]], source: str) -> t.Optional[Repository]:
    """Return the repository; InputError names the key that cannot be meant."""
    if values is None or source != "repository":
        if values is not None:
            raise InputError.of("repository", values.get("url"), "source to be repository with it")
        if source == "repository":
            raise InputError.of("repository", None, "its url and its key, with source: repository")
        return None
    return package_repository.parse(values)


def files(repository: Repository, family: str, keys: t.Sequence[PublicKey]) -> t.Dict[str, str]:
    """Return the files that make a node of a family know the repository, by their paths."""
    found = package_repository.files(repository, PLACE, family, keys)
    if family in REPOSITORIES:
        return found
    match = URL.match(repository.url)
    host = match[1] if match else ""
    origin = f'Pin: origin "{host}"'
    pin = f"{PLACE.header}Package: {PREFERRED}\n{origin}\nPin-Priority: {APT_PRIORITY}\n"
    # A repository without a host cannot be told from others on the node's own disk.
    pin += f"\nPackage: *\n{origin}\nPin-Priority: {APT_OTHERS}\n" if host else ""
    return {**found, PREFERENCES: pin}


def texts(found: t.Mapping[str, str]) -> t.Dict[str, str]:
    """Return the files for a user, to whom a key says nothing."""
    return package_repository.texts(found, PLACE)
