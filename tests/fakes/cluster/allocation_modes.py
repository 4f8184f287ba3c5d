# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A genuine control plane with a node for each allocation and publication, and the kube-scheduler that places pods.

Each node publishes what the product publishes: ResourceSlices, and the device plugin's resources as its capacity.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest
import yaml
from gpu_plugin._shared._base.dra.checkpoint import PREPARED, PreparedClaim
from gpu_plugin._shared._base.dra.names import (
    BOTH,
    DEVICE_PLUGIN,
    DRA,
    GPU,
    GPU_CLASS,
    MIG_CLASS,
    PUBLISHED,
    SHARE,
    SHARE_CLASS,
)
from gpu_plugin._shared._cluster.machine.api import ApiError
from gpu_plugin.advertise.decide import decide
from gpu_plugin.config.configuration import Config, parse
from gpu_plugin.dra.prepare import plan
from gpu_plugin.dra.prepare.claims import parse as parse_claim
from gpu_plugin.dra.slice_api import GROUP
from gpu_plugin.model.inventory import Inventory
from gpu_plugin.slices import build

from tests.fakes.daemon.gpu_builders import inventory, view
from tests.fakes.daemon.mig_grids import GRIDS
from tests.fakes.daemon.mig_grids import view as mig_view
from tests.fakes.kubernetes.administered import KINDS
from tests.fakes.kubernetes.genuine_api import GenuineApi, found
from tests.support.paths import REPOSITORY, TESTS
from tests.support.waiting import PAUSE, eventually

Json = dict[str, Any]
MANIFESTS = REPOSITORY / "files/kubernetes/dra"
TABLE_FILE: Final = TESTS / "fakes/cluster/allocation_modes.yml"
MERGE = "application/merge-patch+json"
ROOM = {"cpu": "100", "memory": "100Gi", "pods": "200"}
PROFILE, STARTS = "3g.40gb", (0, 4)  # the MIG layout, which fills a GPU
MONITORING = "monitoring"  # the namespace whose claims may have adminAccess
# What the scheduler says of a pod for which there is nothing.
REFUSALS = ("cannot allocate all claims", "Insufficient nvidia.com/")
CONTROLLERS = ("resourceclaim-controller", "resourcequota-controller", "serviceaccount-controller")
# GPUs 0 and 1 are whole, 2 and 3 in MIG mode. With allocation both, DRA has the first of each.
GPUS = inventory(
    view(0),
    view(1),
    *(
        mig_view(
            GRIDS["h100-80"],
            [
                (profile, start)
                for profile in GRIDS["h100-80"]
                if profile.name == PROFILE
                for start in STARTS
            ],
            index,
        )
        for index in (2, 3)
    ),
)
# What the pod of a guest asks for: limits of extended resources, or the request of its claim.
REQUESTS: Mapping[str, Json] = {
    "gpu resource": {"limits": {"nvidia.com/gpu": "1"}},
    "mig resource": {"limits": {f"nvidia.com/mig-{PROFILE}": "1"}},
    "gpu claim": {"deviceClassName": GPU_CLASS},
    "mig claim": {"deviceClassName": MIG_CLASS},
    "share claim": {
        "deviceClassName": SHARE_CLASS,
        "capacity": {"requests": {"memory": "10000Mi", "cores": "30"}},
    },
}


