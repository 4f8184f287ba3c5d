# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""SUSE's kernels and signed modules and NVIDIA's user space, with genuine names, versions and relations, in stages.

S1  SUSE builds its signed modules (KMP) twice: nvidia-open-driver-G06-signed-kmp-<flavour> for NVIDIA's repository
    for desktops, -signed-cuda-kmp-<flavour> for that of CUDA. Each is in the channels of SUSE in the version that
    passed its QA, which is often not NVIDIA's newest: news.opensuse.org, 2026-02-22, on drivers of G07.
S2  A KMP's version is <driver>_k<kernel it was built for>. It needs the kernel's symbols by their checksums,
    ksym(default:...), and provides the bare driver's version as nvidia-open-driver-G06-signed-kmp; the CUDA build
    and the other exclude each other. G07 excludes G06's below 590.44.01, and both supplement nothing that is not
    there: preamble of openSUSE's nvidia-open-driver-G07-signed (590.48.01).
S3  Since September 2025 a KMP is no multiversion package, so a newer build takes the place of the older one, for
    all kernels: changes of nvidia-open-driver-G06-signed, 2025-09-23.
S4  A KMP serves every kernel whose symbols it fits: weak-modules2 links its modules below weak-updates. Kernels are
    multiversion, so an older one that fits stays, and zypper sees no problem in a newer one that does not:
    zypp.conf of SUSE, multiversion = provides:multiversion(kernel).
S5  nvidia-compute-utils needs nvidia-compute = V, that nvidia-common = V and nvidia-persistenced >= V, and that
    nvidia-modprobe >= V and kernel modules of exactly V, whichever; it excludes nvidia-compute of other generations
    as nvidia-computeG05: nvidia-video-G06.spec of openSUSE's nvidia-driver-G06 (570.86.16). G07's is taken to be alike.
S6  nvidia-open-driver-G06 (DKMS) and nvidia-driver-G06-kmp-default are NVIDIA's own: the same page as S1.
    The former needs dkms, which is in no channel of SLES itself, and builds where the headers of a kernel are:
    kernel-default-devel of exactly that kernel, multiversion as well, which rpm by itself installs in the newest
    version only: NVIDIA's Driver Installation Guide, pre-installation actions, and what it says for SLES.
S7  From G06 to G07 people are told to remove all of G06 first: the same page as S1.
"""

from __future__ import annotations

import dataclasses

from tests.fakes.played.rpms import Rpm

OLD, NEW, NEXT = "580.95.05", "580.105.08", "595.71.05"
DESKTOPS = "575.57.08"


@dataclasses.dataclass(frozen=True)
class Release:
    """A release: os-release, its kernels (the first is the one that KMPs are built for), and where its kABI breaks."""

    id: str
    version: str
    title: str
    kernels: tuple[str, ...]
    broken: str

    @property
    def os_release(self) -> str:
        return f'NAME="SLES"\nID="{self.id}"\nVERSION_ID="{self.version}"\nPRETTY_NAME="{self.title}"\n'

    def abi(self, kernel: str) -> str:
        """Return the checksum of a symbol that the modules use."""
        later = self.kernels.index(kernel) >= self.kernels.index(self.broken)
        return "8f2d6c31" if later else "4a7e90b5"


SP6 = Release(
    "sles",
    "15.6",
    "SUSE Linux Enterprise Server 15 SP6",
    ("6.4.0-150600.21", "6.4.0-150600.23.60", "6.4.0-150600.23.65"),
    "6.4.0-150600.23.65",
)
SP7 = Release(
    "sles",
    "15.7",
    "SUSE Linux Enterprise Server 15 SP7",
    ("6.4.0-150700.51", "6.4.0-150700.53.3", "6.4.0-150700.53.16", "6.4.0-150700.53.22"),
    "6.4.0-150700.53.22",
)
SLE16 = Release(
    "sles",
    "16.0",
    "SUSE Linux Enterprise Server 16.0",
    ("6.12.0-160000.5", "6.12.0-160000.8", "6.12.0-160000.9"),
    "6.12.0-160000.9",
)
GA, K3, K16, K22 = SP7.kernels
FLAVOUR = "default"
KSYM = "ksym(default:drm_dev_register) = {}"

# What weak-modules2 does, in the language that rpm brings itself.
LINK = """\
local function read(path)
  local file = io.open(path)
  local text = file and file:read("*a") or ""
  if file then file:close() end
  return text
end
for kernel in posix.files("/lib/modules") do
  local base = "/lib/modules/" .. kernel
  os.remove(base .. "/weak-updates/updates/nvidia.ko")
  for built in posix.files("/lib/modules") do
    local wanted = read("/lib/modules/" .. built .. "/updates/abi")
    if built ~= kernel and wanted ~= "" and wanted == read(base .. "/abi") then
      posix.mkdir(base .. "/weak-updates")
      posix.mkdir(base .. "/weak-updates/updates")
      posix.symlink("../../../" .. built .. "/updates/nvidia.ko", base .. "/weak-updates/updates/nvidia.ko")
    end
  end
