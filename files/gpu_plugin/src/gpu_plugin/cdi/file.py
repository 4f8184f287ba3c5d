# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Keeps the plugin's CDI specification like the one that describes the node's GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._shared._core.errors import NodeError
from ..tools import bounded, files, logs
from . import specification as cdi

Stamp = tuple[tuple[str, int, int], ...]


class CdiFile:
    """``names`` are the devices that a container runtime can be asked for."""

    def __init__(self, host_root: Path) -> None:
        self.names: frozenset[str] = frozenset()
        self._root = host_root
        self._path = host_root / cdi.FILE
        self._stamp: Stamp | None = None
        self._hooks: tuple[str, tuple[str, ...]] = ("", ())

    def refresh(self, program: str = "", disabled: tuple[str, ...] = ()) -> None:
        """Follow the node's specifications, if they are others than before.

        ``program`` and ``disabled`` concern the hooks in them. OSError: the file stays as it was, and
        so do the names.
        """
        if (program, disabled) != self._hooks:
            self._stamp, self._hooks = None, (program, disabled)
        sources = self._sources()
        found = ((path, path.stat()) for path in sources)
        stamp = tuple((str(path), stat.st_mtime_ns, stat.st_ino) for path, stat in found)
        if stamp == self._stamp and (self._path.exists() or not self.names):
            return
        spec = cdi.derive(self._specs(sources), program, disabled)
        if spec is None:
            logs.warning("no CDI specification describes the GPUs", kind=cdi.SOURCE_KIND)
            self._path.unlink(missing_ok=True)
        else:
            files.keep(self._path, json.dumps(spec, indent=2) + "\n")
        self.names, self._stamp = cdi.names(spec), stamp

    def _specs(self, sources: list[Path]) -> Iterator[dict[str, Any]]:
        """Yield what can be read; what can't is left aside, as container runtimes do with it."""
        for path in sources:
            try:
                yield cdi.read(bounded.read_text(path))
            except (NodeError, UnicodeDecodeError, IsADirectoryError, bounded.TooLong) as error:
                logs.warning("a CDI specification is ignored", file=path, cause=error)

    def _sources(self) -> list[Path]:
        found = []
        for folder in cdi.FOLDERS:
            place = self._root / folder
            if place.is_dir():
                found += sorted(one for one in place.iterdir() if one.suffix in (".json", ".yaml"))
        return [path for path in found if path != self._path]
