# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Labels as a file for Node Feature Discovery, or on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from .._shared._core.errors import NodeError
from ..tools import files, logs


class FileOutput:
    """Writes ``key=value`` lines; ``path`` empty is standard output."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._last: str | None = None

    def write(self, labels: Mapping[str, str]) -> None:
        """Write the labels, if they are others than before. NodeError: they can't be written."""
        text = "".join(f"{key}={labels[key]}\n" for key in sorted(labels))
        if self._path is None:
            if text != self._last:
                sys.stdout.write(text)
                sys.stdout.flush()
        elif self._read(self._path) != text:
            try:
                files.replace(self._path, text, durable=True)
            except OSError as error:
                raise NodeError(
                    f"can't write {self._path}", cause=error.strerror or str(error)
                ) from error
            logs.info("labels written", file=self._path, labels=len(labels))
        self._last = text

    @staticmethod
    def _read(path: Path) -> str | None:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def remove(self) -> None:
        """Remove the file, so that the labels go."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                logs.warning("the file of labels stays", file=self._path, cause=error)