class Mode(NamedTuple):
    """Who gives out a node's GPUs, and what of a GPU outside of MIG mode is published.

    ``suffix`` is that of a node that differs from the others in its GPUs.
    """

    allocation: str
    publish: str
    suffix: str = ""

    @property
    def node(self) -> str:
        """Return the name of the node in this mode."""
        return f"{self.allocation}-{self.publish}{self.suffix}".replace("_", "-")

    @property
    def config(self) -> Config:
        """Return the configuration of the node."""
        devices = ", devices: [0, 2]" if self.allocation == BOTH else ""
        dra = f"{{publish: {self.publish}{devices}}}"
        return parse(
            f"{{flags: {{migStrategy: mixed}}, gpuNode: {{allocation: {self.allocation}, dra: {dra}}}}}"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the table that are true of the node: with both, each GPU is as its owner has it."""
        return {DEVICE_PLUGIN: (DEVICE_PLUGIN,), DRA: (self.publish,)}.get(
            self.allocation, (DEVICE_PLUGIN, self.publish)
        )


MODES = (
    Mode(DEVICE_PLUGIN, "all"),
    *(Mode(allocation, publish) for allocation in (DRA, BOTH) for publish in PUBLISHED),
)

# With both, each GPU is as its owner has it: these show what dra shows with the same publication.
LONG = (Mode(BOTH, GPU), Mode(BOTH, SHARE))


class Table:
    """The rows of docs/fractions/allocation-modes.md, by their keys."""

    def __init__(self) -> None:
        self.data: Json = yaml.safe_load(TABLE_FILE.read_text())
        self.rows: Mapping[str, Json] = {row["key"]: row for row in self.data["rows"]}

    def works(self, key: str, mode: Mode) -> bool:
        """Return whether a capability works in a mode. A cell that is a text is the reason why not."""
        cells = self.rows[key]["cells"]
        if mode.allocation == BOTH and BOTH in cells:
            return cells[BOTH] is True
        return any(cells[column] is True for column in mode.columns)


TABLE: Final = Table()


def _case(mode: Mode, *values: str) -> Any:
    """Return the case of a test in a mode."""
    marks = [pytest.mark.long] if mode in LONG else []
    return pytest.param(mode, *values, id="-".join((mode.node, *values)), marks=marks)


each_mode = pytest.mark.parametrize("mode", [_case(mode) for mode in MODES])
each_dra_mode = pytest.mark.parametrize(
    "mode", [_case(mode) for mode in MODES if mode.allocation != DEVICE_PLUGIN]
)
each_working_request = pytest.mark.parametrize(
    ("mode", "request_name"),
    [_case(mode, request) for mode in MODES for request in REQUESTS if TABLE.works(request, mode)],
)


class ModesCluster(GenuineApi):
    """Nodes without kubelets; with ``runs`` a thread stands for these, and each pod that has a node runs."""

    def fill(self) -> None:
        """Create the nodes, the classes and the namespaces, and start scheduler and controllers."""
        label = {"resource.kubernetes.io/admin-access": "true"}
        self.create(_object("v1", "Namespace", MONITORING, labels=label))
        for namespace in ("default", MONITORING):
            self.create(_object("v1", "ServiceAccount", "default", namespace=namespace))
        for name in ("device-classes", "extended-resource"):
            self._apply_classes(yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text()))
        for mode in MODES:
            self.add_node(mode)
        options = (f"--kubeconfig={self.folder}/admin.conf", "--leader-elect=false")
        self.start(found("kube-scheduler"), *options, "--secure-port=0")
        controllers = f"--controllers={','.join(CONTROLLERS)}"
        self.start(found("kube-controller-manager"), *options, "--secure-port=0", controllers)

    def _apply_classes(self, manifest: Json) -> None:
        for body in manifest.get("items", [manifest]):
            with contextlib.suppress(ApiError):
                path = f"{KINDS['DeviceClass']}/{body['metadata']['name']}"
                self.admin.ask("removing", "DELETE", path)
            self.create(body)

    def add_node(self, mode: Mode, gpus: Inventory = GPUS) -> None:
        """Create a node with what its device plugin advertises, and with its slices."""
        config = mode.config
        devices = decide(gpus, {}, config).resources
        amounts = {**ROOM, **{name: str(len(those)) for name, those in devices.items()}}
        status = {"allocatable": amounts, "capacity": amounts}
        label = {"gpu.node/allocation": mode.allocation}
        labels = {} if mode.allocation == DEVICE_PLUGIN else label
        self.create({**_object("v1", "Node", mode.node, labels=labels), "status": status})
        path, taints = f"{KINDS['Node']}/{mode.node}", {"spec": {"taints": None}}
        self.admin.ask("readying", "PATCH", path, taints, kind=MERGE)
        for number, spec in enumerate(build(gpus, config, {}, {}, node=mode.node)):
            name = f"{mode.node}-{number}"
            self.create({**_object(GROUP, "ResourceSlice", name), "spec": spec})

    # --- pods ---

    def create_pod(
        self,
        name: str,
        mode: Mode,
        request: Json,
        namespace: str = "default",
        *,
        config: list[Json] | None = None,
    ) -> None:
        """Create a pod for the node of a mode that asks for extended resources, or for a claim from a template."""
        spec = _pod_spec(mode.node)
        if "limits" in request:
            spec["containers"][0]["resources"] = request
        else:
            requests = [{"name": "gpu", "exactly": request}]
            devices = {"requests": requests, "config": config or []}
            template = _object(GROUP, "ResourceClaimTemplate", name, namespace=namespace)
            self._post({**template, "spec": {"spec": {"devices": devices}}})
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": name}]
            spec["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        self._post({**_object("v1", "Pod", name, namespace=namespace), "spec": spec})

    def _post(self, body: Json) -> None:
        meta = body["metadata"]
        kind = f"{body['kind'].lower()}s"
        group = "/api/v1" if body["apiVersion"] == "v1" else f"/apis/{body['apiVersion']}"
        path = f"{group}/namespaces/{meta['namespace']}/{kind}"
        self.admin.ask(f"creating {meta['name']}", "POST", path, body)

    def is_placed(self, name: str, namespace: str = "default") -> bool:
        """Return whether the scheduler has given a pod its node, once it has said either."""

        def decision() -> list[bool]:
            pod = self.get("Pod", name, namespace)
            placed = bool(pod["spec"].get("nodeName"))
            return [placed] if placed or _is_refused(pod) else []

        return eventually(decision)[0]

    def decisions(self) -> list[bool]:
        """Return of each pod whether it runs, and nothing while the scheduler or a kubelet has something to do."""
        pods = self.get("Pod", namespace="default")["items"]
        states = [pod["status"]["phase"] == "Running" for pod in pods]
        open_pods = [pod for pod, runs in zip(pods, states, strict=True) if not runs]
        return states if all(map(_is_refused, open_pods)) else []

    def remove_pod(self, name: str, namespace: str = "default") -> None:
        """Remove a pod."""
        path = f"{KINDS['Pod'].format(namespace)}/{name}"
        with contextlib.suppress(ApiError):
            self.admin.ask("removing", "DELETE", path, {"gracePeriodSeconds": 0})

    def claims(self, name: str, namespace: str = "default") -> list[Json]:
        """Return the claims of a pod, also one that the scheduler has made for its extended resources."""
        status = self.get("Pod", name, namespace)["status"]
        statuses = [*status.get("resourceClaimStatuses", ())]
        statuses += filter(None, [status.get("extendedResourceClaimStatus")])
        return [
            self.get("ResourceClaim", item["resourceClaimName"], namespace) for item in statuses
        ]

    def results(self, name: str, namespace: str = "default") -> list[Json]:
        """Return the devices that the claims of a pod were allocated."""
        return [
            result
            for claim in self.claims(name, namespace)
            for result in claim["status"]["allocation"]["devices"]["results"]
        ]

    def prepared(
        self, name: str, mode: Mode, namespace: str = "default", gpus: Inventory = GPUS
    ) -> PreparedClaim:
        """Return what the DRA driver of the node makes of the claim that the scheduler has allocated to a pod.

        Raises:
            NodeError: if it refuses the claim.
        """
        (body,) = self.claims(name, namespace)
        claim = parse_claim(body, body["metadata"]["uid"], mode.node)
        dra = mode.config.dra
        limits = plan.limits((gpu.gpu for gpu in gpus.gpus), dra)
        devices = plan.resolve(claim, gpus, limits)
        enforcement = dra.enforcement if any(map(plan.is_share, devices)) else ""
        where = (claim.uid, claim.namespace, claim.name)
        return PreparedClaim(*where, PREPARED, devices, claim.pods, enforcement)

    def clean(self) -> None:
        """Remove all pods, and wait until their claims are gone."""
        for namespace in ("default", MONITORING):
            for pod in self.get("Pod", namespace=namespace)["items"]:
                self.remove_pod(pod["metadata"]["name"], namespace)
            path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}"
            self.admin.ask("removing", "DELETE", f"{path}/resourceclaimtemplates")
            eventually(lambda at=namespace: self._remove_claims(at), [])

    def _remove_claims(self, namespace: str) -> list[Json]:
        """Remove the claims, as the garbage collector does, and return those that are still there."""
        path = KINDS["ResourceClaim"].format(namespace)
        self.admin.ask("removing", "DELETE", path)
        remaining: list[Json] = self.get("ResourceClaim", namespace=namespace)["items"]
        return remaining

    # --- kubelets ---

    @contextlib.contextmanager
    def kubelets(self) -> Iterator[None]:
        """Let each pod run that has a node."""
        over = threading.Event()
        thread = threading.Thread(target=self._run_pods, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _run_pods(self, over: threading.Event) -> None:
        while not over.wait(PAUSE):
            for pod in self.get("Pod", namespace="default")["items"]:
                if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                    path = f"{KINDS['Pod'].format('default')}/{pod['metadata']['name']}/status"
                    with contextlib.suppress(ApiError):  # it is gone by now
                        self.admin.ask(
                            "running", "PATCH", path, {"status": {"phase": "Running"}}, kind=MERGE
                        )


def _is_refused(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    messages = " ".join(item.get("message", "") for item in conditions)
    return not pod["spec"].get("nodeName") and any(text in messages for text in REFUSALS)


def _object(version: str, kind: str, name: str, **meta: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **meta}}


def _pod_spec(node: str) -> Json:
    """Return the spec of a pod that no other node can have, whatever its taints."""
    on_node = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [on_node]}]}
    return {
        "containers": [{"name": "main", "image": "cuda"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
    }
