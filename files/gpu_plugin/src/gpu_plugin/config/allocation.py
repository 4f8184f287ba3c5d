# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Who gives the GPUs to containers, the device plugin or the DRA driver, and how the latter shares them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .._shared._base.dra.names import (
    ALL,
    ALLOCATIONS,
    BOTH,
    CGROUP,
    DEVICE_PLUGIN,
    DRA,
    ENFORCEMENTS,
    HAMI_CORE,
    MPS,
    PUBLISHED,
)
from .._shared._base.gpu import Gpu
from .._shared._base.text.json_data import is_whole
from .schema import absolute
from .sharing import MOST_REPLICAS, UUID, Sharing
from .strict_yaml import ConfigError, Found, Value

ALLOCATION: Final = "gpuNode.allocation"
SECTION: Final = "gpuNode.dra"
DEVICES, SCALING = f"{SECTION}.devices", f"{SECTION}.memoryScaling"
OVERSUBSCRIBE, LIBRARY = f"{SECTION}.oversubscribe", f"{SECTION}.hamiCore.library"
ENFORCEMENT, SPLIT = f"{SECTION}.enforcement", f"{SECTION}.splitCount"
PUBLISH, SHA256 = f"{SECTION}.publish", f"{SECTION}.hamiCore.sha256"
KEYS: Final = (
    *(ALLOCATION, DEVICES, ENFORCEMENT, SPLIT, SCALING, OVERSUBSCRIBE, LIBRARY, SHA256),
    PUBLISH,
)
DIGEST: Final = re.compile("[0-9a-f]{64}")
REFUSE, BEST_EFFORT = OVERSUBSCRIPTIONS = "refuse", "best-effort"
LEAST_SCALING, MOST_SCALING = 0.1, 100.0
PCI: Final = "([0-9a-fA-F]{4})?[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\\.[0-7]"
REFERENCE: Final = re.compile(f"[0-9]{{1,9}}|GPU-{UUID}|{PCI}")
REFERENCES: Final = (
    "a list of GPUs by index (0), UUID (GPU-...) or PCI bus id (0000:3b:00.0), one or more"
)
PCI_LENGTH: Final = 12  # of an address such as NVML's are kept


@dataclass(frozen=True)
class Dra:
    """The GPUs of the DRA driver, and how it shares them.

    Attributes:
        allocation: Who gives GPUs to containers.
        devices: The DRA driver's GPUs if both do.
        enforcement: How shares are enforced.
        split_count: How many shares a GPU has at most.
        memory_scaling: How many times a GPU's memory its shares may come to, above 1 only with ``best_effort``.
        best_effort: Whether shares may come to more memory than a GPU has.
        library: The file of HAMi-core, empty if none is given.
        publish: What a GPU outside of MIG mode is published as.
        sha256: The digest of the library, empty if any will do.
    """

    allocation: str = DEVICE_PLUGIN
    devices: tuple[str, ...] = ()
    enforcement: str = MPS
    split_count: int = 10
    memory_scaling: float = 1.0
    best_effort: bool = False
    library: str = ""
    publish: str = ALL
    sha256: str = ""

    @property
    def unused(self) -> bool:
        """Whether DRA has no GPU, whichever there are."""
        return self.allocation == DEVICE_PLUGIN


def owner(gpu: Gpu, dra: Dra) -> str:
    """Return who gives a GPU and its MIG devices to containers: ``device_plugin`` or ``dra``."""
    if dra.allocation != BOTH:
        return dra.allocation
    return DEVICE_PLUGIN if names(gpu).isdisjoint(dra.devices) else DRA


def names(gpu: Gpu) -> set[str]:
    """Return the names that ``gpuNode.dra.devices`` may have for a GPU."""
    return {gpu.uuid.lower(), str(gpu.index), gpu.pci_bus_id}


def unknown(gpus: Iterable[Gpu], dra: Dra) -> list[str]:
    """Return the entries of ``gpuNode.dra.devices`` that are none of these GPUs."""
    known = {name for gpu in gpus for name in names(gpu)}
    return [device for device in dra.devices if device not in known]


def allocation(section: Found, sharing: Sharing) -> Dra:
    """Return the file's configuration of allocation.

    Raises:
        ConfigError: if its values are not valid, or contradict each other.
    """
    allocator = section.get(ALLOCATION)
    allocator_name = allocator.one_of(ALLOCATIONS) if allocator else DEVICE_PLUGIN
    enforcement, split = section.get(ENFORCEMENT), section.get(SPLIT)
    oversubscribe, publish = section.get(OVERSUBSCRIBE), section.get(PUBLISH)
    library = section.get(LIBRARY)
    dra = Dra(
        allocator_name,
        _devices(section, allocator_name),
        enforcement.one_of(ENFORCEMENTS) if enforcement else MPS,
        split.whole(MOST_REPLICAS) if split else Dra.split_count,
        _scaling(section.get(SCALING)),
        bool(oversubscribe and oversubscribe.one_of(OVERSUBSCRIPTIONS) == BEST_EFFORT),
        absolute(f"{library.where}: {library.path}", library.text()) if library else "",
        publish.one_of(PUBLISHED) if publish else ALL,
        _sha256(section.get(SHA256)),
    )
    _check_scaling(section, dra)
    _check_library(section, dra)
    _check_sharing(section, dra, sharing)
    return dra


