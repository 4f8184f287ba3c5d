# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ubuntu machines on which a package of somebody else is not in order, as reports have them."""

from __future__ import annotations

import dataclasses

from tests.fakes.played.debs import Deb
from tests.fakes.played.ubuntu.played_ubuntu import Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import (
    AUTOINSTALL,
    DKMS,
    K85,
    K86,
    NEW,
    NEWER,
    B,
    driver,
    kernel,
)

# NVIDIA/open-gpu-kernel-modules#188: the driver's version does not build for the new kernel.
UNBUILDABLE = f"""\
if [ -f "$DPKG_ROOT/usr/src/nvidia-{NEW}/dkms.conf" ] && [ ! -f "$DPKG_ROOT/usr/src/nvidia-{NEWER}/dkms.conf" ]; then
  echo "Error! Bad return status for module build on kernel: {K86} (x86_64)" >&2
  exit 11
fi
{AUTOINSTALL}"""
FULL = 'echo "cp: error writing /boot/initrd.img: No space left on device" >&2; exit 1\n'
BUILT = (DKMS, *kernel(K85), *driver(NEW))
HEADERS, IMAGE = f"linux-headers-{K86}", f"linux-image-{K86}"
CHROME = """
Package: google-chrome-stable
Status: install ok {state}
Priority: optional
Architecture: amd64
Maintainer: x <x@x>
Version: 120.0-1
Depends: {needs}
Description: x
"""


def _failing(packages: tuple[Deb, ...], name: str, script: str) -> tuple[Deb, ...]:
    """Return the packages, of which one can't be configured."""
    scripts = (("postinst", script),)
    return tuple(
        dataclasses.replace(package, scripts=scripts) if package.name == name else package
        for package in packages
    )


UNBUILT = _failing(
    (DKMS, *kernel(K85, newest=False), *kernel(K86), *driver(NEW), *driver(NEWER)),
    HEADERS,
    UNBUILDABLE,
)
BOOT_FULL = _failing(B, IMAGE, FULL)


def upgrade(node: Ubuntu, packages: tuple[Deb, ...]) -> Ubuntu:
    """Play a night in which a package of the archive can't be configured."""
    node.archive(packages)
    command = ["apt-get", "-y", "-q", "--no-install-recommends", "dist-upgrade"]
    assert node.run(command, check=False).rc == 100
    return node


def add_chrome(node: Ubuntu, needs: str = "fonts-liberation", state: str = "unpacked") -> Ubuntu:
    """Have a person install a package with dpkg although its dependencies are missing."""
    text = (node.root / "var/lib/dpkg/status").read_text()
    node.put("var/lib/dpkg/status", f"{text}{CHROME.format(state=state, needs=needs)}")
    node.put("var/lib/dpkg/info/google-chrome-stable.list", "/.\n")
    return node


def state(node: Ubuntu, name: str) -> str:
    """Return a package's state, as dpkg abbreviates it."""
    return node.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", name], check=False).out
