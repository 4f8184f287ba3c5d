# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Big files that come to the node, from the network or its own disk, and are what they should be."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import urllib.error

from ansible.module_utils.urls import open_url

from .._core.errors import NodeError

CHUNK = 1 << 20
TIMEOUT_SECONDS = 60.0


def bring(location: str, target: str, sha256: str) -> None:
    """Copy a file from a path or an http(s) address to ``target``, mode 0700.

    NodeError where it cannot be had, or where its SHA-256 differs; then ``target`` is as it was.
    """
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(target)}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            digest = hashlib.sha256()
            with _opened(location) as source:
                while True:
                    chunk = source.read(CHUNK)
                    if not chunk:
                        break
                    digest.update(chunk)
                    stream.write(chunk)
        if digest.hexdigest() != sha256:
            raise NodeError(
                f"{location} is not the file that is meant",
                cause=f"its SHA-256 is {digest.hexdigest()}, expected {sha256}",
                hint="correct the checksum, or get the file from its publisher again",
            )
        os.chmod(temporary, 0o700)
        os.replace(temporary, target)
    except (OSError, urllib.error.URLError) as error:
        raise NodeError(
            f"cannot bring {location} to {target}",
            cause=str(error),
            hint="check the address and the room on the node, then run again",
        ) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _opened(location: str):  # type: ignore[no-untyped-def]
    if location.startswith("/"):
        return open(location, "rb")
    return open_url(location, timeout=TIMEOUT_SECONDS)
