# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Lists of the API that are too long to be read at once."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_plugin._shared._cluster.machine.api import PAGE, TooLong, items

Json = dict[str, Any]


class Pods:
    """An API server with pods of these sizes, and a client that reads ``longest`` of an answer."""

    def __init__(self, sizes: list[int], longest: int) -> None:
        self.sizes, self.longest, self.limits = sizes, longest, list[int]()

    def ask(self, doing: str, method: str, path: str, *, query: Json, **_how: Any) -> Json:
        first, limit = int(query.get("continue", 0)), int(query["limit"])
        self.limits.append(limit)
        if sum(self.sizes[first : first + limit]) > self.longest:
            raise TooLong(doing, "the answer is longer than 8 MiB")
        more = {"continue": str(first + limit)} if first + limit < len(self.sizes) else {}
        return {"metadata": more, "items": list(range(len(self.sizes)))[first : first + limit]}


@pytest.mark.attack("templates-kept-for-ever")
def test_a_list_comes_in_smaller_parts_where_one_is_too_long() -> None:
    pods = Pods([1] * 300 + [90] * 30 + [1] * 300, 300)
    assert list(items(pods.ask, "listing", "/pods")) == list(range(630))
    assert pods.limits[0] == PAGE
    assert len(pods.limits) < 630


def test_an_object_that_is_too_long_alone_ends_the_list() -> None:
    pods = Pods([1, 301, 1], 300)
    with pytest.raises(TooLong):
        list(items(pods.ask, "listing", "/pods"))
    assert pods.limits[-1] == 1
