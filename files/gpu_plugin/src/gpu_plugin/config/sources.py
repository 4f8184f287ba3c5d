# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The sources of the configuration: a command's flags, and the file that they win over."""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .._shared._base.visible_devices import TOOLKIT_CONFIG, warning
from ..tools import bounded, files
from .configuration import DEFAULT_FILE, KEYS, Config, parse
from .schema import Key
from .strict_yaml import LONGEST, ConfigError

METAVARS: Final = {bool: "true|false", list: "NAMES", str: "TEXT"}
SETTLE: Final = 0.5


def add(parser: argparse.ArgumentParser, keys: Iterable[Key]) -> None:
    """Add the flags of keys to a command, and where the configuration's file is."""
    parser.add_argument(
        "--config",
        "--config-file",
        default=os.environ.get("CONFIG_FILE") or None,
        metavar="FILE",
        help="configuration (environment: CONFIG_FILE; default: /etc/gpu-node/config.yaml, if there)",
    )
    group = parser.add_argument_group("configuration", "a flag wins over its variable and the file")
    for key in keys:
        if not key.flags:
            continue
        group.add_argument(
            *key.flags,
            dest=key.path,
            nargs="?" if key.kind is bool else None,
            const="true" if key.kind is bool else None,
            action="append" if key.kind is list else "store",
            metavar="|".join(key.allowed) or METAVARS[key.kind],
            help=f"{key.help} (environment: {key.env[0]})",
        )


def flags_given(options: argparse.Namespace) -> dict[str, str]:
    """Return the flags that were given, by key."""
    flags = {key.path: getattr(options, key.path, None) for key in KEYS if key.flags}
    return {
        path: ",".join(value) if isinstance(value, list) else value
        for path, value in flags.items()
        if value is not None
    }


def path(options: argparse.Namespace) -> Path:
    """Return where the configuration's file is, if it is there."""
    return Path(options.config or DEFAULT_FILE)


@dataclass(frozen=True)
class Loaded:
    """A configuration, with its file's text and the digest of its bytes."""

    config: Config
    text: str
    digest: str


class Source:
    """A command's configuration file, with its flags and the environment, which win over it."""

    def __init__(self, options: argparse.Namespace, env: Mapping[str, str]) -> None:
        self.path = path(options)
        self._required = bool(options.config)
        self._env, self._flags = env, flags_given(options)

    def load(self) -> Loaded:
        """Return the file's configuration, or that of an empty file if there is no file and none was named.

        Raises:
            ConfigError: if the file can't be read, or is not valid.
        """
        text = read(self.path)[0] if self._required or self.path.exists() else ""
        return self.parse(text, str(self.path))

    def parse(self, text: str, where: str) -> Loaded:
        """Return the configuration in a text; ``where`` is its name for errors.

        Raises:
            ConfigError: if it is not valid.
        """
        digest = hashlib.sha256(text.encode()).hexdigest()
        return Loaded(parse(text, where, self._env, self._flags), text, digest)


def read(path: Path) -> tuple[str, str]:
    """Return a file's text and the digest of its bytes.

    Raises:
        ConfigError: if it can't be read.
    """
    try:
        with files.failing(f"can't read {path}", ConfigError):
            data = bounded.read(path, LONGEST)
        return data.decode(), hashlib.sha256(data).hexdigest()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", cause=str(error)) from error


class ConfigWatch:
    """Watches one file, through links. A file that is gone changes nothing: it is being replaced."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._seen = files.stamp(self._path)
        self._coming: files.Stamp | None = None
        self._since = 0.0

    def changed(self) -> bool:
        """Return, once for each change, that the file has changed and is no longer being written."""
        stamp = files.stamp(self._path)
        if stamp is None or stamp == self._seen:
            self._coming = None
            return False
        if stamp != self._coming:
            self._coming, self._since = stamp, self._clock()
            return False
        if self._clock() - self._since < SETTLE:
            return False
        self._seen, self._coming = stamp, None
        return True


def warnings(config: Config, root: Path) -> list[str]:
    """Return warnings about the configuration. ``root`` is where the node's / is seen, if it is seen at all."""
    try:
        text = bounded.read_text(root / TOOLKIT_CONFIG.lstrip("/"))
    except (OSError, UnicodeDecodeError):
        text = None
    visible = warning(config.containers.device_list_strategies, text)
    return [*config.notes, *([visible] if visible else [])]
