# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a request is answered with. Knows bytes only; each answer ends its connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from ..tools import logs

LONGEST: Final = 8192  # bytes of a request, all its headers among them
TEXT: Final = "text/plain; charset=utf-8"
# Returns the status, the content type and the content.
Page = Callable[[], tuple[HTTPStatus, str, bytes]]


def is_whole(request: bytes) -> bool:
    """Tell whether the request can be answered: its headers are over, or there are too many."""
    return b"\r\n\r\n" in request or b"\n\n" in request or len(request) >= LONGEST


class Answers:
    """Answers requests with pages, which are known by their paths."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._failed: dict[str, str] = {}

    def to(self, request: bytes) -> bytes:
        """Return the answer to a whole request."""
        words = request.partition(b"\n")[0].decode("latin-1").split()
        if len(request) >= LONGEST:
            return _refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _refusal(HTTPStatus.BAD_REQUEST)
        if words[0] not in ("GET", "HEAD"):
            return _refusal(HTTPStatus.NOT_IMPLEMENTED)
        path = words[1].partition("?")[0]
        if path not in self._pages:
            return _refusal(HTTPStatus.NOT_FOUND)
        try:
            shown = self._pages[path]()
        except Exception as error:  # one page that fails takes no other with it
            self._complain(path, repr(error))
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)
        self._failed.pop(path, None)
        return _bytes(*shown, with_content=words[0] == "GET")

    def _complain(self, path: str, cause: str) -> None:
        """Say it once: whoever asks again and again shall not fill the log."""
        if self._failed.get(path) != cause:
            logs.error("a page could not be made", page=path, cause=cause)
        self._failed[path] = cause


def _refusal(status: HTTPStatus) -> bytes:
    return _bytes(status, TEXT, f"{status.phrase.lower()}\n".encode(), with_content=True)


def _bytes(status: HTTPStatus, kind: str, content: bytes, *, with_content: bool) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {kind}\r\n"
        f"Content-Length: {len(content)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + (content if with_content else b"")
