# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The errors that a user can resolve."""

from __future__ import annotations

import contextlib
import typing as t

from .text.json_data import MISREAD
from .text.shown import cut, shown

OLD_LISTS = "the package lists are fetched"


class NodeError(Exception):
    """A foreseeable failure: what went wrong, why, and what to do next.

    Attributes:
        details: JSON-able facts, which become return values of the module.
        until: What a run does before that may resolve the error, which a plan can't know.
        stays: Whether nothing that a run does before resolves it.
    """

    def __init__(self, message: str, *, cause: str = "", hint: str = "", **details: t.Any) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.hint = hint
        self.details = details
        self.until = ""
        self.stays = False

    def __str__(self) -> str:
        text = self.message
        if self.cause:
            text = f"{text}: {self.cause}"
        if self.hint:
            text = f"{text.rstrip('.')}. Next step: {self.hint}"
        return text


def damaged(path: str, error: Exception, hint: str) -> NodeError:
    """Return the error of a file of ours that can't be parsed."""
    return NodeError(f"{path} is damaged", cause=cut(str(error)), hint=hint)


def not_ours(path: str, purpose: str) -> NodeError:
    """Return the error of a file that another program has written at the path of ours."""
    return NodeError(
        f"{path} is there, and gpu.node has not written it",
        cause=f"{purpose} would be written to a file of that name",
        hint="give the file another name, or remove it, then run again",
    )


def refuse_masked(unit: str, state: str, otherwise: str = "") -> None:
    """Refuse to start a unit that is masked. ``state`` is its UnitFileState in systemd."""
    if state.startswith("masked"):
        raise NodeError(f"{unit} is {state}, so it can't be started", hint=unmask(unit, otherwise))


def unmask(unit: str, otherwise: str = "") -> str:
    """Return the next step for a masked unit, with another one if there is one."""
    step = f"run systemctl unmask {unit}, then run again"
    return f"{step}; or {otherwise}" if otherwise else step


@contextlib.contextmanager
def readable(path: str, hint: str) -> t.Iterator[None]:
    """Turn errors of a with statement that parses a file of ours into a NodeError that it is damaged."""
    try:
        yield
    except (*MISREAD, RecursionError) as error:
        raise damaged(path, error, hint) from error


class InputError(NodeError):
    """A value given by the user that cannot be used."""

    @classmethod
    def of(cls, key: str, value: t.Any, expected: str) -> InputError:
        """Return the error of a key, with its value and the expected one."""
        key = cut(key)
        return cls(f"{key}: {shown(value)} is not valid", cause=f"expected {expected}", key=key)

    @classmethod
    def exposed(cls, key: str, path: str, kind: str, writer: str) -> InputError:
        """Return the error of a path that others than root may write to, with its kind and who may."""
        error = cls.of(key, path, f"{kind} that root alone may write to; {writer}")
        remedy = "chown root:root and chmod go-w what is named"
        error.hint = f"{remedy}, or choose another path, then run again"
        return error


def checked_timeout(seconds: int, option: str = "lock_timeout") -> int:
    """Return the seconds of an option.

    Raises:
        InputError: if they are negative.
    """
    if seconds < 0:
        raise InputError.of(option, seconds, "a number of seconds, not negative")
    return seconds
