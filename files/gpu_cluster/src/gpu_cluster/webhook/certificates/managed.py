# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates of our own: kept in a Secret that all replicas share, told to the API servers.

Each replica does the same; who writes the Secret or the configuration second is refused by its
version, and looks again.

At each moment API servers know who signed what is served. A new authority is known to them, beside the old
one, for a while before it signs; an old one is forgotten only when nothing that it signed is served any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_plugin._shared._cluster.machine.api import understood
from gpu_plugin.tools import logs

from ..told import Json, Told, again, decoded, encoded
from . import issue
from .issue import FIELDS, Facts, Kept, Pair

RENEW: Final = 1 / 3  # of its time, from which on a certificate is made anew
KNOWN: Final = 300.0  # seconds for which API servers have known an authority before it signs
FORGET: Final = 3600.0  # seconds for which each replica has served the new certificate
AUTHORITY_NAME: Final = "gpu-node-webhook-ca"
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
            lambda: [decoded(hook["clientConfig"].get("caBundle")) for hook in hooks],
        )
        before = _kept(secret)
        kept = renewed(before, self._names, bundles, now)
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


def renewed(kept: Kept, names: Sequence[str], configured: Sequence[str], now: float) -> Kept:
    """Return what is to be kept. ``configured`` are the bundles that API servers have, as PEM."""
    kept = _with_authority(kept, now)
    newest = issue.facts(kept.bundle)[0]
    kept = _noted(kept, newest, configured, now)
    kept = _with_pair(kept, newest, names, now)
    return _without_old(kept, newest, now)


def served(kept: Kept) -> Facts | None:
    """Return what the serving certificate says, None where there is none that can be served."""
    found = issue.facts(kept.chain)
    return found[0] if found and issue.belongs(kept.key, found[0]) else None


def _with_authority(kept: Kept, now: float) -> Kept:
    known = issue.facts(kept.bundle)
    if known and known[0].left(now) > RENEW and issue.belongs(kept.authority_key, known[0]):
        return kept
    made = issue.authority(AUTHORITY_NAME, now)
    old = "".join(one.pem for one in known if one.until > now)
    return replace(kept, bundle=made.certificate + old, authority_key=made.key)


def _noted(kept: Kept, newest: Facts, configured: Sequence[str], now: float) -> Kept:
    """Note since when the API servers know the newest authority."""
    known = bool(configured) and all(newest.pem.strip() in one for one in configured)
    if not known:
        return replace(kept, published="", since=0.0)
    if kept.published == newest.fingerprint:
        return kept
    return replace(kept, published=newest.fingerprint, since=now)


def _with_pair(kept: Kept, newest: Facts, names: Sequence[str], now: float) -> Kept:
    current = served(kept)
    known = [fact.own_id for fact in issue.facts(kept.bundle) if fact.until > now]
    trusted = current is not None and current.until > now and current.issuer_id in known
    if trusted and current is not None:
        may_sign = kept.published == newest.fingerprint and now - kept.since >= KNOWN
        by_newest = current.issuer_id == newest.own_id
        wanted = current.left(now) <= RENEW or not by_newest or set(current.names) != set(names)
        if not wanted or not (by_newest or may_sign):
            return kept
    made = issue.serving(Pair(newest.pem, kept.authority_key), names, now)
    return replace(kept, chain=made.certificate, key=made.key)


def _without_old(kept: Kept, newest: Facts, now: float) -> Kept:
    """Forget authorities that are over, and those whose certificate nobody serves any more."""
    current = served(kept)
    settled = (
        current is not None
        and current.issuer_id == newest.own_id
        and now - (current.since + issue.SKEW.total_seconds()) >= FORGET
    )
    old = [fact for fact in issue.facts(kept.bundle)[1:] if fact.until > now and not settled]
    bundle = newest.pem + "".join(one.pem for one in old)
    return kept if bundle == kept.bundle else replace(kept, bundle=bundle)
