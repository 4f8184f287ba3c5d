# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a bundle is to hold."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._base.errors import InputError
from .._device_plugin.python import NEWEST, OLDEST

PYTHONS = tuple(f"3.{minor}" for minor in range(OLDEST, NEWEST + 1))
MACHINES = ("x86_64", "aarch64")
# By their names, the folder of the wheels of each list, and the list in the collection.
LISTS: t.Mapping[str, t.Tuple[str, str]] = {
    "requirements": ("wheels", "files/gpu_plugin/requirements.txt"),
    "webhook_requirements": ("webhook-wheels", "files/gpu_cluster/requirements.txt"),
}
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class Desired:
    """What the user asks for. ``images`` are names in an engine's store, or paths of archives."""

    state: str
    path: str
    pythons: t.Tuple[str, ...]
    machines: t.Tuple[str, ...]
    webhook: bool
    images: t.Tuple[str, ...]
    driver_version: str
    sha256: str


def wanted(params: t.Mapping[str, t.Any]) -> Desired:
    """Return what the options ask for. InputError: one of them can't be."""
    path = params["path"]
    if not path or path == "/":
        raise InputError.of("path", path, "a folder on this machine, which is made for the bundle")
    digest = params["sha256"].strip().lower()
    if digest and not SHA256.fullmatch(digest):
        raise InputError.of("sha256", params["sha256"], "64 hexadecimal digits")
    return Desired(
        params["state"],
        path.rstrip("/"),
        _several("pythons", params["pythons"], PYTHONS, " in quotes, as YAML reads 3.10 as 3.1"),
        _several("architectures", params["architectures"], MACHINES),
        params["webhook"],
        tuple(dict.fromkeys(params["images"])),
        params["driver_version"],
        digest,
    )


def _several(
    key: str, values: t.Sequence[str], known: t.Sequence[str], mind: str = ""
) -> t.Tuple[str, ...]:
    """Return values in their known order, each once."""
    expected = f"one of {', '.join(known)}{mind and ','}{mind}"
    for at, one in enumerate(values):
        if one not in known:
            raise InputError.of(f"{key}[{at}]", one, expected)
    if not values:
        raise InputError.of(key, list(values), expected)
    return tuple(one for one in known if one in values)
