# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The allocators of a node's GPUs, in the module's options and in the daemon's configuration."""

from __future__ import annotations

import hashlib
import re
import typing as t

from ..errors import InputError, NodeError
from ..gpu import Gpu
from ..text import json_data
from .names import ALL, BOTH, DEVICE_PLUGIN, DRA, HAMI_CORE, MPS

SECTION = "gpuNode"
BEST_EFFORT = "best-effort"
DIGEST = re.compile(r"[0-9a-f]{64}")
# By the key in the daemon's configuration, the option of the module.
OPTIONS: t.Mapping[str, str] = {
    "gpuNode.dra.hamiCore.library": "dra.hami_core_library",
    "gpuNode.dra.hamiCore.sha256": "dra.hami_core_sha256",
    "gpuNode.dra.memoryScaling": "dra.memory_scaling",
    "gpuNode.dra.oversubscribe": "dra.oversubscribe",
    "gpuNode.dra.enforcement": "dra.enforcement",
    "gpuNode.dra.splitCount": "dra.split_count",
    "gpuNode.dra.devices": "dra.devices",
    "gpuNode.dra.publish": "dra.publish",
    "gpuNode.allocation": "allocation",
}
Json = t.Mapping[str, t.Any]


class Owners(t.NamedTuple):
    """The allocator of each GPU; ``devices`` are the GPUs of DRA, by index, UUID or PCI bus id, if there are both."""

    allocation: str = DEVICE_PLUGIN
    devices: t.FrozenSet[str] = frozenset()

    def of(self, gpu: Gpu) -> str:
        """Return the allocator of a GPU and its MIG devices: device_plugin or dra."""
        if self.allocation != BOTH:
            return self.allocation
        names = {gpu.uuid.lower(), str(gpu.index), gpu.pci_bus_id.lower()}
        return DEVICE_PLUGIN if names.isdisjoint(self.devices) else DRA

    @property
    def dra(self) -> bool:
        """Return whether the DRA driver allocates any GPU."""
        return self.allocation != DEVICE_PLUGIN


BY_DEFAULT = Owners()


class Library(t.NamedTuple):
    """The library of HAMi-core: its path on the node, and its SHA-256 in lower case."""

    path: str = ""
    sha256: str = ""


NO_LIBRARY = Library()


def owners(allocation: str, devices: t.Any = ()) -> Owners:
    """Return the allocators from options as a user writes them."""
    listed = devices if isinstance(devices, (list, tuple)) else [devices]
    names = (str(device).lower() for device in listed if device != "")
    # NVML's bus ids have 4 digits of domain.
    return Owners(allocation, frozenset(name[-12:] if ":" in name else name for name in names))


def written(text: t.Optional[str]) -> t.Any:
    """Return a configuration that we have written.

    Raises:
        ValueError: if it is another one.
    """
    lines = (text or "").splitlines()
    return json_data.loads("\n".join(line for line in lines if not line.startswith("#")))


def owners_in(text: t.Optional[str]) -> Owners:
    """Return the allocators in a configuration file of ours; if it can't be read, DRA has no GPU."""
    try:
        ours = written(text).get(SECTION) or {}
        section = ours.get("dra") or {}
        return owners(str(ours.get("allocation", DEVICE_PLUGIN)), section.get("devices") or ())
    except (ValueError, AttributeError, TypeError):
        return BY_DEFAULT


def configured(where: str, config: Json, allocation: str, asked: Json) -> Json:
    """Return a configuration with the allocators, and how DRA shares.

    Raises:
        InputError: if the user's configuration has one of them.
    """
    ours = config.get(SECTION)
    own = ours if isinstance(ours, dict) else {}
    for key in ("allocation", "dra"):
        if key in own:
            expected = f"it in the option {key}, for the whole node"
            raise InputError.of(f"{where}.{SECTION}.{key}", own[key], expected)
    if allocation == DEVICE_PLUGIN or (ours is not None and ours is not own):
        return config  # the daemon's parser refuses a section of another type
    return {**config, SECTION: {**own, "allocation": allocation, "dra": _section(asked)}}


def _section(asked: Json) -> t.Dict[str, t.Any]:
    result: t.Dict[str, t.Any] = {"devices": list(asked["devices"])} if asked["devices"] else {}
    result.update(
        enforcement=asked["enforcement"],
        splitCount=asked["split_count"],
        memoryScaling=asked["memory_scaling"],
        oversubscribe=asked["oversubscribe"],
    )
    if asked["hami_core_library"]:
        result["hamiCore"] = {"library": asked["hami_core_library"]}
    if asked["hami_core_sha256"]:
        result["hamiCore"]["sha256"] = asked["hami_core_sha256"].lower()
    if asked["publish"] != ALL:
        result["publish"] = asked["publish"]
    return result


def check(allocation: str, asked: Json) -> None:
    """Check that options don't contradict each other.

    Raises:
        NodeError: if they do.
    """
    if asked["devices"] and allocation != BOTH:
        expected = f"none, as allocation is {allocation} and not {BOTH}"
        raise InputError.of("dra.devices", asked["devices"], expected)
    if allocation == BOTH and not asked["devices"]:
        expected = "the GPUs of DRA, by index, UUID or PCI bus id, as allocation is both"
        raise InputError.of("dra.devices", asked["devices"], expected)
    if allocation == DEVICE_PLUGIN:
        return
    if asked["enforcement"] == HAMI_CORE and not asked["hami_core_library"]:
        expected = f"the path of libvgpu.so on the node, as enforcement is {HAMI_CORE}"
        raise InputError.of("dra.hami_core_library", asked["hami_core_library"], expected)
    digest = asked["hami_core_sha256"]
    if digest and not DIGEST.fullmatch(digest.lower()):
        expected = "64 hexadecimal digits, as sha256sum prints them"
        raise InputError.of("dra.hami_core_sha256", digest, expected)
    if digest and not asked["hami_core_library"]:
        expected = "the path of the file that has the SHA-256 in hami_core_sha256"
        raise InputError.of("dra.hami_core_library", asked["hami_core_library"], expected)
    scaling = asked["memory_scaling"]
    if asked["enforcement"] == MPS and scaling > 1 and asked["oversubscribe"] != BEST_EFFORT:
        raise NodeError(
            f"dra.memory_scaling: {scaling} is not valid",
            cause=f"enforcement is {MPS}, which limits each share and gives none memory that is not there",
            hint=f"set oversubscribe to {BEST_EFFORT} to accept that who comes late runs out, or the scaling to 1",
            key="dra.memory_scaling",
        )


def verified_library(allocation: str, asked: Json) -> Library:
    """Return the library of HAMi-core that has to have a digest, NO_LIBRARY if there is none."""
    used = allocation != DEVICE_PLUGIN and asked["enforcement"] == HAMI_CORE
    if not used or not asked["hami_core_sha256"]:
        return NO_LIBRARY
    return Library(asked["hami_core_library"], asked["hami_core_sha256"].lower())


def verify(library: Library, content: t.Optional[bytes]) -> None:
    """Check that a library has the digest of the options.

    Args:
        library: Its path and its digest.
        content: The file's bytes, None if it is not on the node.

    Raises:
        InputError: if there is no such file, or it has another digest.
    """
    if content is None:
        expected = f"a file that is on the node, with the SHA-256 {library.sha256}"
        raise InputError.of("dra.hami_core_library", library.path, expected)
    digest = hashlib.sha256(content).hexdigest()
    if digest != library.sha256:
        expected = f"the SHA-256 of {library.path} on the node, which is {digest}"
        raise InputError.of("dra.hami_core_sha256", library.sha256, expected)