end
"""

BUILD = """\
for kernel in posix.files("/lib/modules") do
  local base = "/lib/modules/" .. kernel
  if kernel:sub(1, 1) ~= "." and posix.stat(base .. "/build/Makefile") then
    posix.mkdir(base .. "/updates")
    local module = io.open(base .. "/updates/nvidia.ko", "w")
    module:write("VERSION open\\n")
    module:close()
  end
end
"""
UNBUILD = """\
for kernel in posix.files("/lib/modules") do
  os.remove("/lib/modules/" .. kernel .. "/updates/nvidia.ko")
end
"""


def uname(kernel: str) -> str:
    """Return what uname -r says of a kernel."""
    return f"{kernel}-{FLAVOUR}"


def kernel(release: Release, version: str) -> Rpm:
    """Return kernel-default in a version (S4)."""
    name, full = uname(version), f"{version}.1"
    provides = ("multiversion(kernel)", f"kernel = {full}")
    return Rpm(
        "kernel-default",
        full,
        tuple(f"Provides: {one}" for one in (*provides, KSYM.format(release.abi(version)))),
        ((f"boot/vmlinuz-{name}", ""), (f"lib/modules/{name}/abi", release.abi(version))),
        (("post", LINK),),
    )


def _kmp(
    name: str, driver: str, built: str, abi: str, kind: str, relations: tuple[str, ...]
) -> Rpm:
    folder = f"lib/modules/{uname(built)}/updates"
    version = f"{driver}_k{built.replace('-', '_')}-1.1"
    files = ((f"{folder}/nvidia.ko", f"{driver} {kind}\n"), (f"{folder}/abi", abi))
    needs = (f"Requires: {KSYM.format(abi)}", f"Provides: {name}-k{built.replace('-', '_')}")
    return Rpm(name, version, (*needs, *relations), files, (("post", LINK), ("postun", LINK)))


def signed(release: Release, driver: str, built: str, *, cuda: bool = True) -> Rpm:
    """Return SUSE's signed modules for one of NVIDIA's repositories (S2)."""
    generation = "G07" if driver.startswith("59") else "G06"
    base = f"nvidia-open-driver-{generation}-signed"
    own, other = ("cuda", "gfx") if cuda else ("gfx", "cuda")
    common, utils = f"nvidia-common-{generation}", f"nvidia-compute-utils-{generation}"
    relations = [
        f"Provides: {base}-kmp = {driver}",
        f"Provides: {base}-kmp-{FLAVOUR} = {driver}",
        f"Provides: nvidia-open-signed-kmp = {driver}",
        f"Provides: nvidia-open-signed-kmp({own})",
        f"Conflicts: nvidia-open-signed-kmp({other})",
        "Conflicts: nvidia-gfxG05-kmp nvidia-gfxG06-kmp nvidia-driver-G06-kmp",
        f"Requires: ({common} = {driver} if {utils} = {driver})",
    ]
    if generation == "G07":
        relations += [
            "Conflicts: nvidia-open-driver-G06 < 590.44.01",
            "Conflicts: nvidia-open-driver-G06-signed-kmp < 590.44.01",
            "Supplements: packageand(nvidia-open-driver-G06-signed-kmp)",
        ]
    name = f"{base}{'-cuda' if cuda else ''}-kmp-{FLAVOUR}"
    return _kmp(name, driver, built, release.abi(built), "open", tuple(relations))


def devel(version: str) -> Rpm:
    """Return a kernel's headers (S6)."""
    folder, name = f"usr/src/linux-{version}-obj", uname(version)
    provides = ("multiversion(kernel)", f"kernel-{FLAVOUR}-devel = {version}")
    return Rpm(
        f"kernel-{FLAVOUR}-devel",
        f"{version}.1",
        tuple(f"Provides: {one}" for one in provides),
        ((f"{folder}/Makefile", ""), (f"lib/modules/{name}/build/Makefile", "")),
    )


def dkms(driver: str) -> Rpm:
    """Return NVIDIA's modules that DKMS builds, with what it does then (S6)."""
    relations = (
        "Requires: dkms",
        f"Provides: nvidia-open-driver-G06-kmp = {driver}",
        "Conflicts: nvidia-open-signed-kmp nvidia-driver-G06-kmp",
    )
    text = BUILD.replace("VERSION", driver)
    return Rpm(
        "nvidia-open-driver-G06",
        f"{driver}-1",
        relations,
        scripts=(("post", text), ("preun", UNBUILD)),
    )


def proprietary(release: Release, driver: str, built: str) -> Rpm:
    """Return NVIDIA's own kernel modules (S6)."""
    relations = (
        f"Provides: nvidia-driver-G06-kmp = {driver}",
        "Conflicts: nvidia-open-signed-kmp nvidia-open-driver-G06-kmp",
    )
    return _kmp(
        "nvidia-driver-G06-kmp-default",
        driver,
        built,
        release.abi(built),
        "proprietary",
        relations,
    )


