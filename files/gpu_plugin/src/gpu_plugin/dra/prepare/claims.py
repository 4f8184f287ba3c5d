# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Claims and their pods as the Kubernetes API has them: the devices of a claim on this node, checked strictly.

A tenant writes claims; of what he writes only the opaque parameters get here, the rest is the scheduler's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from ..._shared._base.dra.checkpoint import PreparedClaim
from ..._shared._base.dra.names import (
    API_VERSION,
    CORES,
    DRIVER,
    MEMORY,
    SHARE_CONFIG,
    SHARES,
    pool_name,
)
from ..._shared._base.errors import InputError, NodeError
from ..._shared._base.text.json_data import is_whole
from ..._shared._base.text.shown import cut, shown
from ..._shared._cluster.machine.api import FORBIDDEN, MISSING, ApiError
from ...cluster.access import Access
from ...model.quantity import parse as parse_quantity
from ..values import ALL, Claim, Container, Result

PATH: Final = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}"
POD: Final = "/api/v1/namespaces/{}/pods/{}"
RIGHTS: Final = "give the kubeconfig's user the right to get resourceclaims (resource.k8s.io)"
UNRELATED: Final = "no relationship found between node"  # the Node authorizer's words
UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DEVICE: Final = re.compile(r"gpu-[0-9]{1,4}(-[a-z0-9-]{1,50})?")
MOST_RESULTS: Final = 32  # of a claim, as the API has it
QUANTITY: Final = re.compile(r"[0-9]{1,18}(?:[KMGTPE]i|[kMGTPE]|[eE][0-9]{1,2})?")
CONSUMED: Final = (MEMORY, CORES, SHARES)
RESOURCES: Final = "nvidia.com/"
Json = Mapping[str, Any]
T = TypeVar("T")


def check_uid(uid: str) -> str:
    """Return a claim's UID, of which names of files are made.

    Raises:
        NodeError: if it isn't a UUID.
    """
    if not UID.fullmatch(uid):
        raise NodeError(f"the claim's UID {shown(uid)} is not valid", cause="expected a UUID")
    return uid


class ClaimApi:
    """The claims of a node, and their pods, in the API."""

    def __init__(self, access: Access, node: str) -> None:
        self._access, self._node = access, node

    def read(self, namespace: str, name: str, uid: str) -> Claim:
        """Return the claim that the kubelet names.

        Raises:
            ApiError: if it can't be read.
            NodeError: if it is another one by now, or has nothing of this node that is supported.
        """
        return self._ask(namespace, name, lambda claim: parse(claim, uid, self._node))

    def gone(self, held: PreparedClaim) -> bool:
        """Return whether a claim is no longer allocated the devices that it holds here.

        A node that asks by its kubelet's access can read the claims of its pods alone; to all others it is refused.

        Raises:
            ApiError: if the API does not say.
        """
        where = held.namespace, held.name
        try:
            return self._ask(*where, lambda claim: not _is(claim, held) or _differs(claim, held))
        except ApiError as error:
            if error.status == MISSING or (error.status == FORBIDDEN and UNRELATED in error.detail):
                return True
            raise

    def moved(self, held: PreparedClaim) -> bool:
        """Return whether a claim is allocated other devices than it holds, or none, by the API."""
        where = held.namespace, held.name
        try:
            return self._ask(*where, lambda claim: _is(claim, held) and _differs(claim, held))
        except ApiError:
            return False

    def containers(self, claim: Claim) -> tuple[Container, ...] | None:
        """Return the containers of the pods that a claim is reserved for, or None if a pod can't be read."""
        containers: list[Container] = []
        for name in claim.pod_names:
            doing = f"reading the pod {claim.namespace}/{name}"
            path = POD.format(quote(claim.namespace), quote(name))
            try:
                containers += self._access.ask(doing, "GET", path, look=_from_pod)
            except ApiError as error:
                if error.status != MISSING:
                    return None
        return tuple(containers)

    def _ask(self, namespace: str, name: str, look: Callable[[Json], T]) -> T:
        doing = f"reading the claim {namespace}/{name}"
        path = PATH.format(quote(namespace, safe=""), quote(name, safe=""))
        try:
            result: T = self._access.ask(doing, "GET", path, rights=RIGHTS, look=look)
        except ApiError as error:
            if error.status == MISSING:
                cause = "there is no such claim any more"
                raise ApiError(doing, cause, status=MISSING) from error
            raise
        return result


def _from_pod(pod: Json) -> tuple[Container, ...]:
    """Return the containers of a pod (v1). Its status names the claims that were made for it."""
    spec, status = pod["spec"], pod.get("status") or {}
    names = {
        item["name"]: item["resourceClaimName"]
        for item in (
            *(spec.get("resourceClaims") or ()),
            *(status.get("resourceClaimStatuses") or ()),
        )
        if item.get("resourceClaimName")
    }
    result = []
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        resources = container.get("resources") or {}
        claims = tuple(
            (names[claim["name"]], str(claim.get("request") or ALL))
            for claim in resources.get("claims") or ()
            if claim["name"] in names
        )
        extended = tuple(
            name
            for name, amount in (resources.get("limits") or {}).items()
            if name.startswith(RESOURCES) and str(amount) != "0"
        )
        result.append(Container(str(container.get("name", "")), claims, extended))
    return tuple(result)


