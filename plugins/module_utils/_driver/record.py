# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The record of what gpu.node has added to a node for its driver, by which it is removed again."""

from __future__ import annotations

import dataclasses
import typing as t

from .._base.packages import package


@dataclasses.dataclass(frozen=True)
class ModuleOptionsRecord(package.Record):
    """The part of the record about the options of kernel modules.

    Attributes:
        modprobe: Whether our modprobe file, or what an initramfs has of it, must be removed.
        options: The options in that file, as "name=value".
        pending: Options that have changed since the modules were loaded, as "load name=value" with the former value.
        initramfs: The marks of those that do not contain the file.
    """

    modprobe: bool = False
    options: t.FrozenSet[str] = frozenset()
    pending: t.FrozenSet[str] = frozenset()
    initramfs: t.FrozenSet[str] = frozenset()

    def before_load(self, load: str) -> t.Dict[str, str]:
        """Return what the loaded modules were given of options that have changed since."""
        rows = (row.partition(" ") for row in self.pending)
        options = (option for row_load, _space, option in rows if row_load == load)
        return parse_pairs(options, "=")


@dataclasses.dataclass(frozen=True)
class Record(ModuleOptionsRecord):
    """The additions to a node, and what they replaced. Packages with their versions are "name version".

    Attributes:
        sources: Whether a file of ours enables components of the distribution's own sources.
        service: Whether the persistence daemon's service was enabled.
        fabric: Whether the Fabric Manager's service was enabled.
        requested: The packages that were named to the package manager; the others came as dependencies.
        runfile: Version and module type of the driver that NVIDIA's installer installed, or "?" if it was interrupted.
        stream: The module stream of dnf that was enabled.
        stream_before: The stream that was enabled before that.
        module_disabled: Whether the module was disabled before that.
        adopted: The driver's packages that were there and were taken over, with their versions.
        earlier: The driver's packages before the first transaction, each with its version before it was changed.
        automatic: The adopted and earlier packages that had come as dependencies.
        exchanged: The adopted and earlier packages that we have changed or removed since.
        replaced: The version of a driver from NVIDIA's installer that was replaced, by packages or another version.
        device_nodes: Whether a unit of ours creates the device nodes at boot.
        persistence_mode: Whether the persistence daemon's unit has our drop-in.
    """

    sources: bool = False
    service: bool = False
    fabric: bool = False
    requested: t.FrozenSet[str] = frozenset()
    runfile: str = ""
    stream: str = ""
    stream_before: str = ""
    module_disabled: bool = False
    adopted: t.FrozenSet[str] = frozenset()
    earlier: t.FrozenSet[str] = frozenset()
    automatic: t.FrozenSet[str] = frozenset()
    exchanged: t.FrozenSet[str] = frozenset()
    replaced: str = ""
    device_nodes: bool = False
    persistence_mode: bool = False

    @property
    def adopted_versions(self) -> t.Dict[str, str]:
        """Return the versions of adopted packages when they were taken over, by package."""
        return parse_pairs(self.adopted, " ")

    @property
    def foreign_packages(self) -> t.Dict[str, str]:
        """Return the versions that ``state: absent`` restores of packages that were not ours, by package."""
        return {**self.adopted_versions, **parse_pairs(self.earlier, " ")}


def parse_pairs(texts: t.Iterable[str], separator: str) -> t.Dict[str, str]:
    """Return values by name, from texts such as "nvidia-driver-580 580.95.05" or "name=value"."""
    return {
        name: value for name, _separator, value in (text.partition(separator) for text in texts)
    }


def as_texts(options: t.Mapping[str, str]) -> t.FrozenSet[str]:
    """Return options as "name=value"."""
    return frozenset(f"{name}={value}" for name, value in options.items())