def user_space(driver: str) -> tuple[Rpm, ...]:
    """Return NVIDIA's user space in a version (S5)."""
    generation = "G07" if driver.startswith("59") else "G06"
    full, end = f"{driver}-1", f"-{generation}"
    other = "G06" if generation == "G07" else "G07"
    modules = " or ".join(
        f"{name.format(generation)} = {driver}"
        for name in (
            "nvidia-driver-{}-kmp",
            "nvidia-open-driver-{}-kmp",
            "nvidia-open-driver-{}-signed-kmp",
        )
    )
    return (
        Rpm(f"nvidia-compute-utils{end}", full, (f"Requires: nvidia-compute{end} = {driver}",)),
        Rpm(
            f"nvidia-compute{end}",
            full,
            (
                f"Requires: nvidia-common{end} = {driver}",
                f"Requires(pre): nvidia-persistenced >= {driver}",
                f"Provides: nvidia-compute{generation} = {driver}",
                f"Conflicts: nvidia-compute{other}",
            ),
            ((f"usr/lib64/libnvidia-ml.so.{driver}", ""),),
        ),
        Rpm(
            f"nvidia-common{end}",
            full,
            (f"Requires: nvidia-modprobe >= {driver}", f"Requires: ({modules})"),
            ((f"lib/firmware/nvidia/{driver}/gsp_ga10x.bin", ""),),
        ),
        Rpm("nvidia-modprobe", full),
        Rpm("nvidia-persistenced", full),
    )


def base(release: Release, upto: str = "") -> tuple[Rpm, ...]:
    """Return the kernels of a release until one of them, by default until the first that is no GA kernel."""
    last = release.kernels.index(upto or release.kernels[1])
    return tuple(kernel(release, one) for one in release.kernels[1 : last + 1])


Stage = dict[str, tuple[Rpm, ...]]


def fresh(release: Release = SP7) -> Stage:
    """Return channels whose signed modules and NVIDIA's user space share a version, for CUDA's repository (S1)."""
    first = release.kernels[0]
    desktops = signed(release, DESKTOPS, first, cuda=False)
    return {
        "sle": (*base(release), signed(release, OLD, first), desktops),
        "cuda": user_space(OLD),
    }


# A kernel comes that the modules fit by their symbols.
LATER: Stage = {"sle": (*base(SP7, K16), signed(SP7, OLD, GA)), "cuda": user_space(OLD)}
# A kernel comes whose symbols have changed, at first without modules, then with a build of its own.
BROKEN: Stage = {"sle": (*base(SP7, K22), signed(SP7, OLD, GA)), "cuda": user_space(OLD)}
REBUILT: Stage = {
    "sle": (*base(SP7, K22), signed(SP7, OLD, GA), signed(SP7, OLD, K22)),
    "cuda": user_space(OLD),
}
# There is a build for the newest kernel only, of the same version and of a newer one.
ONLY_NEWER: Stage = {
    "sle": (*base(SP7, K22), signed(SP7, OLD, K22), signed(SP7, NEW, K22)),
    "cuda": user_space(OLD),
}
REBUILT_NEWER: Stage = {
    "sle": (*base(SP7, K22), signed(SP7, OLD, GA), signed(SP7, NEW, K22)),
    "cuda": (*user_space(OLD), *user_space(NEW)),
}
# NVIDIA's user space has moved on, and SUSE's signed modules have not.
AHEAD: Stage = {"sle": fresh()["sle"], "cuda": (*user_space(OLD), *user_space(NEW))}
# They have followed.
FOLLOWED: Stage = {
    "sle": (*fresh()["sle"], signed(SP7, NEW, GA)),
    "cuda": (*user_space(OLD), *user_space(NEW)),
}
FOLLOWED_IN_PART: Stage = {
    "sle": FOLLOWED["sle"],
    "cuda": tuple(
        one
        for one in FOLLOWED["cuda"]
        if (one.name, one.version) != ("nvidia-modprobe", f"{NEW}-1")
    ),
}
# Nobody has the version before any more.
MOVED_ON: Stage = {"sle": (*base(SP7), signed(SP7, NEW, GA)), "cuda": user_space(NEW)}
# G07 is there beside G06.
NEXT_GENERATION: Stage = {
    "sle": (*fresh()["sle"], signed(SP7, NEXT, GA)),
    "cuda": (*user_space(OLD), *user_space(NEXT)),
}
# NVIDIA's newest is there for DKMS only, with the headers of both kernels.
BUILT: Stage = {
    "sle": (*base(SP7, K16), devel(K3), devel(K16), signed(SP7, OLD, GA)),
    "cuda": (*user_space(OLD), *user_space(NEW), dkms(NEW)),
    "hub": (Rpm("dkms", "3.2.2-1"),),
}
# NVIDIA's own proprietary modules beside SUSE's.
BOTH_TYPES: Stage = {
    "sle": fresh()["sle"],
    "cuda": (*user_space(OLD), proprietary(SP7, OLD, GA)),
}
# The user space needs what nobody has.
REFUSED: Stage = {
    "sle": fresh()["sle"],
    "cuda": tuple(one for one in user_space(OLD) if one.name != "nvidia-modprobe"),
}
# What it needs is in a repository of its own.
SPLIT: Stage = {
    **REFUSED,
    "tools": tuple(one for one in user_space(OLD) if one.name == "nvidia-modprobe"),
}
