# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A transaction that is undone where it fails half-way."""

from __future__ import annotations

import typing as t

from ..._core.errors import NodeError
from ..._core.packages.package import Change, Package, Rollback, in_words, rollback
from ..._host.api import Host
from ..._host.packages.api import PackageManager
from .kernel import building

NEXT = "fix the cause, or ask for the version that is installed"


def carry_out(
    host: Host,
    manager: PackageManager,
    change: Change,
    *,
    before: t.Mapping[str, Package],
    replaces: bool,
) -> None:
    """Carry a transaction out; where it fails, put back the packages that were there ``before``.

    ``replaces`` says that a driver was there before. A first installation has nothing to go back to,
    and the next run finishes it; it finishes a killed one as well, of which nobody knows that it fails.
    """
    automatic = manager.automatic() if replaces else frozenset()
    try:
        with building(host, complete=replaces):
            manager.change(change)
    except NodeError as error:
        if not replaces or manager.interrupted():
            raise
        undo = rollback(before, manager.packages())
        if undo.packages or undo.remove:
            came_along = automatic & set(undo.packages)
            _put_back(host, manager, undo, error, before=before, automatic=came_along)
        if undo.holds:
            manager.hold(undo.holds)
        raise


def _put_back(
    host: Host,
    manager: PackageManager,
    undo: Rollback,
    error: NodeError,
    *,
    before: t.Mapping[str, Package],
    automatic: t.Collection[str],
) -> t.NoReturn:
    """Put the packages back that were there ``before``; those of ``automatic`` came as dependencies."""
    holds = frozenset(name for name, one in before.items() if one.held)
    change = Change(undo.packages, undo.remove, {}, holds)
    second: t.Optional[NodeError] = None
    try:
        with building(host):
            manager.restore(change, automatic)
    except NodeError as found:
        second = found
    left = rollback(before, manager.packages())
    again = [name for name in left.holds if name not in left.packages]
    if again:
        manager.hold(again)
    if second is None and not (left.packages or left.remove):
        raise NodeError(
            f"the new packages could not be installed, so the previous ones were restored: {_list(undo)}",
            cause=_without_advice(error),
            hint=f"{NEXT}, then run again",
            **{**error.details, "rolled_back": True},
        ) from error
    states = in_words(left, manager.packages())
    words = "; ".join(f"{name} is {state}" for name, state in states.items())
    raise NodeError(
        "the new packages could not be installed, and the previous ones could not be restored",
        cause=f"{_without_advice(error)}\nThen: {_without_advice(second)}\nNow: {words or 'all is back'}",
        hint=f"fix the second cause, then run on the node: {manager.by_hand(change)}",
        **{**error.details, "rolled_back": False, "packages_left": states},
    ) from error


def _without_advice(error: t.Optional[NodeError]) -> str:
    """Return an error without its advice, which is not that of the whole."""
    return str(NodeError(error.message, cause=error.cause)) if error else "no error was reported"


def _list(undo: Rollback) -> str:
    back = [f"{name} {version}" for name, version in sorted(undo.packages.items())]
    gone = [f"without {name}" for name in undo.remove]
    return ", ".join([*back, *gone]) or "none had changed yet"
