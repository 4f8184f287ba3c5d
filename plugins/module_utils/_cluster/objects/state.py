# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects of a cluster in manifests: identity, owner, rollout of Deployments, and data of Secrets. Pure."""

from __future__ import annotations

import base64
import binascii
import typing as t

from ..._base.errors import InputError
from ..._base.text.shown import cut

HIDDEN = "(hidden)"
HOLD = ("data", "stringData")
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # it has the data again
SHORTEST = 6  # characters: what is shorter is in many a text that has nothing to do with it

DEPLOYMENT = "Deployment"
HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
PATIENCE = 600  # seconds, unless a Deployment has its own
NOBODY = ({"name": "not-yet", "expression": "false"},)
COUNTS = ("observedGeneration", "replicas", "updatedReplicas", "availableReplicas")
MOST_CAUSES = 3

Json = t.Dict[str, t.Any]
# What the server writes, and no manifest has.
WRITTEN = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")
DEFAULT = "default"


class Ref(t.NamedTuple):
    """The identity of an object; ``namespace`` is empty if the manifest has none."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


def flat(objects: t.Sequence[t.Any], key: str = "objects") -> t.Dict[Ref, Json]:
    """Return all objects, those in Lists too; of two of one name the later counts.

    Raises:
        InputError: if one is no object of Kubernetes.
    """
    result: t.Dict[Ref, Json] = {}
    for at, item in enumerate(objects):
        path = f"{key}[{at}]"
        if isinstance(item, dict) and item.get("kind") == "List":
            result.update(flat(item.get("items") or [], f"{path}.items"))
        else:
            _check(path, item)
            result[ref(item)] = item
    return result


def _check(path: str, item: t.Any) -> None:
    if not isinstance(item, dict):
        raise InputError.of(path, item, "an object of Kubernetes")
    for name in ("apiVersion", "kind"):
        if not isinstance(item.get(name), str) or not item[name]:
            raise InputError.of(f"{path}.{name}", item.get(name), "a text such as v1 or Secret")
    meta = item.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise InputError.of(f"{path}.metadata", hidden(meta, True), "a mapping with a name")


def ref(item: Json) -> Ref:
    """Return the identity of an object."""
    meta = item["metadata"]
    return Ref(item["apiVersion"], item["kind"], meta["name"], meta.get("namespace") or "")


def wishes(item: t.Optional[Json]) -> t.Optional[Json]:
    """Return an object without what the server writes, and without the data of a Secret."""
    return t.cast(t.Optional[Json], hidden(_plain(item)))


def is_same(left: t.Optional[Json], right: t.Optional[Json]) -> bool:
    """Return whether two states of an object are the same to a user."""
    return _plain(left) == _plain(right)


def _plain(item: t.Optional[Json]) -> t.Optional[Json]:
    if item is None:
        return None
    meta = {key: value for key, value in item.get("metadata", {}).items() if key not in WRITTEN}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": meta}


def is_ours(live: Json, manager: str) -> bool:
    """Return whether a field manager has applied an object, by its managedFields."""
    managers = live.get("metadata", {}).get("managedFields") or ()
    return any(
        entry.get("manager") == manager and entry.get("operation") == "Apply" for entry in managers
    )


def is_terminating(live: Json) -> bool:
    """Return whether an object is being deleted already."""
    return bool(live.get("metadata", {}).get("deletionTimestamp"))


def group_path(api_version: str) -> str:
    """Return the path where the kinds of an API version are listed."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def resource_of(listed: Json, kind: str) -> t.Optional[t.Tuple[str, bool]]:
    """Return a kind's name in paths, and whether it is in namespaces; None if it is not served."""
    for resource in listed.get("resources") or ():
        if resource.get("kind") == kind and "/" not in resource.get("name", "/"):
            return str(resource["name"]), bool(resource.get("namespaced"))
    return None


def asks_nobody(hook: Json) -> Json:
    """Return a webhook's configuration with conditions that match no object, so that it is never called."""
    webhooks = hook.get("webhooks") or ()
    inert = [{**webhook, "matchConditions": list(NOBODY)} for webhook in webhooks]
    return {**hook, "webhooks": inert}


def progress(deployment: Json) -> t.Tuple[int, ...]:
    """Return the progress of a Deployment's rollout: its COUNTS."""
    status = deployment.get("status") or {}
    return tuple(int(status.get(count) or 0) for count in COUNTS)


def rolled_out(deployment: Json) -> bool:
    """Return whether all pods of a Deployment are of its template, and available."""
    seen, there, updated, available = progress(deployment)
    replicas = deployment["spec"].get("replicas", 1)
    known = seen >= int(deployment["metadata"].get("generation") or 0)
    return known and updated >= replicas and there <= updated <= available


def patience(deployment: Json) -> int:
    """Return for how many seconds the rollout of a Deployment may make no progress."""
    return int(deployment["spec"].get("progressDeadlineSeconds") or PATIENCE)


def selector(deployment: Json) -> t.Tuple[str, str]:
    """Return one of the labels of a Deployment's pods."""
    labels = deployment["spec"]["selector"].get("matchLabels") or {"": ""}
    return t.cast(t.Tuple[str, str], next(iter(labels.items())))


def causes(pods: t.Iterable[Json]) -> str:
    """Return why pods wait, as the kubelet and the scheduler report it; empty if they don't."""
    messages: t.Dict[str, None] = {}  # in order, each once
    for status in (pod.get("status") or {} for pod in pods):
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                reason, message = condition.get("reason", ""), condition.get("message", "")
                messages[cut(f"{reason}: {message}")] = None
        for container_status in status.get("containerStatuses") or ():
            waiting = (container_status.get("state") or {}).get("waiting") or {}
            ended = (container_status.get("lastState") or {}).get("terminated") or {}
            if reason := waiting.get("reason"):
                message = ended.get("message") or waiting.get("message", "")
                messages[cut(f"{reason}: {message}")] = None
    return "; ".join(list(messages)[:MOST_CAUSES])


def hidden(value: t.Any, secret: bool = False) -> t.Any:
    """Return objects, in lists or not, without the data of Secrets; ``secret`` is whether they are in one."""
    if isinstance(value, dict):
        secret = secret or _is_secret(value)
        result = {key: hidden(item, secret) for key, item in value.items()}
        for key in (name for name in (*HOLD, APPLIED) if secret and name in value):
            data = value[key]
            result[key] = dict.fromkeys(data, HIDDEN) if isinstance(data, dict) else HIDDEN
        return result
    return [hidden(item, secret) for item in value] if isinstance(value, list) else value


def values(value: t.Any, secret: bool = False) -> t.Set[str]:
    """Return the texts in the data of Secrets, plain and in base64, but for short ones."""
    if isinstance(value, list):
        return set().union(*(values(item, secret) for item in value))
    if not isinstance(value, dict):
        return set()
    secret = secret or _is_secret(value)
    texts = set()
    for key, item in value.items():
        if secret and key in HOLD and isinstance(item, dict):
            texts |= {text for data in item.values() for text in _both(str(data), key)}
        else:
            texts |= values(item, secret)
    return {text for text in texts if len(text) >= SHORTEST}


def _is_secret(value: t.Mapping[str, t.Any]) -> bool:
    return str(value.get("kind")).startswith("Secret")  # or a SecretList


def _both(text: str, key: str) -> t.Iterator[str]:
    """Yield a text as it is, and in the encoding of the other key."""
    yield text
    if key == "stringData":
        yield base64.b64encode(text.encode()).decode()
        return
    try:
        yield base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):  # no base64, or no text in it
        return
