# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""How often an API server is asked that ends watches, or fails, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from gpu_cluster.webhook.slices import LONGEST_PAUSE, Slices
from gpu_plugin._shared._cluster.machine.api import GONE, ApiError

Json = dict[str, Any]


class Hasty:
    """An API whose watches end as soon as they have begun, or with an error."""

    def __init__(self, status: int | None) -> None:
        self.status = status

    def ask(self, *_words: Any, **_more: Any) -> Json:
        return {"items": [], "metadata": {"resourceVersion": "7"}}

    def events(self, *_words: Any, **_more: Any) -> Iterator[Json]:
        yield {}
        if self.status is not None:
            raise ApiError("watching", "no", status=self.status)


class Pauses:
    """Stands for the wait between two tries, of which there are a dozen."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.is_set: Callable[[], bool] = lambda: len(self.seconds) == 12

    def wait(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.mark.parametrize("status", [None, 0, 503, GONE])
def test_who_ends_watches_at_once_is_asked_less_and_less_often(status: int | None) -> None:
    followed = Slices(Hasty(status))  # type: ignore[arg-type]
    pauses = followed._ended = Pauses()  # type: ignore[assignment]
    followed.follow()
    assert sum(pauses.seconds) > 3 * LONGEST_PAUSE
    assert max(pauses.seconds) <= LONGEST_PAUSE
