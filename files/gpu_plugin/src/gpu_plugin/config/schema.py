# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A key that holds one value: where it can be given, and what its value may be. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from .._shared._base.text.json_data import is_whole
from .._shared._base.text.shown import shown
from .strict_yaml import ConfigError, Value, invalid

TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
FALSE: Final = ("0", "f", "F", "FALSE", "false", "False")
EXPECTED: Final = {bool: "true or false", str: "a string", list: "a list"}
UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
INTERVAL: Final = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)"
LONGEST_INTERVAL: Final = 64


@dataclass(frozen=True)
class Key:
    """One key of NVIDIA's device plugin schema v1, or of our own, and how else it can be given.

    ``default`` is as a file has it. ``read`` gets where a value was given and the value, and returns it
    typed. ``flags`` are those of a key that has a help, if not called as the key is; ``variables``
    are the environment's, if they are not called as the flags are.
    """

    path: str
    default: Any
    help: str = ""
    flags: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)  # what is known, and why not to be had
    may_be_empty: bool = False  # which asks for the default
    may_be_whole: bool = False  # a number stands for the text that it is written as
    read: Callable[[str, Any], Any] = lambda _where, value: value

    def __post_init__(self) -> None:
        if self.help and not self.flags:
            flag = f"--{dashed(self.path.rpartition('.')[2])}" if self.in_file else self.path
            object.__setattr__(self, "flags", (flag,))

    @property
    def kind(self) -> type:
        """The type of its value in a file: bool, str or list."""
        kinds = {tuple: list, type(None): bool}
        return kinds.get(type(self.default), type(self.default))

    @property
    def in_file(self) -> bool:
        """Whether a file may have it; NVIDIA's switches that may not go by their flags."""
        return not self.path.startswith("--")

    @property
    def env(self) -> tuple[str, ...]:
        """The variables of the environment; the first that is not empty counts."""
        return self.variables or tuple(
            flag.lstrip("-").replace("-", "_").upper() for flag in self.flags
        )

    def field(self) -> Any:
        """Return the field of a dataclass that has this key's value."""
        # pylint: disable-next=invalid-field-call # the class is decorated where the key is declared
        return field(default=self.read(self.path, self.default), metadata={"key": self})

    def value(self, written: Value | None, env: Mapping[str, str], flags: Mapping[str, str]) -> Any:
        """Return the typed value: a flag's, the environment's, the file's or the default.

        Raises:
            ConfigError: if it is not valid.
        """
        if self.path in flags:
            where = f"flag {self.flags[0] if self.flags else self.path}"
            value = self._from_text(where, flags[self.path])
        elif name := next((name for name in self.env if env.get(name)), ""):
            where = f"environment variable {name}"
            value = self._from_text(where, env[name])
        elif written is not None:
            where = f"{written.where}: {self.path}"
            value = self._from_data(where, written.data)
        else:
            where, value = self.path, self.default
        if self.may_be_empty and not value:
            value = self.default
        self._check(where, value)
        return self.read(where, value)

    def _from_text(self, where: str, text: str) -> Any:
        if self.kind is bool:
            if text not in TRUE + FALSE:
                raise invalid(where, text, EXPECTED[bool])
            return text in TRUE
        if self.kind is list:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return text

    def _from_data(self, where: str, data: Any) -> Any:
        if self.kind is list:
            items = data if isinstance(data, list) else [data]
            return tuple(str(item) if is_whole(item) else item for item in items)
        if self.may_be_whole and is_whole(data):
            return str(data)
        if not isinstance(data, self.kind):
            raise invalid(where, data, EXPECTED[self.kind])
        return data

    def _check(self, where: str, value: Any) -> None:
        items = value if self.kind is list else (value,)
        expected = f"{'one or more' if self.kind is list else 'one'} of {', '.join(self.allowed)}"
        if not items and not self.may_be_empty:
            raise ConfigError(f"{where}: nothing is given", cause=f"expected {expected}")
        for item in items:
            if isinstance(item, str) and not item.isprintable():
                raise invalid(where, item, "printable characters")
            if isinstance(item, str) and item in self.refused:
                message = f"{where}: {shown(item)} is not supported by this release"
                raise ConfigError(message, hint=self.refused[item])
            if self.allowed and item not in self.allowed:
                raise invalid(where, item, expected)


def keys_of(kind: Any) -> dict[str, Key]:
    """Return the keys of a dataclass by its fields; other fields have none."""
    return {
        member.name: member.metadata["key"] for member in fields(kind) if "key" in member.metadata
    }


def dashed(name: str) -> str:
    """Return a key's name as flags are written: useNodeFeatureAPI becomes use-node-feature-api."""
    return re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def absolute(where: str, path: str) -> str:
    """Return a path as it is.

    Raises:
        ConfigError: if it is neither empty nor absolute.
    """
    if path and not path.startswith("/"):
        raise invalid(where, path, "an absolute path")
    return path


def address(where: str, text: str) -> tuple[str, int] | None:
    """Return the IP address and the port, None for ``off``.

    Names are not looked up: their address may change, and a look-up may take long.

    Raises:
        ConfigError: if it isn't an IP address with a port.
    """
    if text == "off":
        return None
    host_text, _colon, port = text.rpartition(":")
    bracketed = host_text.startswith("[") and host_text.endswith("]")
    host = host_text[1:-1] if bracketed else host_text
    try:
        good = bracketed == (ipaddress.ip_address(host).version == 6)
    except ValueError:
        good = False
    if not (good and re.fullmatch("[0-9]{1,5}", port) and 1 <= int(port) <= 65535):
        expected = "ADDRESS:PORT such as 127.0.0.1:9402 or [::1]:9402, or off"
        raise invalid(where, text, expected)
    return host, int(port)


def interval(where: str, text: str) -> float | None:
    """Return the seconds of a duration such as 1m30s, None for infinite.

    A number without a unit is nanoseconds, as in NVIDIA's own.

    Raises:
        ConfigError: if it isn't a duration from a second to a year.
    """
    if text == "infinite":
        return None
    if len(text) > LONGEST_INTERVAL:
        raise invalid(where, text, f"a duration of at most {LONGEST_INTERVAL} characters")
    if re.fullmatch("[0-9]+", text):
        seconds = int(text) / 1e9
    elif re.fullmatch(f"({INTERVAL})+", text):
        seconds = sum(float(count) * UNITS[unit] for count, unit in re.findall(INTERVAL, text))
    else:
        raise invalid(where, text, "a duration such as 60s or 1m30s, or infinite")
    if not 1 <= seconds <= 366 * 86400:
        raise invalid(where, text, "from 1s to a year (a number without a unit is nanoseconds)")
    return seconds
