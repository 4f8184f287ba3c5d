# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the Kubernetes API says when it does not do what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .._shared._base.errors import NodeError
from .._shared._base.text.json_data import MISREAD

MISSING, GONE, CONFLICT = 404, 410, 409
T = TypeVar("T")


class ApiError(NodeError):
    """The API did not do what it was asked; ``status`` is HTTP's, 0 where there was no answer.

    ``told`` is all that it said of it, where the cause is cut off.
    """

    def __init__(
        self, doing: str, cause: str, *, status: int = 0, hint: str = "", told: str = ""
    ) -> None:
        super().__init__(f"the Kubernetes API failed while {doing}", cause=cause, hint=hint)
        self.status, self.told = status, told


class TooLong(ApiError):
    """An answer is longer than is read: a smaller part of what it is about may not be."""


def misread(doing: str, error: Exception) -> ApiError:
    """Return the error of an answer that has another shape."""
    cause = f"an answer was not understood: {error.__class__.__name__} {error}"
    return ApiError(doing, cause)


def understood(doing: str, look: Callable[[], T]) -> T:
    """Return what is in an answer. ApiError: it has another shape."""
    try:
        return look()
    except MISREAD as error:
        raise misread(doing, error) from error


def if_there(ask: Callable[[], T]) -> T | None:
    """Return an answer, None where there is no such object. ApiError."""
    try:
        return ask()
    except ApiError as error:
        if error.status != MISSING:
            raise
        return None
