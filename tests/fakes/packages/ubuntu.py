# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A small Ubuntu 24.04, whose apt and dpkg are genuine, on lists of packages written by hand after public facts."""

from __future__ import annotations

from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed

from tests.fakes.packages.debian import DRIVER, LOADED, Debian

KERNEL = "6.8.0-85-generic"
OS_RELEASE = 'ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'
VERSIONS = {
    "535": ["535.274.02-0ubuntu0.24.04.1"],
    "570": ["570.195.03-0ubuntu0.24.04.1"],
    "580": ["580.95.05-0ubuntu0.24.04.2", "580.82.07-0ubuntu0.24.04.1"],
}
PARTS = ("libnvidia-cfg1", "libnvidia-compute", "nvidia-compute-utils", "nvidia-utils")
PARTS += ("nvidia-kernel-common",)
SET = {f"{name}-580-server" for name in PARTS}
PREBUILT = f"linux-modules-nvidia-580-server-open-{KERNEL}"
DKMS = "nvidia-dkms-580-server-open"


class Ubuntu(Debian):
    """A noble node with an H100; 580 has prebuilt modules for its kernel."""

    codename, components = "noble", ("main", "universe", "restricted", "multiverse")
    component = "restricted"

    def __init__(self) -> None:
        super().__init__()
        self.files["/etc/os-release"] = OS_RELEASE
        self.files["/etc/apt/sources.list"] = "deb http://mirror/ubuntu noble main universe\n"
        self.files["/proc/sys/kernel/osrelease"] = f"{KERNEL}\n"
        self.files[f"/lib/modules/{KERNEL}/build"] = ""
        self.offers = {"dkms": ["3.0.11-1ubuntu13"]}
        self.depends = {}
        for branch, versions in VERSIONS.items():
            for name in (*PARTS, "nvidia-dkms"):
                self.offers[f"{name}-{branch}-server"] = versions
            self.offers[f"nvidia-dkms-{branch}-server-open"] = versions
            for end in ("", "-open"):
                self.depends[f"nvidia-dkms-{branch}-server{end}"] = ["dkms"]
        # Branches for desktops are not taken.
        self.offers["nvidia-dkms-590"] = self.offers["nvidia-dkms-590-open"] = ["590.1-0ubuntu1"]
        self.offers[PREBUILT] = ["6.8.0-85.85"]

    def _modprobe(self, words: tuple[str, ...]) -> Completed:
        self.files["/sys/module/nvidia/version"] = ""
        version = next(
            version for name, (version, _state) in self.packages.items() if "kernel-common" in name
        )
        version = version.split("-")[0]
        self.files[DRIVER] = LOADED.format(version)
        self.files[f"/lib/firmware/nvidia/{version}/gsp_ga10x.bin"] = ""
        return Completed(0, "", "")

    def _show(self, _words: tuple[str, ...]) -> Completed:
        active = "active" if ("systemctl", "start") in {words[:2] for words in self.ran} else "no"
        return Completed(0, f"ActiveState={active}\nUnitFileState=static\n", "")

    def ours(self) -> set[str]:
        return set(self.packages) - {"dpkg"}
