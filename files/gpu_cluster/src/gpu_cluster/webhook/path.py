# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The path of reviews, which nobody can guess: API servers are told it, so that others ask in vain.

It is kept in a Secret that all replicas share, and written into the configuration. Few may read either, but
API servers show it to whoever creates a pod while no webhook answers. So it is made anew all the time: each
replica knows a new one for a while before API servers do, and the one before for a while afterwards.
"""

from __future__ import annotations

import re
import secrets
from typing import Final
from urllib.parse import urlsplit

from .told import Json, Told, again, decoded

FIELD: Final = "paths"  # the newest one, a space, and the one before
SINCE: Final = "gpu.node/path-since"
PATTERN: Final = re.compile("[A-Za-z0-9_-]{1,128}")
OWN: Final = re.compile("[A-Za-z0-9_-]{43}")  # 256 bits
RENEW: Final = 900.0  # seconds
KNOWN: Final = 60.0  # seconds, in which each replica looks several times


class Path:
    """Looks after the path whenever it is asked to."""

    def __init__(self, told: Told, secret: str) -> None:
        self._told, self._secret = told, secret

    def look(self, now: float) -> tuple[str, ...]:
        """Return the paths to be heard at, without a slash. NodeError: it is tried again."""
        return again(lambda: self._look(now))

    def _look(self, now: float) -> tuple[str, ...]:
        secret = self._told.secret(self._secret)
        paths, since = _kept(secret)
        if not paths or not -KNOWN <= now - since < RENEW + KNOWN:  # clocks of replicas differ
            paths, since = [secrets.token_urlsafe(), *paths[:1]], now
            self._told.write(secret, {FIELD: " ".join(paths)}, {SINCE: f"{since:.0f}"})
        asked = paths[-1] if now - since < KNOWN else paths[0]
        self._told.tell(self._told.configuration(), lambda client: leading(client, asked))
        return tuple(paths) if now - since < 2 * KNOWN else (paths[0],)


def _kept(secret: Json) -> tuple[list[str], float]:
    """Return the paths and when the newest one was made; what can't be read counts as missing."""
    paths = decoded((secret.get("data") or {}).get(FIELD)).split(" ")
    since = str(((secret.get("metadata") or {}).get("annotations") or {}).get(SINCE))
    if len(paths) > 2 or not all(map(OWN.fullmatch, paths)):
        return [], 0.0
    return paths, float(since) if since.isdecimal() else 0.0


def leading(client: Json, path: str) -> Json:
    """Return a clientConfig that leads to a path, of its Service or of its address."""
    if "service" in client:
        return {**client, "service": {**client["service"], "path": f"/{path}"}}
    return {**client, "url": urlsplit(str(client.get("url")))._replace(path=f"/{path}").geturl()}
