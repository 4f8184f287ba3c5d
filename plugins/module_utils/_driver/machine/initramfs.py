# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The initramfs of each kernel that can be booted: what it has of the driver, and how it is rebuilt."""

from __future__ import annotations

import dataclasses
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from ..kernel.modules import IN_INITRAMFS, Modules
from ..module_options.in_force import MODPROBE_FILE

IMAGES = ("/boot/initrd.img-{}", "/boot/initramfs-{}.img", "/boot/initrd-{}")
LISTERS = ("lsinitramfs", "lsinitrd")
LIMIT = 120.0  # seconds


def images(host: Host, kernels: t.Sequence[str]) -> t.Dict[str, float]:
    """Return the kernels with an initramfs that can be rebuilt, and when it was made."""
    if host.which("update-initramfs") is None and host.which("dracut") is None:
        return {}
    result = {}
    for kernel in kernels:
        times = [host.mtime(path.format(kernel)) for path in IMAGES]
        made = [time for time in times if time is not None]
        if made and host.exists(f"/boot/vmlinuz-{kernel}"):
            result[kernel] = max(made)
    return result


def mark(kernel: str, made: float) -> str:
    """Return what identifies this version of a kernel's initramfs."""
    return f"{kernel} {made:.3f}"


def looked_into(host: Host, modules: Modules, *, changes: bool) -> Modules:
    """Return the modules' facts without the kernels whose initramfs has nothing to do with our file.

    ``changes`` says that the file is to change. An initramfs is listed only where it would be rebuilt, as that takes a
    second.
    """
    candidates = modules.images if changes else modules.stale
    free = tuple(kernel for kernel in candidates if not _carries(host, kernel))
    return dataclasses.replace(
        modules,
        images=tuple(image for image in modules.images if image not in free),
        stale=tuple(kernel for kernel in modules.stale if kernel not in free),
        spared=free,
    )


def _carries(host: Host, kernel: str) -> bool:
    """Return whether an initramfs has our file, the driver or nouveau. True if it can't be listed."""
    lister = next((program for program in LISTERS if host.which(program) is not None), None)
    if lister is None:
        return True
    completed = host.run([lister, _image(host, kernel)], check=False, timeout=LIMIT)
    is_listed = completed.rc == 0 and completed.out.strip()
    return not is_listed or IN_INITRAMFS.search(completed.out) is not None


def _image(host: Host, kernel: str) -> str:
    return next(path for path in (form.format(kernel) for form in IMAGES) if host.exists(path))


def write(
    host: Host, text: str, kernels: t.Sequence[str], spared: t.Sequence[str] = ()
) -> t.FrozenSet[str]:
    """Write or remove our file, rebuild what the kernels read of it at boot, and return the marks of the others.

    Of those to be ``spared`` an initramfs is rebuilt as well that was made anew since it was looked into.
    """
    if text and host.read(MODPROBE_FILE) != text:
        host.write(MODPROBE_FILE, text, mode=0o644)
    elif not text:
        host.remove(MODPROBE_FILE)
    there = images(host, spared)
    late = [kernel for kernel in there if _carries(host, kernel)]
    for kernel in (*kernels, *late):
        try:
            _rebuild(host, kernel)
        except NodeError as error:
            error.hint = "free space in /boot or fix what it names, then run again"
            raise
    return frozenset(mark(kernel, made) for kernel, made in there.items() if kernel not in late)


def _rebuild(host: Host, kernel: str) -> None:
    """Rebuild an initramfs; if that fails, the one before stays."""
    if host.which("update-initramfs") is not None:
        host.run(["update-initramfs", "-u", "-k", kernel])
        return
    # dracut removes the file that it can't write, such as where /boot is full.
    image = _image(host, kernel)
    new = f"{image}.gpu-node"
    try:
        host.run(["dracut", "--force", new, kernel])
        host.move(new, image)
    finally:
        host.remove(new)
