# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration in force, and why the one on disk is not, if so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from ..observer import RELOADS, Observer
from ..tools import logs
from .configuration import Config
from .sources import ConfigWatch, warnings
from .strict_yaml import ConfigError

Loaded = tuple[Config, str]  # and the digest of its file


class InForce:
    """``load`` reads the file at ``path``, and ``host_root`` is where the node's / is seen.

    ConfigError: there is none to begin with.
    """

    def __init__(
        self, path: Path, load: Callable[[], Loaded], host_root: Path, observer: Observer
    ) -> None:
        self._watch = ConfigWatch(path)  # before it is read, so that no change is missed
        self._load, self._host_root, self._observer = load, host_root, observer
        self.config, self.digest = load()
        self.problem = ""

    def reload(self, check: Callable[[Config], None], *, asked: bool) -> bool:
        """Take the configuration on disk if it is another one, or was asked for. Returns whether it was.

        ``check`` raises ConfigError where the node does not allow it.
        """
        if not (self._watch.changed() or asked):
            return False
        try:
            config, digest = self._load()
            check(config)
        except (ConfigError, OSError) as error:
            logs.error("configuration refused, the one before stays", cause=error)
            self.problem = str(error)
            self._observer.count(RELOADS, "refused")
            return False
        self.problem = ""
        self._observer.count(RELOADS, "accepted")
        if (config, digest) == (self.config, self.digest) and not asked:
            return False
        self.config, self.digest = config, digest
        self.log("configuration loaded")
        return True

    def log(self, event: str, **more: str) -> None:
        """Log the configuration, and what it leaves open."""
        values = asdict(self.config)
        del values["notes"]
        logs.info(event, **more, **values)
        for warning in warnings(self.config, self._host_root):
            logs.warning(warning)
