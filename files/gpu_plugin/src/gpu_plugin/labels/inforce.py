# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration that labels follow: the one that the plugin serves, which may not be the file's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ..config.sources import Loaded, Source
from ..config.strict_yaml import ConfigError
from ..tools import files, logs, status
from ..tools.files import StateUnusable, alive, read

# Seconds in which a plugin that runs has taken a configuration or refused it.
PATIENCE: Final = 30.0
UNKNOWN: Final = "labels stay as they are: the plugin serves a configuration that is not known here"


class Plugin:
    """The device plugin's state, as its status file has it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: object = None
        self._state: Mapping[str, Any] | None = None

    def state(self) -> Mapping[str, Any] | None:
        """Return the plugin's state, None if no plugin runs that writes one."""
        stamp = files.stamp(self._path)
        if stamp != self._stamp:
            self._stamp, self._state = stamp, status.load(self._path) if stamp else None
        if self._state is None or not alive(self._state):
            return None
        return self._state


class InForce:
    """``config`` is what labels follow; they stay as they are while it is not ``known``.

    ``problem`` is why the file is not followed; ``last_good`` is where the plugin stores what it served last.

    Raises:
        ConfigError: if flags or variables are wrong.
    """

    def __init__(
        self, source: Source, last_good: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source, self._last_good, self._clock = source, last_good, clock
        self.config = source.parse("", "no configuration").config
        self.known = False
        self.problem = ""
        self._read: Loaded | None = None
        self._taken: Loaded | None = None
        self._refused = ""
        self._strange_since: float | None = None
        self.reload()

    def reload(self) -> None:
        """Read the file."""
        try:
            self._read, self._refused = self._source.load(), ""
        except (ConfigError, OSError) as error:
            self._read, self._refused = None, str(error)

    def follow(self, plugin: Mapping[str, Any] | None) -> bool:
        """Take the configuration that the plugin reports, or the file's. Return whether it has changed."""
        configuration = self._chosen(plugin)
        self.known = configuration is not None
        if configuration is None or configuration == self._taken:
            return False
        self._taken, self.config = configuration, configuration.config
        return True

    def _chosen(self, plugin: Mapping[str, Any] | None) -> Loaded | None:
        digest = (plugin or {}).get("config_sha256")
        why = self._refused or str((plugin or {}).get("config_problem") or "")
        if not isinstance(digest, str):
            self._strange_since, self.problem = None, self._refused
            return self._read or self._taken
        for loaded in (self._read, self._taken):
            if loaded is not None and loaded.digest == digest:
                return self._agreed(loaded, why)
        if last_good := self._last_good_config(digest):
            return self._agreed(last_good, why)
        return self._strange(why)

    def _agreed(self, loaded: Loaded, why: str) -> Loaded:
        self._strange_since = None
        self.problem = "" if loaded is self._read else why
        return loaded

    def _strange(self, why: str) -> Loaded | None:
        """Choose while the plugin serves what is not known here, such as another file, or has not looked yet."""
        moment = self._clock()
        self._strange_since = moment if self._strange_since is None else self._strange_since
        if why:
            self.problem = f"{UNKNOWN}, as it refused the file's: {why}"
            return None
        if moment - self._strange_since < PATIENCE:
            return self._taken
        if self._taken != self._read:
            logs.warning("the plugin serves another file than this one, which labels follow")
        self.problem = ""
        return self._read

    def _last_good_config(self, digest: str) -> Loaded | None:
        """Return what the plugin stored, if that is what it serves."""
        try:
            state = read(self._last_good) or {}
            if state.get("sha256") != digest or not isinstance(state.get("text"), str):
                return None
            return self._source.parse(state["text"], str(self._last_good))
        except (StateUnusable, ConfigError):
            return None
