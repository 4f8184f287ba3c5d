# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Downloads, and copies of files on the node, with their checksums."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import typing as t
import urllib.error

from .._base.errors import NodeError
from . import writers

# Several times the size of NVIDIA's installers: an endless answer of a mirror must not fill the node's disk.
MAX_BYTES = 4 << 30
MAX_SECONDS = 3600.0


def _opened(address: str) -> t.Any:
    """Return the answer of a server. HTTP is imported here, as it is a tenth of a module's imports and rarely used."""
    from ansible.module_utils.urls import open_url

    return open_url(address, timeout=60.0)


def bring(location: str, target: str, sha256: str, *, mode: int = 0o700) -> None:
    """Copy a file from a path or an http(s) address to ``target``.

    Raises:
        NodeError: if it can't be read or its SHA-256 differs; ``target`` is then unchanged.
    """
    os.makedirs(os.path.dirname(target), exist_ok=True)
    try:
        with writers.replacing(target, durable=False) as stream:
            digest = hashlib.sha256()
            local = location.startswith("/")
            with open(location, "rb") if local else _opened(location) as source:
                for chunk in _chunks(source, location, MAX_BYTES):
                    digest.update(chunk)
                    stream.write(chunk)
            if digest.hexdigest() != sha256:
                raise NodeError(
                    f"{location} is not the file that is meant",
                    cause=f"its SHA-256 is {digest.hexdigest()}, expected {sha256}",
                    hint="correct the checksum, or get the file from its publisher again",
                )
            os.fchmod(stream.fileno(), mode)
    except (OSError, urllib.error.URLError, http.client.HTTPException) as error:
        refusal = f"cannot bring {location} to {target}"
        hint = "check the address and the free space on the node, then run again"
        raise NodeError(refusal, cause=str(error), hint=hint) from error


def fetched(address: str, most: int, hint: str) -> str:
    """Return what is at an address with http, https or file, as text with surrogate escapes.

    Raises:
        NodeError: if it can't be read, or has more than ``most`` bytes.
    """
    try:
        with _opened(address) as source:
            data = b"".join(_chunks(source, address, most))
    except (OSError, urllib.error.URLError, http.client.HTTPException) as error:
        raise NodeError(f"cannot fetch {address}", cause=str(error), hint=hint) from error
    return data.decode("utf-8", "surrogateescape")


def _chunks(source: t.Any, location: str, most: int) -> t.Iterator[bytes]:
    """Yield the data as it arrives, unless it is too much or takes too long."""
    length = (getattr(source, "headers", None) or {}).get("Content-Length") or ""
    if len(length) > 20 or (length.isdigit() and int(length) > most):
        raise _endless(location, f"it has {length[:20]} bytes, more than {most}")
    begun, size = time.monotonic(), 0
    while True:
        # Not read(), which waits until the whole chunk is there.
        chunk = source.read1(1 << 20)
        if not chunk:
            return
        size += len(chunk)
        if size > most:
            raise _endless(location, f"it has more than {most} bytes")
        if time.monotonic() - begun > MAX_SECONDS:
            raise _endless(location, f"it has taken longer than {MAX_SECONDS:g} s")
        yield chunk


def _endless(location: str, reason: str) -> NodeError:
    return NodeError(
        f"{location} is given up: {reason}",
        cause="nothing of NVIDIA's is like that, and it would fill the node's disk",
        hint="check what answers at the address, or bring the file to the node and name its path",
    )
