# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""CDI specifications of what containers get besides GPUs: GDRCopy, GPUDirect Storage, OFED and IMEX channels."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ..config.configuration import CDI, Config
from ..tools import files, logs
from . import specification as cdi

# For each class the device nodes that make it up, and the host's files that its users read.
NODES: Final = {
    "gdrcopy": ("/dev/gdrdrv",),
    "gds": ("/dev/nvidia-fs*",),
    "mofed": ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
}
FILES: Final = {"gds": ("/etc/cufile.json", "/run/udev")}
CHANNELS: Final = "imex-channel"
FOLDER: Final = "var/run/cdi"


class CdiAdded:
    """Keeps one file a class. ``names`` are the qualified names that a runtime can be asked for."""

    def __init__(self, host_root: Path) -> None:
        self.names: frozenset[str] = frozenset()
        self._root = host_root
        self._missing: frozenset[str] = frozenset()

    def refresh(self, config: Config) -> None:
        """Describe what the configuration asks for, as far as the node has it; drop the rest. OSError."""
        self.names = frozenset(
            name for kind in (*NODES, CHANNELS) for name in self._keep(kind, config)
        )
        missing = frozenset(
            one for one in _wanted(config) if f"{cdi.VENDOR}/{one}=all" not in self.names
        )
        for kind in sorted(missing - self._missing):
            logs.warning("the node does not have what containers are to get", wanted=kind)
        self._missing = missing

    def _keep(self, kind: str, config: Config) -> list[str]:
        """Bring the file of a class up to date. Returns the names of its devices."""
        devices = dict(self._devices(kind, config))
        path = self._root / FOLDER / f"{cdi.VENDOR}-{kind}.json"
        spec = cdi.added(
            kind, devices, "" if config.dev_root == "/" else config.dev_root.rstrip("/")
        )
        if spec is None:
            path.unlink(missing_ok=True)
            return []
        files.keep(path, json.dumps(spec, indent=2) + "\n")
        return [f"{cdi.VENDOR}/{kind}={name}" for name in devices]

    def _devices(
        self, kind: str, config: Config
    ) -> Iterator[tuple[str, Mapping[str, tuple[str, ...]]]]:
        if not set(CDI) & set(config.device_list_strategies):
            return
        if kind == CHANNELS:
            for channel in config.imex_channels:
                if nodes := self._found(f"{cdi.IMEX_FOLDER}/channel{channel}", config.dev_root):
                    yield channel, {"nodes": nodes}
        elif kind in _wanted(config):
            nodes = tuple(
                node for pattern in NODES[kind] for node in self._found(pattern, config.dev_root)
            )
            if nodes:
                mounts = tuple(one for path in FILES.get(kind, ()) for one in self._found(path))
                yield "all", {"nodes": nodes, "mounts": mounts}

    def _found(self, pattern: str, below: str = "/") -> tuple[str, ...]:
        root = str(self._root).rstrip("/") + below.rstrip("/")
        paths = sorted(glob.glob(glob.escape(root) + pattern))
        return tuple(path[len(root) :] for path in paths)


def _wanted(config: Config) -> list[str]:
    if not set(CDI) & set(config.device_list_strategies):
        return []
    asked = {"gdrcopy": config.gdrcopy, "gds": config.gds, "mofed": config.mofed}
    return [kind for kind, wanted in asked.items() if wanted]
