# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Objects of a cluster as manifests have them: which are wanted, whose they are, and how far Deployments are. Pure."""

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
PATIENCE = 600  # seconds, where a Deployment does not say it
NOBODY = ({"name": "not-yet", "expression": "false"},)
COUNTS = ("observedGeneration", "replicas", "updatedReplicas", "availableReplicas")
MOST_CAUSES = 3

Json = t.Dict[str, t.Any]
# What the server writes, and what is no wish of anybody's.
WRITTEN = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")
DEFAULT = "default"


class Ref(t.NamedTuple):
    """Which object it is; ``namespace`` is empty where none is given."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {place}{self.name}"


def flat(objects: t.Sequence[t.Any], key: str = "objects") -> t.Dict[Ref, Json]:
    """Return all objects, those in Lists too; of two of one name the later counts. InputError."""
    result: t.Dict[Ref, Json] = {}
    for at, item in enumerate(objects):
        where = f"{key}[{at}]"
        if isinstance(item, dict) and item.get("kind") == "List":
            result.update(flat(item.get("items") or [], f"{where}.items"))
        else:
            result[_ref(where, item)] = item
    return result


def _ref(where: str, item: t.Any) -> Ref:
    if not isinstance(item, dict):
        raise InputError.of(where, item, "an object of Kubernetes")
    for name in ("apiVersion", "kind"):
        if not isinstance(item.get(name), str) or not item[name]:
            raise InputError.of(f"{where}.{name}", item.get(name), "a text such as v1 or Secret")
    meta = item.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise InputError.of(f"{where}.metadata", hidden(meta, True), "a mapping with a name")
    return ref(item)


def ref(item: Json) -> Ref:
    """Return which object it is."""
    meta = item["metadata"]
    return Ref(item["apiVersion"], item["kind"], meta["name"], meta.get("namespace") or "")


def wishes(item: t.Optional[Json]) -> t.Optional[Json]:
    """Return an object without what the server writes, and without what a Secret has to hide."""
    result: t.Optional[Json] = hidden(_plain(item))
    return result


def is_same(left: t.Optional[Json], right: t.Optional[Json]) -> bool:
    """Return whether two states of an object are the same to a user."""
    return _plain(left) == _plain(right)


def _plain(item: t.Optional[Json]) -> t.Optional[Json]:
    if item is None:
        return None
    meta = {key: value for key, value in item.get("metadata", {}).items() if key not in WRITTEN}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": meta}


def is_ours(live: Json, manager: str) -> bool:
    """Return whether a manager has applied an object, from what the server keeps of who wrote what."""
    managers = live.get("metadata", {}).get("managedFields") or ()
    return any(
        entry.get("manager") == manager and entry.get("operation") == "Apply" for entry in managers
    )


def goes(live: Json) -> bool:
    """Return whether an object is on its way out already."""
    return bool(live.get("metadata", {}).get("deletionTimestamp"))


def group_path(api_version: str) -> str:
    """Return where the kinds of a version are listed."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def resource_of(listed: Json, kind: str) -> t.Optional[t.Tuple[str, bool]]:
    """Return what a kind is called in paths, and whether it is in namespaces; None where it is not served."""
    for resource in listed.get("resources") or ():
        if resource.get("kind") == kind and "/" not in resource.get("name", "/"):
            return str(resource["name"]), bool(resource.get("namespaced"))
    return None


def asks_nobody(hook: Json) -> Json:
    """Return a webhook's configuration of which API servers ask for no object."""
    made = [{**webhook, "matchConditions": list(NOBODY)} for webhook in hook.get("webhooks") or ()]
    return {**hook, "webhooks": made}


def progress(deployment: Json) -> t.Tuple[int, ...]:
    """Return how far a Deployment is, by COUNTS."""
    status = deployment.get("status") or {}
    return tuple(int(status.get(count) or 0) for count in COUNTS)


def rolled_out(deployment: Json) -> bool:
    """Return whether all pods of a Deployment are of its template, and available."""
    seen, there, updated, available = progress(deployment)
    replicas = deployment["spec"].get("replicas", 1)
    known = seen >= int(deployment["metadata"].get("generation") or 0)
    return known and updated >= replicas and there <= updated <= available


def patience(deployment: Json) -> int:
    """Return for how many seconds nothing may move."""
    return int(deployment["spec"].get("progressDeadlineSeconds") or PATIENCE)


def selector(deployment: Json) -> t.Tuple[str, str]:
    """Return one of the labels that its pods have."""
    labels = deployment["spec"]["selector"].get("matchLabels") or {"": ""}
    return t.cast(t.Tuple[str, str], next(iter(labels.items())))


def causes(pods: t.Iterable[Json]) -> str:
    """Return what pods wait for, in the words of the kubelet and the scheduler; empty where they don't say."""
    messages = dict.fromkeys(
        message for pod in pods for message in _causes(pod.get("status") or {})
    )
    return "; ".join(list(messages)[:MOST_CAUSES])


def _causes(status: Json) -> t.Iterator[str]:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            yield cut(f"{condition.get('reason', '')}: {condition.get('message', '')}")
    for container_status in status.get("containerStatuses") or ():
        waiting = (container_status.get("state") or {}).get("waiting") or {}
        ended = (container_status.get("lastState") or {}).get("terminated") or {}
        if reason := waiting.get("reason"):
            yield cut(f"{reason}: {ended.get('message') or waiting.get('message', '')}")


def hidden(value: t.Any, secret: bool = False) -> t.Any:
    """Return objects, in lists or not, without what Secrets among them hold; ``secret`` says that they are in one."""
    if isinstance(value, dict):
        secret = secret or _is_secret(value)
        result = {key: hidden(name, secret) for key, name in value.items()}
        for key in (name for name in (*HOLD, APPLIED) if secret and name in value):
            held = value[key]
            result[key] = dict.fromkeys(held, HIDDEN) if isinstance(held, dict) else HIDDEN
        return result
    return [hidden(name, secret) for name in value] if isinstance(value, list) else value


def values(value: t.Any, secret: bool = False) -> t.Set[str]:
    """Return the texts that Secrets hold, plain and in base64, but for short ones."""
    if isinstance(value, list):
        return set().union(*(values(held_values, secret) for held_values in value))
    if not isinstance(value, dict):
        return set()
    secret = secret or _is_secret(value)
    texts = set()
    for key, held_values in value.items():
        if secret and key in HOLD and isinstance(held_values, dict):
            texts |= {text for held in held_values.values() for text in _both(str(held), key)}
        else:
            texts |= values(held_values, secret)
    return {held_values for held_values in texts if len(held_values) >= SHORTEST}


def _is_secret(value: t.Mapping[str, t.Any]) -> bool:
    return str(value.get("kind")).startswith("Secret")  # or a SecretList


def _both(text: str, key: str) -> t.Iterator[str]:
    """Yield a text as it is, and as the other of the two keys has it."""
    yield text
    if key == "stringData":
        yield base64.b64encode(text.encode()).decode()
        return
    try:
        yield base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):  # no base64, or no text in it
        return
