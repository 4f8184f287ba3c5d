# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where a pod's cgroup is, by its UID: the kubelet makes it before it has claims prepared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..._shared._base.errors import InputError, NodeError
from ..._shared._base.pods import UID
from ...tools.files import failing

QUALITIES: Final = ("", "burstable", "besteffort")
ROOTS: Final = ("", "kubelet")  # the latter where the node is a container itself, as with kind
CAPACITY, MOST, ENABLED = "dmem.capacity", "dmem.max", "cgroup.subtree_control"


def candidates(uid: str) -> Iterator[str]:
    """Yield where a pod's cgroup may be below the hierarchy's root, by driver and quality. Pure.

    InputError: it is no UID of a pod that has claims.
    """
    if not UID.fullmatch(uid):
        raise InputError.of("pod", uid, "a UID")
    for root in ROOTS:
        yield from (_by_systemd(root, quality, uid) for quality in QUALITIES)
        yield from (_by_cgroupfs(root, quality, uid) for quality in QUALITIES)


def _by_systemd(root: str, quality: str, uid: str) -> str:
    """systemd tells a slice's parents by the dashes in its name."""
    names = [*filter(None, (root, "kubepods", quality)), f"pod{uid.replace('-', '_')}"]
    return "/".join(f"{'-'.join(names[: n + 1])}.slice" for n in range(len(names)))


def _by_cgroupfs(root: str, quality: str, uid: str) -> str:
    return "/".join(filter(None, (root, "kubepods", quality, f"pod{uid}")))


def unified(cgroups: Path) -> bool:
    """Tell whether cgroups are those of version 2."""
    return (cgroups / "cgroup.controllers").exists()


def read_only(cgroups: Path) -> bool:
    """Tell whether limits can't be written, whoever this process is."""
    return bool(os.statvfs(cgroups).f_flag & os.ST_RDONLY)


def find(cgroups: Path, uid: str) -> Path | None:
    """Return a pod's cgroup, None where it has none any more. InputError: it is no UID."""
    found = (cgroups / one for one in candidates(uid))
    return next((one for one in found if one.is_dir()), None)


def require(cgroups: Path, uid: str) -> Path:
    """Return a pod's cgroup. NodeError: it has none."""
    if group := find(cgroups, uid):
        return group
    raise NodeError(
        f"pod {uid} has no cgroup",
        cause=f"there is none of its UID below {cgroups}/kubepods.slice or {cgroups}/kubepods",
        hint="let the kubelet make them (cgroupsPerQOS), with cgroupRoot / in its configuration",
    )


def enable(cgroups: Path, group: Path) -> None:
    """Have the controller of devices' memory in a cgroup, where the kernel has it. NodeError.

    It has to be on in each one above. Nothing is limited by that.
    """
    if not (cgroups / CAPACITY).exists():
        return
    for one in reversed([*group.relative_to(cgroups).parents]):
        above = cgroups / one
        below = above / group.relative_to(above).parts[0]
        if not (below / MOST).exists():
            with failing(f"the controller dmem can't be switched on in {above}"):
                _write(above / ENABLED, "+dmem")


def _write(path: Path, text: str) -> None:
    """A file of the kernel's is written at once, and never made."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
