# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration in force, and why the one on disk is not, if so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from .. import logs
from ..observer import RELOADS, Observer
from .configuration import Config
from .strict_yaml import ConfigError
from .visible import told
from .watch import ConfigWatch


@dataclass(frozen=True)
class Loaded:
    """A configuration and the digest of the file it came from."""

    config: Config
    digest: str


class InForce:
    """``load`` reads the file at ``path``, and ``host_root`` is where the node's / is seen.

    ConfigError: there is none to begin with.
    """

    def __init__(
        self, path: Path, load: Callable[[], Loaded], host_root: Path, observer: Observer
    ) -> None:
        self._watch = ConfigWatch(path)  # before it is read, so that no change is missed
        self._load, self._host_root, self._observer = load, host_root, observer
        self._loaded = load()
        self.problem = ""

    @property
    def config(self) -> Config:
        """The configuration."""
        return self._loaded.config

    @property
    def digest(self) -> str:
        """The digest of its file."""
        return self._loaded.digest

    def reload(self, check: Callable[[Config], None], *, asked: bool) -> bool:
        """Take the configuration on disk if it is another one, or was asked for. Returns whether it was.

        ``check`` raises ConfigError where the node does not allow it.
        """
        if not (self._watch.changed() or asked):
            return False
        try:
            found = self._load()
            check(found.config)
        except (ConfigError, OSError) as error:
            logs.error("configuration refused, the one before stays", cause=error)
            self.problem = str(error)
            self._observer.count(RELOADS, "refused")
            return False
        self.problem = ""
        self._observer.count(RELOADS, "accepted")
        if found == self._loaded and not asked:
            return False
        self._loaded = found
        self.log("configuration loaded")
        return True

    def log(self, event: str, **more: str) -> None:
        """Log the configuration, and what it leaves open."""
        logs.info(event, **more, **asdict(self.config))
        if warning := told(self.config, self._host_root):
            logs.warning(warning)