def _devices(section: Found, allocator_name: str) -> tuple[str, ...]:
    value = section.get(DEVICES)
    if value is None:
        if allocator_name == BOTH:
            raise ConfigError(
                f"{section[ALLOCATION].where}: {DEVICES} is missing",
                cause=f"{ALLOCATION} is {BOTH}, which needs to know the GPUs of DRA",
                hint=f"expected {REFERENCES}",
            )
        return ()
    if allocator_name != BOTH:
        raise ConfigError(
            f"{value.where}: {DEVICES} is given, and {ALLOCATION} is {allocator_name}",
            cause=f"that {allocator_name} has all GPUs"
            if allocator_name == DRA
            else "then DRA has no GPU",
            hint=f"set {ALLOCATION} to {BOTH}, or remove {DEVICES}",
        )
    data = value.data if isinstance(value.data, list) else [value.data]
    if not data:
        raise value.invalid(REFERENCES)
    references = []
    for item in data:
        text = str(item) if is_whole(item) else item
        if not isinstance(text, str) or not REFERENCE.fullmatch(text):
            raise value.invalid(REFERENCES, item)
        if ":" in text:
            references.append(text.lower()[-PCI_LENGTH:])
        else:
            references.append(text.lower() if text.startswith("GPU-") else str(int(text)))
    return tuple(dict.fromkeys(references))


def _scaling(value: Value | None) -> float:
    """Return the factor. A text is not valid, as in HAMi's configuration."""
    if value is None:
        return Dra.memory_scaling
    number = value.data
    known = isinstance(number, float) or is_whole(number)
    if known and LEAST_SCALING <= number <= MOST_SCALING:
        return float(number)
    raise value.invalid(f"a number from {LEAST_SCALING:g} to {MOST_SCALING:g}, such as 1.5")


def _sha256(value: Value | None) -> str:
    """Return a digest in lower case."""
    digest = value.text().lower() if value else ""
    if value and not DIGEST.fullmatch(digest):
        raise value.invalid("64 hexadecimal digits, as sha256sum prints them")
    return digest


def _check_scaling(section: Found, dra: Dra) -> None:
    if dra.memory_scaling <= 1 or dra.best_effort or dra.enforcement not in (MPS, CGROUP):
        return
    raise ConfigError(
        f"{section[SCALING].where}: {SCALING} is {dra.memory_scaling:g}, and {OVERSUBSCRIBE} is {REFUSE}",
        cause=f"{dra.enforcement} limits each share, and can't give memory that is not there: "
        "who comes late runs out of memory below its limit",
        hint=f"set {OVERSUBSCRIBE} to {BEST_EFFORT} to accept that, or {SCALING} to 1",
    )


def _check_library(section: Found, dra: Dra) -> None:
    if dra.sha256 and not dra.library:
        raise ConfigError(
            f"{section[SHA256].where}: {SHA256} is given, and {LIBRARY} is not",
            hint=f"set {LIBRARY} to the path of the file that has this digest",
        )
    if dra.enforcement == HAMI_CORE and not dra.library:
        raise ConfigError(
            f"{section[ENFORCEMENT].where}: {LIBRARY} is missing",
            cause=f"{ENFORCEMENT} is {HAMI_CORE}, which is a library that you supply",
            hint=f"set {LIBRARY} to the path of libvgpu.so on the node",
        )


def _check_sharing(section: Found, dra: Dra, sharing: Sharing) -> None:
    """Refuse shares of the device plugin on GPUs that it does not have, as far as that is certain."""
    lines = [section[path].where for path in section if path.startswith("sharing.")]
    where = f"{lines[0]}: " if lines else ""
    if dra.allocation == DRA and sharing.shares:
        raise ConfigError(
            f"{where}sharing is given, and {ALLOCATION} is {DRA}",
            cause="sharing is how the device plugin shares its GPUs, and it has none then; "
            f"{DRA} shares GPUs as {SPLIT} and {ENFORCEMENT} say",
            hint=f"remove sharing, or set {ALLOCATION} to {DEVICE_PLUGIN} or {BOTH}",
        )
    asked = {reference for share in sharing.shares for reference in share.devices}
    for reference in sorted(asked):
        if (gpu := _gpu_of(reference)) in dra.devices:
            raise ConfigError(
                f"{where}sharing names device {reference}, and {DEVICES} names GPU {gpu}",
                cause="a GPU belongs either to the device plugin or to DRA",
                hint="name it in one of them only",
            )


def _gpu_of(reference: str) -> str:
    """Return how DRA's devices would name the GPU of a reference in sharing, also that of a MIG device if it says."""
    parent = reference.removeprefix("MIG-").partition("/")[0]
    return parent.lower() if parent.startswith("GPU-") else reference.partition(":")[0]
