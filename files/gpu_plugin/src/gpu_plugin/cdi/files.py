# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The CDI files that the device plugin writes, and the node's own specifications as they are at the moment."""

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
    """Keeps the plugin's specifications in step with those that describe the node's GPUs, one for each.

    ``names`` are the devices that a container runtime can be asked for.
    """

    def __init__(self, host_root: Path) -> None:
        self.names: frozenset[str] = frozenset()
        self._root = host_root
        self._written: tuple[Path, ...] = ()
        self._seen: object = None
        self._needed: list[dict[str, set[str]]] = []

    def refresh(self, program: str = "", disabled: tuple[str, ...] = ()) -> None:
        """Follow the node's specifications, if they have changed.

        ``program`` and ``disabled`` concern the hooks in them.

        Raises:
            OSError: if a file can't be read or written; the names stay as they were.
        """
        sources = node_sources(self._root)
        seen = (program, disabled, [(path, *stamp) for _folder, path, stamp in sources])
        if seen == self._seen and all(path.exists() for path in self._written):
            return
        specs, nobodys = cdi.merge(read_sources(sources))
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
            common = self._gone(needed[""])
            for name, own in needed.items():
                if name and (gone := common or self._gone(own)):
                    result[name] = gone
        return result

    def _gone(self, paths: Iterable[str]) -> str:
        """Return a file that does not exist, empty if all do; one in a folder that can't be seen may exist."""
        for path in sorted(paths):
            at = self._root / path.lstrip("/")
            if not at.exists() and at.parent.is_dir():
                return path
        return ""

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
    """Keeps a file for each class of devices besides GPUs: GDRCopy, GPUDirect Storage, OFED and IMEX channels.

    ``names`` are the qualified names that a runtime can be asked for.
    """

    def __init__(self, host_root: Path) -> None:
        self.names: frozenset[str] = frozenset()
        self._root = host_root
        self._missing: frozenset[str] = frozenset()

    def refresh(self, config: Config) -> None:
        """Describe the configured classes, as far as the node has them, and no others.

        Raises:
            OSError: if a file can't be written.
        """
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
            return {
                channel: {"nodes": nodes}
                for channel in config.containers.imex_channels
                if (nodes := self._glob(f"{IMEX_FOLDER}/channel{channel}", root))
            }
        nodes = tuple(path for pattern in NODES[kind] for path in self._glob(pattern, root))
        mounts = tuple(path for pattern in FILES.get(kind, ()) for path in self._glob(pattern))
        return {"all": {"nodes": nodes, "mounts": mounts}} if nodes else {}

    def _glob(self, pattern: str, below: str = "/") -> tuple[str, ...]:
        root = str(self._root).rstrip("/") + below.rstrip("/")
        paths = sorted(glob.glob(glob.escape(root) + pattern))
        return tuple(path[len(root) :] for path in paths)


class NodesList:
    """A list in ``file`` of the existing device nodes, which gpu-cdi.path watches in their place.

    A node itself can't be watched: systemd reports a change whenever a program closes it. ``host_root`` is where the
    host's / is seen.
    """

    def __init__(self, host_root: Path, file: Path) -> None:
        self._root = str(host_root).rstrip("/")
        self._file = file

    def refresh(self, dev_root: str) -> None:
        """Write the list if it has changed.

        Raises:
            OSError: if it can't be written.
        """
        below = self._root + dev_root.rstrip("/")
        nodes = [path for pattern in PATTERNS for path in glob.glob(glob.escape(below) + pattern)]
        text = "".join(f"{path[len(below) :]}\n" for path in sorted(nodes))
        files.keep(self._file, text)


class HostFiles:
    """The node's state besides GPUs.

    Args:
        root: Where the host's /dev and CDI folders are seen.
        run: The folder for files of this boot.
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
        """Bring the CDI files up to date, and return the node's state."""
        self._keep_nodes.run(config.driver.dev_root)
        if config.containers.asks_cdi:
            self._keep_gpus.run(
                config.containers.hook_program, config.containers.cdi_disabled_hooks
            )
        self._keep_added.run(config)
        root = self._root + config.driver.dev_root.rstrip("/")
        channels = config.containers.imex_channels
        folder = f"{root}{IMEX_FOLDER}"
        return HostState(
            tuple(path for path in CONTROL_NODES if os.path.exists(root + path)),
            tuple(each for each in channels if os.path.exists(f"{folder}/channel{each}")),
            self._gpus.names,
            self._added.names,
            self._gpus.lacking() if config.containers.asks_cdi else {},
        )


def node_sources(root: Path) -> list[Source]:
    """Return the files that may describe the node's GPUs, without our own.

    Raises:
        OSError: if a folder can't be read.
    """
    sources: list[Source] = []
    for number, folder in enumerate(root / place for place in cdi.FOLDERS):
        for name in sorted(os.listdir(folder)) if folder.is_dir() else []:
            if os.path.splitext(name)[1] not in (".json", ".yaml") or name.startswith(cdi.OWN):
                continue
            if stamp := _stamp(folder / name):
                sources.append((number, folder / name, stamp))
    return sources


def read(config: Path) -> dict[str, Any] | None:
    """Return the specification's path, devices and missing files, None if no service writes one.

    ``missing`` are the libraries and hooks that it names and that don't exist: it is older than the
    driver or the toolkit, and no container that asks for a device starts.
    ``failed`` says whether the last run of gpu-cdi.service failed.
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
    """Return the devices of a specification and the missing files; no devices if it is damaged."""
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
    """Return the stamp of a file, None if it has gone, or is a link to nothing."""
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


def read_sources(sources: list[Source]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the specifications that can be read; others are ignored, as container runtimes ignore them."""
    for folder, path, _stamp in sources:
        try:
            yield folder, cdi.read(bounded.read_text(path))
        except (NodeError, UnicodeDecodeError, IsADirectoryError, bounded.TooLong) as error:
            logs.warning("a CDI specification is ignored", file=path, cause=error)
