# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates of our own: kept in a Secret that all replicas share, told to the API servers.

Each replica does the same; who writes the Secret or the configuration second is refused by its
version, and looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_plugin.cluster.errors import understood
from gpu_plugin.tools import logs

from ..told import Json, Told, again, decoded, encoded
from . import plan
from .issue import FIELDS, Kept, Pair

PUBLISHED: Final = "gpu.node/ca-published"  # the authority's fingerprint, and since when


class Managed:
    """Looks after the certificates of a Secret, for these names, whenever it is asked to."""

    def __init__(self, told: Told, secret: str, names: Sequence[str]) -> None:
        self._told, self._secret, self._names = told, secret, names

    def look(self, now: float) -> Pair:
        """Return what is to be served, with all that is due renewed. NodeError: it is tried again."""
        return again(lambda: self._look(now))

    def _look(self, now: float) -> Pair:
        secret, configuration = self._told.secret(self._secret), self._told.configuration()
        hooks = configuration.get("webhooks") or ()
        bundles = understood(
            "reading the CA bundle",
            lambda: [decoded(one["clientConfig"].get("caBundle")) for one in hooks],
        )
        before = _kept(secret)
        kept = plan.renewed(before, self._names, bundles, now)
        if kept != before:
            data = {name: getattr(kept, field) for field, name in FIELDS.items()}
            noted = {PUBLISHED: f"{kept.published} {kept.since:.0f}"}
            self._told.write(secret, data, noted)
            logs.info("the webhook's certificates were renewed", secret=self._secret)
        bundle = encoded(kept.bundle)
        self._told.tell(configuration, lambda client: {**client, "caBundle": bundle})
        return Pair(kept.chain, kept.key)


def _kept(secret: Json) -> Kept:
    """Return what a Secret holds; what can't be read counts as missing."""
    data = secret.get("data") or {}
    bundle, authority_key, chain, key = (decoded(data.get(name)) for name in FIELDS.values())
    kept = Kept(bundle, authority_key, chain, key)
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    published, _space, since = str(annotations.get(PUBLISHED, "")).partition(" ")
    try:
        return replace(kept, published=published, since=float(since))
    except ValueError:
        return kept
