# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration in force, and the last good one for a start with one on disk that is refused."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ..observer import RELOADS, Observer
from ..tools import logs
from ..tools.chores import Backoff, Chore, Worker
from ..tools.files import VERSION, StateFile, StateUnusable, read
from .configuration import Config
from .sources import ConfigWatch, Loaded, Source, warnings
from .strict_yaml import ConfigError

NAME: Final = "configuration.json"
RETRY, LONGEST_RETRY = 1.0, 30.0  # seconds between two tries of a configuration that is refused
STAYS: Final = "configuration refused, the one before stays"
FALLS_BACK: Final = "configuration refused, the last good one is in force"
# Returns whether the node could be asked, and raises ConfigError if it does not allow the configuration.
Check = Callable[[Config], bool]


class LastGood:
    """Stores the text of the configuration below ``folder``; without a folder nothing is stored.

    Flags and the environment are not stored: they are those of the present start.
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
        """Return the configuration, None if there is none that can be used."""
        if self._text is None:
            return None
        try:
            return self._source.parse(self._text, f"{self._path} (the last good configuration)")
        except ConfigError as error:
            logs.warning("the last good configuration can't be used either", cause=error)
            self._text = None
            return None

    def keep(self, loaded: Loaded) -> None:
        """Store the configuration in force, without waiting for the disk."""
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
            state = read(self._path, (VERSION,))
        except StateUnusable as error:
            logs.warning("the last good configuration is lost", cause=error)
            return None
        text, digest = (state or {}).get("text"), (state or {}).get("sha256")
        if not isinstance(text, str) or hashlib.sha256(text.encode()).hexdigest() != digest:
            if state is not None:
                logs.warning(
                    "the last good configuration is lost", cause=f"{self._path} is damaged"
                )
            return None
        return text


class InForce:
    """The configuration in force. One that is refused is tried again: the reason may pass, as clients that end.

    Attributes:
        judged: Whether the node was asked about it, and allows it.
        problem: Why the one on disk is not in force, empty if it is.
        fallback: Whether it is the last good one of an earlier process.

    Raises:
        ConfigError: if there is none to begin with.
    """

    def __init__(
        self,
        source: Source,
        last_good: LastGood,
        host_root: Path,
        observer: Observer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Before it is read, so that no change is missed.
        self._watch = ConfigWatch(source.path, clock)
        self._source, self._last_good = source, last_good
        self._host_root, self._observer, self._clock = host_root, observer, clock
        self._backoff = Backoff(RETRY, LONGEST_RETRY, jitter=0)  # nobody but this node is asked
        self._judging = Backoff(RETRY, LONGEST_RETRY, jitter=0)
        self._retry_at = self._judge_at = 0.0
        self.judged, self.problem, self.fallback = False, "", False
        try:
            self._loaded = source.load()
        except Exception as error:  # also what nobody foresaw: no file may end the service of GPUs
            last = last_good.load()
            if last is None:
                raise
            self._fall_back(last, error)

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._loaded.config

    @property
    def digest(self) -> str:
        """The digest of its file."""
        return self._loaded.digest

    def reload(self, check: Check, *, asked: bool) -> bool:
        """Load the configuration on disk if it has changed, or was asked for. Return whether it was loaded."""
        changed = self._watch.changed() or asked
        if changed:
            self._backoff.reset()
        elif not self.problem or self._clock() < self._retry_at:
            return False
        try:
            loaded = self._source.load()
            judged = check(loaded.config)
        except Exception as error:  # as above
            self._refuse(STAYS, error, again=not changed)
            return False
        news = asked or self.fallback or loaded != self._loaded
        self._loaded, self.judged, self.fallback, self.problem = loaded, judged, False, ""
        self._judge_at = 0.0
        self._observer.count(RELOADS, "accepted")
        if news:
            self.log("configuration loaded")
        return news

    def judge(self, check: Check) -> None:
        """Judge what a start took as soon as the node can be asked, and store it for the next if it is good.

        If the node refuses it, the last good configuration is in force instead, as it would be had the daemon not
        ended; if there is none, what was taken stays.
        """
        if not self.judged and self._clock() >= self._judge_at:
            try:
                self.judged = check(self.config)
            except Exception as error:  # as above
                self._judge_at = self._clock() + self._judging.failed()
                self._replace(check, error)
        if self.judged and not self.fallback:
            self._last_good.keep(self._loaded)

    def log(self, event: str, **more: str) -> None:
        """Log the configuration, and warnings about it."""
        values = asdict(self.config)
        del values["notes"]
        logs.info(event, **more, **values)
        for warning in warnings(self.config, self._host_root):
            logs.warning(warning)

    def _replace(self, check: Check, error: Exception) -> None:
        """Put the last good configuration in force, if it differs and the node allows it."""
        last = self._last_good.load()
        if last is None or last.text == self._loaded.text:
            return
        if last.config.driver.roots != self.config.driver.roots:
            return  # another library would have to be loaded, in another process
        try:
            allowed = check(last.config)
        except Exception:  # as above: then it is no better than the other
            return
        if allowed:
            self._fall_back(last, error)
            self.log("configuration loaded")

    def _fall_back(self, last: Loaded, error: Exception) -> None:
        self._loaded, self.judged, self.fallback = last, True, True
        self._refuse(FALLS_BACK, error)

    def _refuse(self, message: str, error: Exception, *, again: bool = False) -> None:
        """Note why the configuration on disk is not in force, and log it unless that is known."""
        is_known = isinstance(error, (ConfigError, OSError))
        problem = str(error) if is_known else f"{type(error).__name__}: {error}"
        if not again or problem != self.problem:
            logs.error(message, cause=problem)
            self._observer.count(RELOADS, "refused")
        self.problem = problem
        self._retry_at = self._clock() + self._backoff.failed()
