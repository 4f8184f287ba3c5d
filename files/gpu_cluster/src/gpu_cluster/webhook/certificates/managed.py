# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates of our own: stored in a Secret that all replicas share, and trusted by the API servers.

Each replica does the same; one that writes the Secret or the configuration second is refused by its
version, and looks again.

At each moment API servers trust the authority of the served certificate. A new authority is known to them, beside
the old one, for a while before it signs; an old one is forgotten only when nothing that it signed is served any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_plugin._shared._cluster.machine.api import understood
from gpu_plugin.tools import logs

from ..shared import Json, SharedObjects, again, decoded, encoded
from . import issue
from .issue import FIELDS, Facts, Pair, SecretData

RENEW: Final = 1 / 3  # of its time, from which on a certificate is made anew
KNOWN: Final = 300.0  # seconds for which API servers have known an authority before it signs
FORGET: Final = 3600.0  # seconds for which each replica has served the new certificate
AUTHORITY_NAME: Final = "gpu-node-webhook-ca"
PUBLISHED: Final = "gpu.node/ca-published"  # the authority's fingerprint, and since when


class Managed:
    """Looks after the certificates of a Secret for these names."""

    def __init__(self, api: SharedObjects, secret: str, names: Sequence[str]) -> None:
        self._api, self._secret, self._names = api, secret, names

    def look(self, time: float) -> Pair:
        """Return the pair to serve, with all that is due renewed.

        Raises:
            NodeError: if the Secret or the configuration can't be used; it is tried again.
        """
        return again(lambda: self._look(time))

    def _look(self, time: float) -> Pair:
        secret, configuration = self._api.secret(self._secret), self._api.configuration()
        hooks = configuration.get("webhooks") or ()
        bundles = understood(
            "reading the CA bundle",
            lambda: [decoded(hook["clientConfig"].get("caBundle")) for hook in hooks],
        )
        before = _read_secret(secret)
        pairs = renewed(before, self._names, bundles, time)
        if pairs != before:
            data = {name: getattr(pairs, field) for field, name in FIELDS.items()}
            noted = {PUBLISHED: f"{pairs.published} {pairs.since:.0f}"}
            self._api.write(secret, data, noted)
            logs.info("the webhook's certificates were renewed", secret=self._secret)
        bundle = encoded(pairs.bundle)
        self._api.configure(configuration, lambda client: {**client, "caBundle": bundle})
        return Pair(pairs.chain, pairs.key)


def _read_secret(secret: Json) -> SecretData:
    """Return the data of a Secret; what can't be read counts as missing."""
    data = secret.get("data") or {}
    bundle, authority_key, chain, key = (decoded(data.get(name)) for name in FIELDS.values())
    pairs = SecretData(bundle, authority_key, chain, key)
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    published, _space, since = str(annotations.get(PUBLISHED, "")).partition(" ")
    try:
        return replace(pairs, published=published, since=float(since))
    except ValueError:
        return pairs


def renewed(
    pairs: SecretData, names: Sequence[str], configured: Sequence[str], time: float
) -> SecretData:
    """Return the data of the Secret with all that is due renewed.

    ``configured`` are the bundles that API servers have, as PEM.
    """
    known = issue.facts(pairs.bundle)
    usable = known and issue.belongs(pairs.authority_key, known[0])
    if not usable or known[0].left(time) <= RENEW:
        made = issue.authority(AUTHORITY_NAME, time)
        old = "".join(authority.pem for authority in known if authority.until > time)
        pairs = replace(pairs, bundle=made.certificate + old, authority_key=made.key)
    newest = issue.facts(pairs.bundle)[0]
    # Since when the API servers know the newest authority.
    if not configured or not all(newest.pem.strip() in bundle for bundle in configured):
        pairs = replace(pairs, published="", since=0.0)
    elif pairs.published != newest.fingerprint:
        pairs = replace(pairs, published=newest.fingerprint, since=time)
    pairs = _with_pair(pairs, newest, names, time)
    return _without_old(pairs, newest, time)


def served(pairs: SecretData) -> Facts | None:
    """Return the facts of the serving certificate, None if there is none that can be served."""
    certificates = issue.facts(pairs.chain)
    return certificates[0] if certificates and issue.belongs(pairs.key, certificates[0]) else None


def _with_pair(pairs: SecretData, newest: Facts, names: Sequence[str], time: float) -> SecretData:
    current = served(pairs)
    known = [fact.own_id for fact in issue.facts(pairs.bundle) if fact.until > time]
    trusted = current is not None and current.until > time and current.issuer_id in known
    if trusted and current is not None:
        may_sign = pairs.published == newest.fingerprint and time - pairs.since >= KNOWN
        by_newest = current.issuer_id == newest.own_id
        is_due = current.left(time) <= RENEW or not by_newest or set(current.names) != set(names)
        if not is_due or not (by_newest or may_sign):
            return pairs
    made = issue.serving(Pair(newest.pem, pairs.authority_key), names, time)
    return replace(pairs, chain=made.certificate, key=made.key)


def _without_old(pairs: SecretData, newest: Facts, time: float) -> SecretData:
    """Forget authorities that have expired, and those whose certificate no replica serves any more."""
    current = served(pairs)
    settled = (
        current is not None
        and current.issuer_id == newest.own_id
        and time - (current.since + issue.SKEW.total_seconds()) >= FORGET
    )
    old = [fact for fact in issue.facts(pairs.bundle)[1:] if fact.until > time and not settled]
    bundle = newest.pem + "".join(authority.pem for authority in old)
    return pairs if bundle == pairs.bundle else replace(pairs, bundle=bundle)
