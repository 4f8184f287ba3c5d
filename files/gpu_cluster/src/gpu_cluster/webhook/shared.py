# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The objects that all replicas share: Secrets of the webhook, the configuration for API servers, and its path."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._cluster.machine.api import (
    CONFLICT,
    MISSING,
    ApiError,
    if_there,
    understood,
)
from gpu_plugin.cluster.access import Access

CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PATCH: Final = "application/json-patch+json"
INVALID: Final = 422  # a patch's test that fails
ATTEMPTS: Final = 5
RIGHTS: Final = "give the webhook's ServiceAccount get and update of this Secret"
HOOK_RIGHTS: Final = (
    "give the webhook's ServiceAccount get and patch of this MutatingWebhookConfiguration"
)
FIELD: Final = "paths"  # the newest one, a space, and the one before
SINCE: Final = "gpu.node/path-since"
PATTERN: Final = re.compile("[A-Za-z0-9_-]{1,128}")
BYTES: Final = 32
OWN: Final = re.compile(f"[0-9a-f]{{{2 * BYTES}}}")  # a path of a Service has no capitals
RENEW: Final = 900.0  # seconds
KNOWN: Final = 60.0  # seconds, in which each replica looks several times
Json = Mapping[str, Any]
T = TypeVar("T")


def again(look: Callable[[], T]) -> T:
    """Return the result of a look, which begins anew if another replica was quicker."""
    for _attempt in range(ATTEMPTS):
        try:
            return look()
        except ApiError as error:
            if error.status not in (CONFLICT, INVALID):
                raise
            last = error
    raise last


class SharedObjects:
    """The Secrets of a namespace, and the MutatingWebhookConfiguration of a name."""

    def __init__(self, access: Access, namespace: str, configuration: str) -> None:
        self._access, self._namespace, self._configuration = access, namespace, configuration

    def secret(self, name: str) -> Json:
        """Return a Secret.

        Raises:
            ApiError: if it can't be read.
        """
        doing = f"reading the Secret {name} in {self._namespace}"
        hint = "create it empty, as files/kubernetes has it: the webhook fills it"
        return self._read(doing, self._secret(name), RIGHTS, hint)

    def write(self, secret: Json, data: Mapping[str, str], notes: Mapping[str, str]) -> None:
        """Write texts and annotations into a Secret.

        Raises:
            ApiError: if it can't be written, or has changed since it was read.
        """
        metadata = dict(secret["metadata"])
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **notes}
        texts = {key: encoded(text) for key, text in data.items()}
        body = {**secret, "metadata": metadata, "data": {**(secret.get("data") or {}), **texts}}
        path, doing = self._secret(metadata["name"]), f"writing the Secret {metadata['name']}"
        self._access.ask(doing, "PUT", path, body, rights=RIGHTS)

    def configuration(self) -> Json:
        """Return the configuration.

        Raises:
            ApiError: if it can't be read.
        """
        doing = f"reading the MutatingWebhookConfiguration {self._configuration}"
        hint = "create it, as files/kubernetes has it: the webhook adds its CA bundle and its path"
        return self._read(doing, f"{CONFIGURATIONS}/{self._configuration}", HOOK_RIGHTS, hint)

    def configure(self, configuration: Json, change: Callable[[Json], Json]) -> None:
        """Replace each clientConfig by what ``change`` makes of it.

        Raises:
            ApiError: if the configuration can't be written, or has changed since it was read.
            NodeError: if it has no webhook.
        """
        hooks = configuration.get("webhooks") or ()
        if not hooks:
            raise NodeError(f"{self._configuration} has no webhook", hint="apply it again")
        clients = understood(
            "reading the webhooks", lambda: [hook["clientConfig"] for hook in hooks]
        )
        patch: list[Json] = [
            {"op": "replace", "path": f"/webhooks/{number}/clientConfig", "value": change(client)}
            for number, client in enumerate(clients)
            if change(client) != client
        ]
        if not patch:
            return
        version = configuration["metadata"]["resourceVersion"]
        patch.insert(0, {"op": "test", "path": "/metadata/resourceVersion", "value": version})
        path, doing = f"{CONFIGURATIONS}/{self._configuration}", f"telling {self._configuration}"
        self._access.ask(doing, "PATCH", path, patch, kind=PATCH, rights=HOOK_RIGHTS)

    def _secret(self, name: str) -> str:
        return f"/api/v1/namespaces/{self._namespace}/secrets/{name}"

    def _read(self, doing: str, path: str, rights: str, hint: str) -> Json:
        result: Json | None = if_there(lambda: self._access.ask(doing, "GET", path, rights=rights))
        if result is None:
            raise ApiError(doing, "it is not there", status=MISSING, hint=hint)
        return result


def encoded(text: str) -> str:
    """Return a text as Secrets and configurations have it."""
    return base64.b64encode(text.encode()).decode()


def decoded(data: Any) -> str:
    """Return the text of such data, empty if it can't be read."""
    try:
        return base64.b64decode(str(data or ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


class Path:
    """The path of reviews, which nobody can guess: only API servers know it, so that others ask in vain.

    It is stored in a Secret that all replicas share, and written into the configuration. Few may read either, but
    API servers show it to anybody who creates a pod while no webhook answers. So it is made anew all the time: each
    replica knows a new one for a while before API servers do, and the one before for a while afterwards.
    """

    def __init__(self, api: SharedObjects, secret: str) -> None:
        self._api, self._secret = api, secret

    def look(self, time: float) -> tuple[str, ...]:
        """Return the paths to serve reviews at, without a slash.

        Raises:
            NodeError: if the Secret or the configuration can't be used; it is tried again.
        """
        return again(lambda: self._look(time))

    def _look(self, time: float) -> tuple[str, ...]:
        secret = self._api.secret(self._secret)
        paths, since = _read_paths(secret)
        if not paths or not -KNOWN <= time - since < RENEW + KNOWN:  # clocks of replicas differ
            paths, since = [secrets.token_hex(BYTES), *paths[:1]], time
            self._api.write(secret, {FIELD: " ".join(paths)}, {SINCE: f"{since:.0f}"})
        asked = paths[-1] if time - since < KNOWN else paths[0]
        self._api.configure(self._api.configuration(), lambda client: leading(client, asked))
        return tuple(paths) if time - since < 2 * KNOWN else (paths[0],)


def _read_paths(secret: Json) -> tuple[list[str], float]:
    """Return the paths and the time of the newest one; what can't be read counts as missing."""
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
