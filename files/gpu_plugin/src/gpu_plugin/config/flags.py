# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration's keys as flags of a command, and the file that they win over."""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ..tools import bounded
from .configuration import DEFAULT_FILE, KEYS, Config, parse
from .schema import Key
from .strict_yaml import LONGEST, ConfigError

METAVARS: Final = {bool: "true|false", list: "NAMES", str: "TEXT"}


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


def given(options: argparse.Namespace) -> dict[str, str]:
    """Return the flags that were given, by key."""
    found = {key.path: getattr(options, key.path, None) for key in KEYS if key.flags}
    return {
        path: ",".join(value) if isinstance(value, list) else value
        for path, value in found.items()
        if value is not None
    }


def path(options: argparse.Namespace) -> Path:
    """Return where the configuration's file is, if it is there."""
    return Path(options.config or DEFAULT_FILE)


def load(options: argparse.Namespace, env: Mapping[str, str]) -> tuple[Config, str]:
    """Return the configuration of a command, and the digest of its file. ConfigError."""
    file = path(options)
    text, digest = "", hashlib.sha256(b"").hexdigest()
    if options.config or file.exists():
        text, digest = read(file)
    return parse(text, str(file), env, given(options)), digest


def read(path: Path) -> tuple[str, str]:
    """Return a file's text and the digest of its bytes. ConfigError: it can't be read."""
    try:
        data = bounded.read(path, LONGEST)
        return data.decode(), hashlib.sha256(data).hexdigest()
    except OSError as error:
        raise ConfigError(f"can't read {path}", cause=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text", cause=str(error)) from error
