# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Webhooks, and how an API server asks them about an object."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import urllib3

from tests.fakes.kubernetes.standin.admission import cel
from tests.fakes.kubernetes.standin.admission.way import POLICIES, Way
from tests.fakes.kubernetes.standin.answers import Refused
from tests.fakes.kubernetes.standin.patches import applied
from tests.fakes.kubernetes.standin.resources import RESOURCES
from tests.fakes.kubernetes.standin.selectors import at, matches
from tests.fakes.kubernetes.standin.store import Store

Json = dict[str, Any]


def changed(way: Way, store: Store) -> Json | None:
    """Return the object as all webhooks want it that are asked about it. Refused."""
    found = way.now
    for configuration in store.of(RESOURCES[POLICIES, "mutatingwebhookconfigurations"]):
        for hook in configuration.get("webhooks") or ():
            if _calls(replace(way, now=found), hook, store):
                found = _called(hook, replace(way, now=found))
    return found


def _calls(way: Way, hook: Json, store: Store) -> bool:
    """Return whether a webhook is asked about a request."""
    if not any(way.matches(rule) for rule in hook.get("rules") or ()):
        return False
    if not way.within(hook.get("namespaceSelector"), store):
        return False
    if not matches(at(way.now, "metadata.labels") or {}, hook.get("objectSelector")):
        return False
    variables = way.variables()
    return all(cel.value(one["expression"], variables) for one in hook.get("matchConditions") or ())


def _called(hook: Json, way: Way) -> Json | None:
    """Return the object as a webhook wants it. Refused: it does not, or does not answer where it has to."""
    try:
        answer = _answer(hook, way)
    except (OSError, urllib3.exceptions.HTTPError) as error:
        if hook.get("failurePolicy") == "Ignore":
            return way.now
        raise _failed(hook, error) from error
    if not answer["allowed"]:
        said = answer.get("status") or {}
        code = int(said.get("code") or 400)
        text = f'admission webhook "{hook["name"]}" denied the request: {said.get("message")}'
        raise Refused(code, text, None, said.get("reason") or "")
    patch = answer.get("patch")
    return applied(way.now, json.loads(base64.b64decode(patch))) if patch else way.now


def _answer(hook: Json, way: Way) -> Json:
    bundle = base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode()
    pool = urllib3.PoolManager(ca_cert_data=bundle or None, retries=False)
    seconds = hook.get("timeoutSeconds", 10)
    if "service" in hook["clientConfig"]:
        raise OSError(f'service "{hook["clientConfig"]["service"]["name"]}" not found')
    answer = pool.request(
        "POST", f"{_url(hook)}?timeout={seconds}s", json=review(way), timeout=seconds
    )
    found: Json = answer.json()["response"]
    return found


def review(way: Way) -> Json:
    """Return what a webhook is asked."""
    api, resource = way.asked.resource.api, way.asked.resource
    group, _slash, version = api.rpartition("/")
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": group, "version": version, "kind": resource.kind},
        "resource": {"group": group, "version": version, "resource": resource.plural},
        "name": way.name,
        "namespace": way.asked.namespace,
        "operation": way.operation,
        "userInfo": {"username": way.user.name, "groups": list(way.user.groups)},
        "object": way.now,
        "oldObject": way.before,
        "dryRun": way.dry,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def _url(hook: Json) -> str:
    """Return where a webhook is. Services lead nowhere here."""
    config = hook["clientConfig"]
    if service := config.get("service"):
        host = f"{service['name']}.{service['namespace']}.svc:{service.get('port', 443)}"
        return f"https://{host}{service.get('path', '/')}"
    return str(config["url"])


def _failed(hook: Json, error: Exception) -> Refused:
    url = _url(hook)
    where = urlsplit(url).netloc
    post = f'Post "{url}?timeout={hook.get("timeoutSeconds", 10)}s"'
    why = str(error)
    if "refused" in why:
        why = f"dial tcp {where}: connect: connection refused"
    elif isinstance(error, urllib3.exceptions.SSLError):
        why = f"tls: failed to verify certificate: x509: {why}"
    text = f'failed calling webhook "{hook["name"]}": failed to call webhook: {post}: {why}'
    said = f"Internal error occurred: {text}"
    return Refused(500, said, {"causes": [{"message": text}]})
