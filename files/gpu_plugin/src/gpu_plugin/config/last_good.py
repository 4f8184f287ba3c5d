# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration that was in force last, kept for a start at which the file can't be used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from ..tools import logs
from ..tools.chores import Chore, Worker
from ..tools.files import VERSION, StateFile, StateUnusable, read
from .sources import Loaded, Source
from .strict_yaml import ConfigError

NAME: Final = "configuration.json"


class LastGood:
    """Keeps the text of a file below ``folder``; without a folder none is kept.

    Flags and the environment are not kept: they are those of the present start.
    """

    def __init__(self, source: Source, folder: Path | None) -> None:
        self._source = source
        self._path = folder / NAME if folder else None
        self._file = StateFile(self._path, mode=0o600, durable=True) if self._path else None
        self._worker = Worker("last_config")  # a disk may take long
        trouble = "the configuration can't be kept for the next start, trying again"
        self.chore = Chore("last_config", trouble, self._write)
        self._text = self._read()

    def load(self) -> Loaded | None:
        """Return the configuration, None where there is none that can be used."""
        if self._text is None:
            return None
        try:
            return self._source.parse(self._text, f"{self._path} (the last good configuration)")
        except ConfigError as error:
            logs.warning("the last good configuration can't be used either", cause=error)
            self._text = None
            return None

    def keep(self, loaded: Loaded) -> None:
        """Keep the configuration in force, without waiting for the disk."""
        if self._file is not None and loaded.text != self._text:
            self._worker.start(lambda: self.chore.run(loaded))

    def _write(self, loaded: Loaded) -> None:
        if self._file is not None:
            self._file.write({"sha256": loaded.digest, "text": loaded.text})
            self._text = loaded.text

    def _read(self) -> str | None:
        if self._path is None:
            return None
        try:
            found = read(self._path, (VERSION,))
        except StateUnusable as error:
            logs.warning("the last good configuration is lost", cause=error)
            return None
        text, digest = (found or {}).get("text"), (found or {}).get("sha256")
        if not isinstance(text, str) or hashlib.sha256(text.encode()).hexdigest() != digest:
            if found is not None:
                logs.warning(
                    "the last good configuration is lost", cause=f"{self._path} is damaged"
                )
            return None
        return text
