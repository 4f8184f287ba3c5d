# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""modprobe, rmmod and lsmod of a simulated node: they load and unload the simulated driver.

The driver's version and flavour are those of the kernel module package that is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from ..ctl import Client
from ..kernel import UVM_LOADED

PACKAGES = {"nvidia-open-kernel-dkms": "open", "nvidia-kernel-dkms": "proprietary"}
MODULES = re.compile(r"nvidia(-current(-open)?)?([-_](uvm|modeset|drm|peermem))?")


def installed() -> tuple[str, str] | None:
    """Return the version and flavour of the installed kernel module package."""
    query = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n", *PACKAGES]
    for line in subprocess.run(
        query, capture_output=True, text=True, check=False
    ).stdout.splitlines():
        package, version, status = line.split(" ")
        if status == "installed":
            return version.split(":")[-1].split("-")[0], PACKAGES[package]
    return None


def modprobe(words: list[str]) -> int:
    """Load, or with -r unload, the driver; other modules are taken to be in the kernel."""
    names = [word for word in words if not word.startswith("-") and MODULES.fullmatch(word)]
    if not names:
        return 0
    if any(word in ("-r", "--remove") for word in words):
        return rmmod(names)
    found = installed()
    if found is None:
        release = os.uname().release
        print(
            f"modprobe: FATAL: Module {names[0]} not found in directory /lib/modules/{release}",
            file=sys.stderr,
        )
        return 1
    if "nvidia-uvm" in names:
        Path("/", UVM_LOADED).touch()
    try:
        Client().ask("load", version=found[0], flavour=found[1], options=configured())
    except ValueError:
        print(f"modprobe: ERROR: could not insert '{names[0]}': Invalid argument", file=sys.stderr)
        return 1
    return 0


def configured() -> dict[str, str]:
    """Return the options that the genuine modprobe gives the driver: of several values the last one counts."""
    done = subprocess.run(
        ["modprobe", "-c"],
        executable="/usr/sbin/modprobe.distrib",
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = done.stdout.splitlines()
    words = [line.split()[1:] for line in lines if line.startswith("options ")]
    pairs = (
        one.partition("=")
        for of in words
        if of[0] in ("nvidia", "nvidia_current")
        for one in of[1:]
    )
    return {name: value.strip('"') for name, _is, value in pairs}


def rmmod(words: list[str]) -> int:
    """Unload the driver."""
    if "nvidia" not in words:
        return 0
    try:
        Client().ask("unload")
    except ValueError:
        print("rmmod: ERROR: Module nvidia is in use", file=sys.stderr)
        return 1
    return 0


def lsmod(_words: list[str]) -> int:
    """List the modules."""
    print("Module                  Size  Used by")
    if Path("/proc/driver/nvidia/version").exists():
        print("nvidia_uvm           4874240  0\nnvidia              54050816  1 nvidia_uvm")
    return 0


def main() -> None:
    """Run the command that the first argument names."""
    command, *words = sys.argv[1:]
    try:
        sys.exit({"modprobe": modprobe, "rmmod": rmmod, "lsmod": lsmod}[command](words))
    except OSError as error:
        sys.exit(f"{command}: no simulated hardware: {error}")


if __name__ == "__main__":
    main()
