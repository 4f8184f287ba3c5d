# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The device nodes that all GPUs share, without which CUDA starts in no container."""

from __future__ import annotations

import os
import posixpath
import stat
import typing as t

from ..._machine.devices import Device, parse_majors
from ..._machine.host import Host

VERSION = "/proc/driver/nvidia/version"
# The minors of the nodes, and their major unless the kernel assigns it.
MAJOR = 195
UVM = "nvidia-uvm"
NEEDED: t.Mapping[str, t.Tuple[int, int]] = {"/dev/nvidiactl": (MAJOR, 255), f"/dev/{UVM}": (0, 0)}


def problems(host: Host, root: str = "", dev_root: str = "") -> t.Tuple[str, ...]:
    """Return the problems of the device nodes that all GPUs share, one text a node.

    There are none if no driver is loaded or the folder of device nodes can't be seen. ``root`` is where the host's /
    is seen, and ``dev_root`` the path below that before /dev.
    """
    below = f"{root.rstrip('/')}{dev_root.rstrip('/')}"
    if not host.exists(f"{root}{VERSION}") or not host.exists(f"{below}/dev"):
        return ()
    uvm = parse_majors(host.read(f"{root}/proc/devices"), UVM)
    messages = (_problem(host, below, path, *number, uvm) for path, number in NEEDED.items())
    return tuple(filter(None, messages))


def _problem(
    host: Host, below: str, path: str, major: int, minor: int, uvm: t.Container[int]
) -> str:
    node = host.status(below + path)
    if node is None:
        return f"{path} does not exist"
    if stat.S_ISDIR(node.mode):
        return f"{path} is a folder"
    if not stat.S_ISCHR(node.mode):
        return ""
    number = Device(os.major(node.device), os.minor(node.device))
    if major and number != (major, minor):
        return f"{path} has the number {number.major}:{number.minor}, not {major}:{minor}"
    if not major and (number.major not in uvm or number.minor != minor):
        name = posixpath.basename(path)
        return f"{path} has the number {number.major}:{number.minor}, which is not {name}'s in /proc/devices"
    return ""
