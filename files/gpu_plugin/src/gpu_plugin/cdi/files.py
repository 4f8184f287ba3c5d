# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI files that the plugin keeps of what the node has, and what the node's own says at the moment."""

from __future__ import annotations

import errno
import glob
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from .._shared._base.errors import NodeError
from .._shared._base.gpu import CONTROL_NODES
from ..config.configuration import Config
from ..model.inventory import IMEX_FOLDER, VENDOR, HostState
from ..tools import bounded, files, logs
from ..tools.chores import Chore
from . import specification as cdi

# For each class the device nodes that make it up, and the host's files that its users read.
NODES: Final = {
    "gdrcopy": ("/dev/gdrdrv",),
    "gds": ("/dev/nvidia-fs*",),
    "mofed": ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
}
FILES: Final = {"gds": ("/etc/cufile.json", "/run/udev")}
CHANNELS: Final = "imex-channel"
NODES_FILE: Final = "nodes/list"
PATTERNS: Final = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/dri/by-path/*")
Source = tuple[int, Path, files.Stamp]  # the number of its folder, and the file


class CdiFile:
    """Keeps the plugin's specifications like those that describe the node's GPUs, one for each.

    ``names`` are the devices that a container runtime can be asked for.
    """

    def __init__(self, host_root: Path) -> None:
        self.names: frozenset[str] = frozenset()
        self._root = host_root
        self._written: tuple[Path, ...] = ()
        self._seen: object = None
        self._needed: list[dict[str, set[str]]] = []

    def refresh(self, program: str = "", disabled: tuple[str, ...] = ()) -> None:
        """Follow the node's specifications, if they are others than before.

        ``program`` and ``disabled`` concern the hooks in them. OSError: the files stay as they were, and
        so do the names.
        """
        sources = node_sources(self._root)
        seen = (program, disabled, [(path, *stamp) for _folder, path, stamp in sources])
        if seen == self._seen and all(path.exists() for path in self._written):
            return
        specs, nobodys = cdi.merge(_specs(sources))
        if not specs:
            logs.warning("no CDI specification describes the GPUs", kind=cdi.SOURCE_KIND)
        if nobodys:
            logs.warning(
                "several CDI specifications of one folder have the same devices, "
                "which container runtimes take from none",
                devices=sorted(nobodys),
            )
        self._write([cdi.derive(spec, program, disabled) for spec in specs])
        self.names, self._seen = cdi.names(specs), seen
        self._needed = [cdi.needed(spec) for spec in specs]

    def lacking(self) -> dict[str, str]:
        """Return by name the devices with which no container starts, and the file that is gone."""
        result = {}
        for needed in self._needed:
            everybodys = self._gone(needed[""])
            for name, own in needed.items():
                if name and (gone := everybodys or self._gone(own)):
                    result[name] = gone
        return result

    def _gone(self, paths: Iterable[str]) -> str:
        """Return a file that is not there, empty where all are; one in a folder that is out of sight may be."""
        places = ((path, self._root / path.lstrip("/")) for path in sorted(paths))
        gone = (name for name, at in places if not at.exists() and at.parent.is_dir())
        return next(gone, "")

    def _write(self, specs: list[dict[str, Any]]) -> None:
        """Keep a file for each specification, and no others."""
        more = (cdi.MORE_FILES.format(number) for number in range(2, len(specs) + 1))
        paths = tuple(self._root / name for name in (cdi.FILE, *more))[: len(specs)]
        for path, spec in zip(paths, specs, strict=True):
            _keep(path, spec)
        known = (self._root / cdi.FILE, *self._root.glob(cdi.MORE_FILES.format("*")))
        for path in known:
            if path not in paths:
                _keep(path, None)
        self._written = paths


class CdiAdded:
    """Keeps a file for each class of what containers get besides GPUs: GDRCopy, GPUDirect Storage,
    OFED and IMEX channels. ``names`` are the qualified names that a runtime can be asked for."""

    def __init__(self, host_root: Path) -> None:
        self.names: frozenset[str] = frozenset()
        self._root = host_root
        self._missing: frozenset[str] = frozenset()

    def refresh(self, config: Config) -> None:
        """Describe what the configuration asks for, as far as the node has it; drop the rest. OSError."""
        needed = [*config.containers.extras, CHANNELS] if config.containers.asks_cdi else []
        names: set[str] = set()
        root = config.driver.dev_root.rstrip("/")
        for kind in (*NODES, CHANNELS):
            devices = self._devices(kind, config) if kind in needed else {}
            path = self._root / "var/run/cdi" / f"{VENDOR}-{kind}.json"
            _keep(path, cdi.added(kind, devices, root))
            names |= {f"{VENDOR}/{kind}={name}" for name in devices}
        self.names = frozenset(names)
        missing = frozenset(kind for kind in needed if f"{VENDOR}/{kind}=all" not in names)
        missing -= {CHANNELS}
        for kind in sorted(missing - self._missing):
            logs.warning("the node does not have what containers are to get", wanted=kind)
        self._missing = missing

    def _devices(self, kind: str, config: Config) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return by name the nodes and mounts of each device of a class that is there."""
        root = config.driver.dev_root
        if kind == CHANNELS:
            places = (
                (imex_channel, f"{IMEX_FOLDER}/channel{imex_channel}")
                for imex_channel in config.containers.imex_channels
            )
            return {
                channel: {"nodes": at} for channel, path in places if (at := self._glob(path, root))
            }
        nodes = tuple(channel for path in NODES[kind] for channel in self._glob(path, root))
        mounts = tuple(channel for path in FILES.get(kind, ()) for channel in self._glob(path))
        return {"all": {"nodes": nodes, "mounts": mounts}} if nodes else {}

    def _glob(self, pattern: str, below: str = "/") -> tuple[str, ...]:
        root = str(self._root).rstrip("/") + below.rstrip("/")
        paths = sorted(glob.glob(glob.escape(root) + pattern))
        return tuple(path[len(root) :] for path in paths)


class NodesList:
    """A list in ``file`` of the device nodes that there are, which gpu-cdi.path watches in their place.

    A node itself can't be watched: systemd takes each end of a program that had it open for a change. ``host_root``
    is where the host's / is seen.
    """

    def __init__(self, host_root: Path, file: Path) -> None:
        self._root = str(host_root).rstrip("/")
        self._file = file

    def refresh(self, dev_root: str) -> None:
        """Write the list if it is another than before. OSError."""
        below = self._root + dev_root.rstrip("/")
        nodes = [path for pattern in PATTERNS for path in glob.glob(glob.escape(below) + pattern)]
        text = "".join(f"{path[len(below) :]}\n" for path in sorted(nodes))
        files.keep(self._file, text)


class HostFiles:
    """What the node has besides GPUs. ``root`` is where the host's /dev and CDI folders are seen.

    ``run`` is the folder of what is kept until the next boot.
    """

    def __init__(self, root: Path, run: Path) -> None:
        self._root = str(root).rstrip("/")
        self._gpus, self._added = CdiFile(root), CdiAdded(root)
        trouble = "the CDI specification can't be kept, trying again"
        self._keep_gpus = Chore("cdi_gpus", trouble, self._gpus.refresh)
        self._keep_added = Chore("cdi_added", trouble, self._added.refresh)
        nodes = NodesList(root, run / NODES_FILE)
        self._keep_nodes = Chore("nodes", "the list of nodes can't be kept", nodes.refresh)
        self.chores = (self._keep_gpus, self._keep_added, self._keep_nodes)

    def look(self, config: Config) -> HostState:
        """Bring the CDI files up to date, and return what there is."""
        self._keep_nodes.run(config.driver.dev_root)
        if config.containers.asks_cdi:
            self._keep_gpus.run(
                config.containers.hook_program, config.containers.cdi_disabled_hooks
            )
        self._keep_added.run(config)
        root = self._root + config.driver.dev_root.rstrip("/")
        channels = config.containers.imex_channels
        return HostState(
            tuple(path for path in CONTROL_NODES if os.path.exists(root + path)),
            tuple(
                channel
                for channel in channels
                if os.path.exists(f"{root}{IMEX_FOLDER}/channel{channel}")
            ),
            self._gpus.names,
            self._added.names,
            self._gpus.lacking() if config.containers.asks_cdi else {},
        )


def node_sources(root: Path) -> list[Source]:
    """Return the files that may describe the node's GPUs, none of our own among them. OSError."""
    sources: list[Source] = []
    for number, folder in enumerate(root / place for place in cdi.FOLDERS):
        for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
            if os.path.splitext(name)[1] not in (".json", ".yaml") or name.startswith(cdi.OWN):
                continue
            if stamp := _stamp(folder / name):
                sources.append((number, folder / name, stamp))
    return sources


def node_specifications(sources: list[Source]) -> list[dict[str, Any]]:
    """Return the specifications of the node's GPUs that these files have, as container runtimes take them."""
    return cdi.merge(_specs(sources))[0]


def read(config: Path) -> dict[str, Any] | None:
    """Return the specification's path, devices and missing files; None where nothing keeps one.

    ``missing`` are the libraries and hooks that it names and that are not there: it is older than the
    driver or the toolkit, and no container that asks for a device starts.
    ``failed``: whether the last run of gpu-cdi.service failed.
    """
    from .._shared._cdi import boot as cdi_boot  # the daemon starts without them
    from .._shared._machine.host import Host

    try:
        options = cdi_boot.load(bounded.read(config).decode("utf-8", "replace"), str(config))
    except (OSError, NodeError):
        return None
    command = ["systemctl", "is-failed", "--quiet", cdi_boot.UNIT]
    failed = Host().run(command, check=False).rc == 0
    return {"path": options.path, "failed": failed, **content(Path(options.path))}


def content(path: Path) -> dict[str, list[str]]:
    """Return the devices of a specification and the files that are gone; no devices where it is damaged."""
    try:
        spec = cdi.read(bounded.read_text(path))
        needed = cdi.needed(spec)
    except (OSError, ValueError, KeyError, NodeError):
        return {"devices": [], "missing": []}
    paths = set().union(*needed.values())
    return {
        "devices": [name for name in needed if name],
        "missing": sorted(path for path in paths if not os.path.exists(path)),
    }


def _stamp(path: Path) -> files.Stamp | None:
    """Return what differs after a change of a file; None where it has gone, or is a link to nothing."""
    try:
        return files.stamp_of(path.stat())
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return None
        raise


def _keep(path: Path, spec: dict[str, Any] | None) -> None:
    if spec is None:
        path.unlink(missing_ok=True)
    else:
        files.keep(path, json.dumps(spec, indent=2) + "\n")


def _specs(sources: list[Source]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield what can be read; what can't is left aside, as container runtimes do with it."""
    for folder, path, _stamp in sources:
        try:
            yield folder, cdi.read(bounded.read_text(path))
        except (NodeError, UnicodeDecodeError, IsADirectoryError, bounded.TooLong) as error:
            logs.warning("a CDI specification is ignored", file=path, cause=error)
