# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the configurations of Docker, CRI-O and podman must have."""

from __future__ import annotations

import typing as t

from ..errors import InputError
from .common import CDI, Kind, Version, Wanted, lookup

SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
DOCKER = Kind(
    "docker",
    "dockerd",
    ("docker.service",),
    "/etc/docker/daemon.json",
    (25,),
    on=((("features", "cdi"), True),),
    spec_dirs=("cdi-spec-dirs",),
    handler="path",
    default=("default-runtime",),
    # On SIGHUP, and provided that they have a value: that a key is gone goes unnoticed.
    live=(("runtimes",), ("default-runtime",)),
    toml=False,
)
DOCKER_CDI_BY_DEFAULT = (28, 2)
DOCKER_CHECKS = (23,)  # from it on, dockerd has --validate
CRIO = Kind(  # CDI itself is always on
    "cri-o",
    "crio",
    ("crio.service",),
    "/etc/crio/crio.conf.d/99-gpu-node.conf",
    (1, 23),
    spec_dirs=("cdi_spec_dirs",),
    handler="runtime_path",
    default=("default_runtime",),
    prefix=("crio", "runtime"),
)
PODMAN = Kind("podman", "podman", (), "", (4, 1), toml=False)


def docker(config: t.Mapping[str, t.Any], version: Version) -> t.Dict[str, t.Any]:
    """Return Docker's configuration with the defaults that matter here."""
    by_default = version[:2] >= DOCKER_CDI_BY_DEFAULT
    features = {"cdi": by_default, **(config.get("features") or {})}
    return {"cdi-spec-dirs": list(SPEC_DIRS), **config, "features": features}


def crio(config: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """Return CRI-O's section with the defaults, which ``crio config`` shows as comments."""
    return {"cdi_spec_dirs": list(SPEC_DIRS), **(lookup(config, CRIO.prefix) or {})}


def podman(wanted: Wanted) -> t.Tuple[str, ...]:
    """Name folders that podman does not look into by itself; refuse what its command line is for."""
    if wanted.mode not in ("", CDI):
        raise InputError.of("mode", wanted.mode, "cdi for podman; --runtime names another runtime")
    return tuple(
        f"podman reads no CDI specifications in {folder}. Next step: name it with --cdi-spec-dir"
        for folder in wanted.spec_dirs
        if folder not in SPEC_DIRS
    )
