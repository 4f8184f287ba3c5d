# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The pods of a node in the API server's answers, and whether they have GPUs."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._base.dra.names import DRIVER

Json = t.Mapping[str, t.Any]
MIRROR = "kubernetes.io/config.mirror"
DAEMONSET = "DaemonSet"
OWNER = ("apiVersion", "name", "uid")
VERSION = re.compile(r"([a-z0-9][a-z0-9.-]*)/v[a-z0-9]+")
FINISHED = ("Succeeded", "Failed")
TO_COMPLETION = ("Never", "OnFailure")
VENDOR = "nvidia.com/"
EXTENDED_CLAIM = "extendedResourceClaimStatus"  # of a pod's status (core/v1)
# The driver of GPUs and that of compute domains, which connect them.
DRA_DRIVERS = ("gpu.nvidia.com", "compute-domain.nvidia.com", DRIVER)
HIDDEN = ("", "void", "none")  # of NVIDIA_VISIBLE_DEVICES, if a container gets no GPU
# Programs of NVIDIA's that open GPUs without asking the kubelet for any.
OPENERS = (
    "dcgm",
    "dcgm-exporter",
    "gpu-feature-discovery",
    "k8s-device-plugin",
    "k8s-dra-driver-gpu",
    "k8s-mig-manager",
)


class Owner(t.NamedTuple):
    """The controller of a pod: its apiVersion, name and UID, as the pod has them."""

    version: str = ""
    name: str = ""
    uid: str = ""


NOBODY = Owner()


@dataclasses.dataclass(frozen=True)
class Pod:
    """A pod.

    Attributes:
        controller: The kind of its controller, empty if it has none.
        gpus: The resources and claims by which GPUs are allocated to it.
        claims: The names of its ResourceClaims.
        opens: Whether it may have GPUs open that are not allocated to it.
    """

    namespace: str
    name: str
    uid: str
    node: str
    controller: str = ""
    owner: Owner = NOBODY
    finished: bool = False
    terminating: bool = False
    mirror: bool = False
    runs_to_completion: bool = False
    emptydirs: t.Tuple[str, ...] = ()
    gpus: t.Tuple[str, ...] = ()
    claims: t.Tuple[str, ...] = ()
    opens: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def read(answer: Json) -> Pod:
    """Return the pod in an answer; its claims and its DaemonSet still have to be looked up.

    A static pod is owned by its node. No other pod can claim that for long: an object whose owner does not exist is
    collected as garbage.

    Raises:
        KeyError: if the answer is no pod; or TypeError.
    """
    meta, spec, status = answer["metadata"], answer["spec"], answer.get("status") or {}
    references = meta.get("ownerReferences") or ()
    owners = [reference for reference in references if reference.get("controller")]
    controller = str(owners[0]["kind"]) if owners else ""
    owner = Owner(*(str(owners[0].get(key) or "") for key in OWNER)) if owners else NOBODY
    of_node = (controller, owner.name) == ("Node", spec.get("nodeName"))
    completes = controller == "Job" or spec.get("restartPolicy") in TO_COMPLETION
    return Pod(
        namespace=str(meta["namespace"]),
        name=str(meta["name"]),
        uid=str(meta["uid"]),
        node=str(spec.get("nodeName") or ""),
        controller=controller,
        owner=owner,
        finished=status.get("phase") in FINISHED,
        terminating=bool(meta.get("deletionTimestamp")),
        mirror=of_node and MIRROR in (meta.get("annotations") or {}),
        runs_to_completion=completes,
        emptydirs=tuple(
            str(volume["name"])
            for volume in spec.get("volumes") or ()
            if volume.get("emptyDir") is not None
        ),
        gpus=_resources(spec),
        claims=tuple(_claims(spec, status)),
        opens=str(spec.get("runtimeClassName") or "").startswith("nvidia")
        or any(map(_opens_gpus, _containers(spec))),
    )


def with_claims(pod: Pod, drivers: t.Mapping[str, t.Collection[str]]) -> Pod:
    """Return a pod with its claims for GPUs, by the drivers that each ResourceClaim has devices of."""
    claimed = tuple(
        f"claim {claim}"
        for claim in pod.claims
        if not set(DRA_DRIVERS).isdisjoint(drivers.get(claim, ()))
    )
    return dataclasses.replace(pod, gpus=pod.gpus + claimed)


def daemonsets(pod: Pod) -> str:
    """Return the API group of the DaemonSet that a pod names as its controller, empty if it names none."""
    match = VERSION.fullmatch(pod.owner.version)
    return match[1] if match and pod.controller == DAEMONSET else ""


def with_daemonset(pod: Pod, uid: str) -> Pod:
    """Return a pod without its controller unless it has the UID of the DaemonSet that it names.

    A user who makes pods may name any owner.
    """
    return pod if uid and uid == pod.owner.uid else dataclasses.replace(pod, controller="")


def drivers(claim: Json) -> t.Tuple[str, ...]:
    """Return the DRA drivers whose devices are allocated to a ResourceClaim."""
    devices = ((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}
    return tuple(str(result["driver"]) for result in devices.get("results") or ())


def _containers(spec: Json) -> t.Iterator[Json]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _resources(spec: Json) -> t.Tuple[str, ...]:
    amounts = {
        f"{name}: {count}"
        for container in _containers(spec)
        for kind in ("requests", "limits")
        for name, count in ((container.get("resources") or {}).get(kind) or {}).items()
        if name.startswith(VENDOR) and str(count) != "0"
    }
    return tuple(sorted(amounts))


def _claims(spec: Json, status: Json) -> t.Iterator[str]:
    """Yield the names of the ResourceClaims; those made for the pod have their names in the status.

    The scheduler makes one for extended resources that a DeviceClass has, such as nvidia.com/gpu.
    """
    statuses = status.get("resourceClaimStatuses") or ()
    made = {entry["name"]: entry.get("resourceClaimName") for entry in statuses}
    for resource_claim in spec.get("resourceClaims") or ():
        name = resource_claim.get("resourceClaimName") or made.get(resource_claim["name"])
        if name:
            yield str(name)
    extended = (status.get(EXTENDED_CLAIM) or {}).get("resourceClaimName")
    if extended:
        yield str(extended)


def _opens_gpus(container: Json) -> bool:
    image = str(container.get("image") or "").partition("@")[0]
    program = image.rpartition("/")[2].partition(":")[0]
    variables = container.get("env") or ()
    environment = {variable["name"]: variable.get("value") for variable in variables}
    visible = environment.get("NVIDIA_VISIBLE_DEVICES") or ""
    return program in OPENERS or visible not in HIDDEN
