# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The repository that the user names for the driver: its files, and what it is preferred for."""

from __future__ import annotations

import typing as t

from ..errors import InputError
from ..packages import repository as package_repository
from ..packages.repository import Place, Repository

PREFERRED = "nvidia-* libnvidia-* libcuda* libnvcuvid* libnvoptix* libxnvctrl* firmware-nvidia-* cuda-drivers*"
PLACE = Place(
    "gpu-node-driver", "The NVIDIA driver, for gpu.node", "gpu.node.nvidia_driver", PREFERRED
)


def parse(values: t.Optional[t.Mapping[str, t.Any]], source: str) -> t.Optional[Repository]:
    """Return the repository; InputError names the key that cannot be meant."""
    if values is None and source == "repository":
        raise InputError.of("repository", None, "its url and its key, with source: repository")
    if values is not None and source != "repository":
        raise InputError.of("repository", values.get("url"), "source to be repository with it")
    return None if values is None else package_repository.parse(values)
