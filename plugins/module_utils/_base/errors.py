# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The errors that a user can do something about."""

from __future__ import annotations

import contextlib
import typing as t

from .text.json_data import MISREAD
from .text.shown import cut, shown

OLD_LISTS = "the package lists are fetched"


class NodeError(Exception):
    """A foreseeable failure: what went wrong, why, and what to do next.

    ``details`` are JSON-able facts for machines; they become return values of the module. ``until`` says what a run
    does before, where that may take the error away and a look at the node can't know, ``stays`` that nothing does.
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
    """Return the error where a file of ours can't be understood."""
    return NodeError(f"{path} is damaged", cause=cut(str(error)), hint=hint)


def not_ours(path: str, purpose: str) -> NodeError:
    """Return the error if something else has written a file where ours is to be."""
    return NodeError(
        f"{path} is there, and gpu.node has not written it",
        cause=f"{purpose} would be written to a file of that name",
        hint="give the file another name, or remove it, then run again",
    )


def refuse_masked(unit: str, state: str, otherwise: str = "") -> None:
    """Refuse to start a unit that somebody has switched off. ``state`` is its UnitFileState in systemd."""
    if state.startswith("masked"):
        raise NodeError(f"{unit} is {state}, so it can't be started", hint=unmask(unit, otherwise))


def unmask(unit: str, otherwise: str = "") -> str:
    """Return the next step for a unit that is masked, or what to ask for instead."""
    ways = [f"run systemctl unmask {unit}, then run again", *filter(None, [otherwise])]
    return "; or ".join(ways)


@contextlib.contextmanager
def readable(path: str, hint: str) -> t.Iterator[None]:
    """Call a file of ours damaged where what is done in a with statement shows that it can't be understood."""
    try:
        yield
    except (*MISREAD, RecursionError) as error:
        raise damaged(path, error, hint) from error


class InputError(NodeError):
    """A value given by the user that cannot be used."""

    @classmethod
    def of(cls, key: str, value: t.Any, expected: str) -> InputError:
        """Name the key, the value that was found, and what was expected."""
        key = cut(key)
        return cls(f"{key}: {shown(value)} is not valid", cause=f"expected {expected}", key=key)

    @classmethod
    def exposed(cls, key: str, path: str, kind: str, writer: str) -> InputError:
        """Refuse a path where not only root may write: the kind of path that it is, and who else may."""
        error = cls.of(key, path, f"{kind} that root alone may write to; {writer}")
        error.hint = (
            "chown root:root and chmod go-w what is named, or choose another path, then run again"
        )
        return error


def checked_timeout(seconds: int, option: str = "lock_timeout") -> int:
    """Return the value of an option; InputError where it is no time."""
    if seconds < 0:
        raise InputError.of(option, seconds, "a number of seconds, not negative")
    return seconds
