# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which of the driver's files a container gets, by the names that users of NVIDIA_DRIVER_CAPABILITIES know.

The libraries and programs of a capability are those of libnvidia-container (src/nvc_info.c), the other files those
that NVIDIA's container toolkit 1.20 looks for (internal/discover/graphics.go, pkg/nvcdi/driver-nvml.go).
"""

from __future__ import annotations

import itertools
import typing as t

ALL = "all"
CAPABILITIES = ("compute", "utility", "video", "graphics", "display", "ngx", "compat32")
DEFAULT = ("compute", "utility", "video")

GRAPHICS = (
    "libEGL_nvidia libGLESv1_CM_nvidia libGLESv2_nvidia libGLX_nvidia libnvidia-allocator libnvidia-cbl "
    "libnvidia-egl-gbm libnvidia-egl-wayland libnvidia-egl-wayland2 libnvidia-egl-xcb libnvidia-egl-xlib "
    "libnvidia-eglcore libnvidia-fbc libnvidia-glcore libnvidia-glsi libnvidia-glvkspirv libnvidia-gpucomp "
    "libnvidia-ifr libnvidia-rtcore libnvidia-tls libnvidia-vulkan-producer libnvoptix"
)
LIBRARIES = {
    "compute": "libcuda libcudadebugger libnvidia-allocator libnvidia-compiler libnvidia-fatbinaryloader "
    "libnvidia-gpucomp libnvidia-nvvm libnvidia-nvvm70 libnvidia-opencl libnvidia-pkcs11 libnvidia-pkcs11-openssl3 "
    "libnvidia-ptxjitcompiler libnvidia-tileiras",
    "utility": "libnvidia-cfg libnvidia-ml libnvidia-nscq",
    "video": "libnvcuvid libnvidia-encode libnvidia-opticalflow libvdpau_nvidia",
    "graphics": GRAPHICS,
    "display": GRAPHICS,
    "ngx": "libnvidia-ngx",
}
BINARIES = {
    "compute": "nvidia-cuda-mps-control nvidia-cuda-mps-server",
    "utility": "nvidia-smi nvidia-debugdump nvidia-persistenced nvidia-imex nvidia-imex-ctl",
    "display": "nvidia-xconfig",
}
SHARE, VULKAN = "/usr/share", "/etc"
EGL = "09_nvidia_wayland2 10_nvidia_wayland 15_nvidia_gbm 20_nvidia_xcb 20_nvidia_xlib"
GRAPHICS_FILES = (
    (SHARE, "glvnd/egl_vendor.d/10_nvidia.json"),
    *((SHARE, f"egl/egl_external_platform.d/{name}.json") for name in EGL.split()),
    (SHARE, "nvidia/nvoptix.bin"),
    *(
        (VULKAN, f"vulkan/icd.d/nvidia_{name}.json")
        for name in ("icd", "icd.x86_64", "icd.aarch64", "layers")
    ),
    (VULKAN, "vulkan/implicit_layer.d/nvidia_layers.json"),
)
# Where a file is looked for is the same for all; in containers it lies below the folder named here.
FILES: t.Dict[str, t.Tuple[t.Tuple[str, str], ...]] = {
    "compute": (("/etc", "OpenCL/vendors/nvidia.icd"),),
    "graphics": GRAPHICS_FILES,
    "display": (
        *GRAPHICS_FILES,
        (SHARE, "X11/xorg.conf.d/10-nvidia.conf"),
        (SHARE, "X11/xorg.conf.d/nvidia-drm-outputclass.conf"),
    ),
}
FILE_FOLDERS = ("/etc", "/usr/local/share", "/usr/share", "")
# Names that programs open although no package of the driver has to have them.
ALIASES = {
    "libcuda": ("libcuda.so",),
    "libnvidia-opticalflow": ("libnvidia-opticalflow.so",),
    "libGLX_nvidia": ("libGLX_indirect.so.0",),
    "libnvidia-vulkan-producer": ("libnvidia-vulkan-producer.so",),
}
# The name by which Mesa's GBM loads the driver's allocator.
GBM = {"libnvidia-allocator": ("gbm/nvidia-drm_gbm.so",)}

Chosen = t.AbstractSet[str]


def chosen(names: t.Iterable[str]) -> t.FrozenSet[str]:
    """Return the capabilities that names stand for; ``all`` stands for each of them."""
    capabilities = frozenset(names)
    return frozenset(CAPABILITIES) if ALL in capabilities else capabilities


def draws(capabilities: Chosen) -> bool:
    """Return whether containers may render, for which they get DRM nodes and the files that find the driver."""
    return not capabilities.isdisjoint({"graphics", "display"})


def has_library(stem: str, capabilities: Chosen) -> bool:
    """Return whether a library belongs to the capabilities; one that no list names is of use to all."""
    owners = {name for name, stems in LIBRARIES.items() if stem in stems.split()}
    return not owners or not owners.isdisjoint(capabilities)


def binaries(capabilities: Chosen) -> t.List[str]:
    """Return the names of programs."""
    names = (programs for name, programs in BINARIES.items() if name in capabilities)
    return " ".join(names).split()


def files(capabilities: Chosen) -> t.List[t.Tuple[str, str]]:
    """Return the other files: the folder that each has in containers, and its path below that."""
    pairs_of = (pairs for name, pairs in FILES.items() if name in capabilities)
    return list(dict.fromkeys(itertools.chain.from_iterable(pairs_of)))


def aliases(stem: str, capabilities: Chosen) -> t.Tuple[str, ...]:
    """Return what else a library is called."""
    return ALIASES.get(stem, ()) + (GBM.get(stem, ()) if draws(capabilities) else ())
