# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is kept of certificates, and what one says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

FIELDS: Final = {
    "bundle": "ca.crt",
    "authority_key": "ca.key",
    "chain": "tls.crt",
    "key": "tls.key",
}


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: str
    key: str


@dataclass(frozen=True)
class Kept:
    """What the Secret holds, as PEM: authorities (the newest first), its key, the serving pair.

    ``published`` is the newest authority's fingerprint where the API server's configuration was seen
    with it, ``since`` when that was.
    """

    bundle: str = ""
    authority_key: str = ""
    chain: str = ""
    key: str = ""
    published: str = ""
    since: float = 0.0

    def with_authority(self, made: Pair, old: str) -> Kept:
        """Return it with a new authority before the old ones."""
        return replace(self, bundle=made.certificate + old, authority_key=made.key)

    def with_pair(self, made: Pair) -> Kept:
        """Return it with another serving pair."""
        return replace(self, chain=made.certificate, key=made.key)


@dataclass(frozen=True)
class Facts:
    """What a certificate says; times are seconds since 1970."""

    pem: str
    fingerprint: str
    own_id: str
    issuer_id: str
    since: float
    until: float
    names: tuple[str, ...] = ()

    def left(self, now: float) -> float:
        """Return how much of its time is left, from 1 to 0."""
        return max(self.until - now, 0.0) / (self.until - self.since)


Json = Mapping[str, Any]
