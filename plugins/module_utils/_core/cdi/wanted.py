# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI specification that a node should have, and what there is to say about it."""

from __future__ import annotations

import typing as t

from ..device_nodes import CONTROL_NODES
from ..toolkit.version import MINIMUM_TEXT, described, is_safe
from . import specification as cdi
from .generated import NVML

REQUIRED_NODES = CONTROL_NODES[:2]


class Options(t.NamedTuple):
    """What a user chooses: see the options of gpu.node.cdi."""

    path: str
    hooks: str = "auto"
    library_folders: t.Tuple[str, ...] = ()
    driver_root: str = "/"
    generator: str = NVML


class Wanted(t.NamedTuple):
    """The specification that the node should have; an empty text where it has no device."""

    text: str = ""
    devices: t.Tuple[str, ...] = ()
    cdi_version: str = ""
    driver_version: str = ""
    hook: str = ""


def choose_hook(found: t.Optional[t.Tuple[str, str]]) -> t.Tuple[str, t.List[str]]:
    """Return the hook program, if there is one to use, and what to say of one that is not."""
    if found is None:
        return "", []
    path, text = found
    if is_safe(text):
        return path, []
    return "", [
        f"{path} is not used: its version is {described(text)}, and before {MINIMUM_TEXT} containers could "
        "break out through it. Libraries are mounted without it. Next step: upgrade the NVIDIA container toolkit"
    ]


def rivals(others: t.Mapping[str, str]) -> t.List[str]:
    """Name other files that describe the same devices."""
    return [
        f"{path} describes {cdi.KIND} too, and runtimes read both. Next step: remove it"
        for path, text in others.items()
        if cdi.describes_gpus(text)
    ]


def missing(nodes: t.Container[str], files: cdi.Files, version: str) -> t.List[str]:
    """Name what CUDA in containers will miss."""
    notes = [
        f"{path} does not exist, and CUDA needs it. Next step: load the module (nvidia-modprobe -u -c 0)"
        for path in REQUIRED_NODES
        if path not in nodes
    ]
    if not any("libcuda.so" in one.names for one in files.libraries):
        notes.append(
            f"libcuda.so.{version} is not on this node: containers get no CUDA. "
            "Next step: install the driver's libraries (gpu.node.nvidia_driver)"
        )
    return notes
