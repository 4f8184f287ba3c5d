# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Answers of the API, as they come over the wire."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from gpu_plugin._shared._cluster.machine import api
from gpu_plugin._shared._cluster.machine.api import TooLong
from urllib3.response import HTTPResponse


class Trickle(HTTPResponse):
    """An answer of which a byte comes each half second: no wait for the next one takes too long."""

    now = 0.0

    def read1(self, amt: int | None = None, decode_content: bool | None = None) -> bytes:
        self.now += 0.5
        return b"x"

    def read(
        self,
        amt: int | None = None,
        decode_content: bool | None = None,
        cache_content: bool = False,
    ) -> bytes:
        return b"".join(self.read1() for _byte in range(amt or 1))


def test_an_answer_has_a_deadline_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Trickle(io.BytesIO())
    monkeypatch.setattr(api, "time", SimpleNamespace(monotonic=lambda: answer.now))
    with pytest.raises(TimeoutError, match="has not ended within 30 seconds"):
        api.read_body(answer)
    assert answer.now <= api.ANSWER + 1


def test_an_answer_that_is_too_long_is_told_from_others() -> None:
    with pytest.raises(OverflowError, match="longer than 1 MiB") as told:
        api.read_body(HTTPResponse(io.BytesIO(b"x" * (1 << 21)), preload_content=False), 1 << 20)
    assert isinstance(api.api_error("listing", told.value), TooLong)