def _is(claim: Json, held: PreparedClaim) -> bool:
    return bool(claim["metadata"]["uid"] == held.uid)


def _differs(claim: Json, held: PreparedClaim) -> bool:
    there = {
        (result["pool"], result["device"], str(result.get("shareID") or ""))
        for result in _ours(claim)
    }
    return there != {(device.pool, device.device, device.share_id) for device in held.devices}


def parse(claim: Json, uid: str, node: str) -> Claim:
    """Return a claim with its devices of this node's pool, from the API object.

    Raises:
        NodeError: if it is another claim, or has nothing of this node that is supported.
        LookupError, TypeError: if the object has another form.
    """
    meta = claim["metadata"]
    where = f"claim {meta['namespace']}/{meta['name']}"
    if meta["uid"] != uid:
        raise NodeError(
            f"{where} is another one than the kubelet asks for",
            cause=f"its UID is {shown(meta['uid'])}, not {uid}",
            hint="none: the pod with the claim of before is to end first",
        )
    status, devices, ours = claim.get("status") or {}, _devices(claim), _ours(claim)
    if not ours:
        raise NodeError(
            f"{where} has no device of {DRIVER}", cause="it is not allocated, or not to it"
        )
    if len(ours) > MOST_RESULTS:
        raise NodeError(f"{where} has more than {MOST_RESULTS} devices")
    config = devices.get("config") or ()
    results = tuple(_result(result, config, node, where) for result in ours)
    users = status.get("reservedFor") or ()
    pods = {str(user["uid"]): str(user["name"]) for user in users if user["resource"] == "pods"}
    return Claim(
        uid, str(meta["namespace"]), str(meta["name"]), results, (*pods,), (*pods.values(),)
    )


def _devices(claim: Json) -> Json:
    status = claim.get("status") or {}
    return (status.get("allocation") or {}).get("devices") or {}


def _ours(claim: Json) -> list[Json]:
    return [result for result in _devices(claim).get("results") or () if result["driver"] == DRIVER]


def _result(result: Json, config: Any, node: str, where: str) -> Result:
    request, device = str(result["request"]), str(result["device"])
    at = f"{where}, request {cut(request)}"
    pool = str(result["pool"])
    if pool not in (pool_name(node), node):  # the latter is what earlier releases published
        cause = f"it is of the pool {shown(pool)}, and this node's is {shown(pool_name(node))}"
        raise NodeError(f"{at}: {cut(device)} is not of this node", cause=cause)
    if not DEVICE.fullmatch(device):
        raise NodeError(f"{at}: {shown(device)} is no device of {DRIVER}")
    share = str(result.get("shareID") or "")
    if share:
        check_uid(share)
    consumed = {}
    for name, text in (result.get("consumedCapacity") or {}).items():
        short = name.rpartition("/")[2] if name.startswith(f"{DRIVER}/") else name
        if short in CONSUMED:
            consumed[short] = quantity(text, f"{at}, consumedCapacity.{short}")
    admin = bool(result.get("adminAccess"))
    return Result(request, pool, device, share, consumed, _parameters(request, config, at), admin)


def quantity(text: object, key: str) -> int:
    """Return a quantity's value, which is whole for all that we publish.

    Raises:
        InputError: if it isn't a whole quantity.
    """
    if not isinstance(text, str) or not QUANTITY.fullmatch(text):
        raise InputError.of(key, text, "a whole quantity such as 10000Mi or 30")
    return int(parse_quantity(text))


def _parameters(request: str, config: Any, at: str) -> dict[str, int]:
    """Return the parameters of a request, from its class and from the claim: of each the stricter value."""
    merged: dict[str, int] = {}
    for entry in config:
        opaque = entry.get("opaque") or {}
        requests = entry.get("requests") or ()
        applies = not requests or request in requests or request.partition("/")[0] in requests
        if opaque.get("driver") == DRIVER and applies:
            for name, value in parameters(opaque["parameters"], at).items():
                merged[name] = max(value, merged.get(name, value))  # the greater is the stricter
    return merged


def parameters(raw: object, at: str) -> dict[str, int]:
    """Return the values of a ShareConfig.

    Raises:
        InputError: if it isn't a ShareConfig, or has a key or value that isn't supported.
    """
    key = f"{at}, parameters"
    if not isinstance(raw, dict):
        raise InputError.of(key, raw, f"an object of the kind {SHARE_CONFIG}")
    kind = (raw.get("apiVersion"), raw.get("kind"))
    if kind != (API_VERSION, SHARE_CONFIG):
        raise InputError.of(key, kind, f"apiVersion {API_VERSION} and kind {SHARE_CONFIG}")
    values = {name: value for name, value in raw.items() if name not in ("apiVersion", "kind")}
    for name, value in values.items():
        if name == "priority":
            if not is_whole(value) or value not in (0, 1):
                raise InputError.of(f"{key}.priority", value, "0 (normal) or 1 (below normal)")
        elif name == "coreLimit":
            if not isinstance(value, bool):
                raise InputError.of(f"{key}.coreLimit", value, "true or false")
        else:
            raise InputError.of(f"{key}.{cut(name)}", value, "none: there is no such key")
    return values
