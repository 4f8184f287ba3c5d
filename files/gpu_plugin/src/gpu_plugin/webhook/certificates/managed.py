# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates of our own: kept in a Secret that all replicas share, told to the API servers.

Each replica does the same; who writes the Secret or the configuration second is refused by its
version, and looks again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..._shared._core.errors import NodeError
from ...cluster.access import Access
from ...cluster.errors import CONFLICT, MISSING, ApiError, understood
from ...tools import logs
from . import plan
from .values import FIELDS, Kept, Pair

PUBLISHED: Final = "gpu.node/ca-published"  # the authority's fingerprint, and since when
CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PATCH: Final = "application/json-patch+json"
ATTEMPTS: Final = 5
RIGHTS: Final = "give the webhook's ServiceAccount get and update of this Secret"
HOOK_RIGHTS: Final = (
    "give the webhook's ServiceAccount get and patch of this MutatingWebhookConfiguration"
)
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Places:
    """Where certificates are kept, and who is told of them."""

    namespace: str
    secret: str
    configuration: str
    names: tuple[str, ...]


class Managed:
    """Looks after the certificates whenever it is asked to."""

    def __init__(self, access: Access, places: Places) -> None:
        self._access, self._places = access, places

    def look(self, now: float) -> Pair:
        """Return what is to be served, with all that is due renewed. NodeError: it is tried again."""
        for _attempt in range(ATTEMPTS):
            try:
                return self._look(now)
            except ApiError as error:
                if error.status not in (CONFLICT, 422):  # a patch's test that fails is 422
                    raise
                last = error
        raise last

    def _look(self, now: float) -> Pair:
        secret, configuration = self._secret(), self._configuration()
        before = _kept(secret)
        kept = plan.renewed(before, self._places.names, _bundles(configuration), now)
        if kept != before:
            self._write(secret, kept)
        self._tell(configuration, kept.bundle)
        return Pair(kept.chain, kept.key)

    def _secret(self) -> Json:
        doing = f"reading the Secret {self._places.secret} in {self._places.namespace}"
        hint = "create it empty, as files/kubernetes has it: the webhook fills it"
        found: Json = self._found(doing, self._secret_path(), RIGHTS, hint)
        return found

    def _configuration(self) -> Json:
        name = self._places.configuration
        doing, path = f"reading the MutatingWebhookConfiguration {name}", f"{CONFIGURATIONS}/{name}"
        hint = "create it, as files/kubernetes has it: the webhook adds the CA bundle"
        return self._found(doing, path, HOOK_RIGHTS, hint)

    def _found(self, doing: str, path: str, rights: str, hint: str) -> Json:
        try:
            found: Json = self._access.ask(doing, "GET", path, rights=rights)
        except ApiError as error:
            if error.status == MISSING:
                raise ApiError(doing, "it is not there", status=MISSING, hint=hint) from error
            raise
        return found

    def _secret_path(self) -> str:
        return f"/api/v1/namespaces/{self._places.namespace}/secrets/{self._places.secret}"

    def _write(self, secret: Json, kept: Kept) -> None:
        doing = f"writing the Secret {self._places.secret}"
        data = {name: _encoded(getattr(kept, field)) for field, name in FIELDS.items()}
        metadata = dict(secret["metadata"])
        noted = {PUBLISHED: f"{kept.published} {kept.since:.0f}"}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **noted}
        body = {**secret, "metadata": metadata, "data": {**(secret.get("data") or {}), **data}}
        self._access.ask(doing, "PUT", self._secret_path(), body, rights=RIGHTS)
        logs.info("the webhook's certificates were renewed", secret=self._places.secret)

    def _tell(self, configuration: Json, bundle: str) -> None:
        """Let the API servers know all authorities, where they don't."""
        hooks = configuration.get("webhooks") or ()
        if all(one == bundle for one in _bundles(configuration)) and hooks:
            return
        if not hooks:
            raise NodeError(f"{self._places.configuration} has no webhook", hint="apply it again")
        version = configuration["metadata"]["resourceVersion"]
        patch: list[Json] = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
        patch += [
            {
                "op": "add",
                "path": f"/webhooks/{number}/clientConfig/caBundle",
                "value": _encoded(bundle),
            }
            for number in range(len(hooks))
        ]
        path = f"{CONFIGURATIONS}/{self._places.configuration}"
        doing = f"telling {self._places.configuration} the CA bundle"
        self._access.ask(doing, "PATCH", path, patch, kind=PATCH, rights=HOOK_RIGHTS)  # type: ignore[arg-type]


def _kept(secret: Json) -> Kept:
    """Return what a Secret holds; what can't be read counts as missing."""
    data = secret.get("data") or {}
    bundle, authority_key, chain, key = (_decoded(data.get(name)) for name in FIELDS.values())
    kept = Kept(bundle, authority_key, chain, key)
    annotations = (secret.get("metadata") or {}).get("annotations") or {}
    published, _space, since = str(annotations.get(PUBLISHED, "")).partition(" ")
    try:
        return replace(kept, published=published, since=float(since))
    except ValueError:
        return kept


def _bundles(configuration: Json) -> Sequence[str]:
    hooks = configuration.get("webhooks") or ()
    return understood(
        "reading the CA bundle",
        lambda: [_decoded(one["clientConfig"].get("caBundle")) for one in hooks],
    )


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _decoded(data: Any) -> str:
    try:
        return base64.b64decode(str(data or ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
