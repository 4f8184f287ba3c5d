# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Manifests: read from a text, and with the claims that the webhook makes of the pods in them. Pure."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import yaml
from gpu_plugin._shared._base.dra.names import (
    DRIVER,
    GPU,
    GPU_CLASS,
    MIG,
    MIG_CLASS,
    SHARE,
    SHARE_CLASS,
)
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin._shared._base.text.shown import cut
from gpu_plugin.config.sharing import GPU_RESOURCE

from ..hami.mutation import mutate
from ..hami.published import Published
from ..hami.settings import Settings

MAX_BYTES: Final = 64 << 20
API_VERSION: Final = "resource.k8s.io/v1"
HINT: Final = "give manifests such as kubectl apply takes"
# Where the pod of each kind is.
POD_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": (),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    **dict.fromkeys(
        (
            "DaemonSet",
            "Deployment",
            "Job",
            "ReplicaSet",
            "ReplicationController",
            "StatefulSet",
        ),
        ("spec", "template"),
    ),
}
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Json = Mapping[str, Any]


def _device_class(name: str, device_type: str, **spec: str) -> Json:
    expression = (
        f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{device_type}'"
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {**spec, "selectors": [{"cel": {"expression": expression}}]},
    }


# Those of files/kubernetes/dra, which no installed package has.
DEVICE_CLASSES: Final = (
    _device_class(GPU_CLASS, GPU, extendedResourceName=GPU_RESOURCE),
    _device_class(MIG_CLASS, MIG),
    _device_class(SHARE_CLASS, SHARE),
)


def parse(text: str, source: str) -> list[Json]:
    """Return the objects of a text, and the items of its lists.

    Raises:
        NodeError: if the text is no YAML or JSON, too long, or has something without a kind.
    """
    if len(text) > MAX_BYTES:
        raise NodeError(f"{source}: it is longer than {MAX_BYTES >> 20} MiB")
    try:
        return list(_flatten(_load(text), source))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, LookupError) as error:
        raise NodeError(f"{source}: not valid YAML", cause=cut(str(error)), hint=HINT) from error


def _load(text: str) -> Iterable[Any]:
    if text.lstrip().startswith("{"):  # kubectl's JSON, which is read much faster so
        with contextlib.suppress(ValueError):
            return [json.loads(text)]
    return yaml.load_all(text, Loader=_LOADER)


def _flatten(documents: Iterable[Any], source: str) -> Iterator[Json]:
    for number, document in enumerate(documents, 1):
        if document is None:
            continue
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            message = f"{source}: document {number} is no object of Kubernetes"
            raise NodeError(message, cause="it has no kind", hint=HINT)
        if document["kind"].endswith("List") and isinstance(document.get("items"), list):
            kind = document["kind"].removesuffix("List")
            common = {"kind": kind} if kind else {}
            yield from _flatten(({**common, **item} for item in document["items"]), source)
        else:
            yield document


def identify(manifest: Json) -> str:
    """Return an object as kubectl names it, such as Deployment/web."""
    metadata = manifest.get("metadata") or {}
    return f"{manifest['kind']}/{metadata.get('name') or metadata.get('generateName') or ''}"


def admit(
    manifest: Json, settings: Settings, devices: Published, *, warn: Callable[[str], None]
) -> list[Json]:
    """Return an object as the webhook would admit its pods, after the claim templates that it makes for them.

    Raises:
        Refused: if the webhook would refuse the pods.
    """
    if manifest["kind"] not in POD_PATHS:
        return [manifest]
    changed: Any = copy.deepcopy(manifest)
    pod = changed
    for key in POD_PATHS[manifest["kind"]]:
        pod = pod[key]
    mutation = mutate(pod, settings, devices)
    for warning in mutation.warnings:
        warn(f"{identify(manifest)}: {warning}")
    _apply(pod, mutation.patch)
    namespace = (manifest.get("metadata") or {}).get("namespace")
    common = {"namespace": namespace} if namespace else {}
    templates = [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": template.name, **common},
            "spec": template.spec,
        }
        for template in mutation.templates
    ]
    return [*templates, changed]


def _apply(document: Any, patch: Iterable[Json]) -> None:
    """Apply the webhook's JSON patch (RFC 6902), which adds, replaces and removes."""
    for operation in patch:
        *parents, key = (
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        )
        parent = document
        for part in parents:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        if operation["op"] == "remove":
            del parent[key]
        elif isinstance(parent, list):
            parent.append(operation["value"])
        else:
            parent[key] = operation["value"]
