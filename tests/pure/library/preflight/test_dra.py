# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""DRA on nodes and clusters that can't have it: told before anything changes, in the variables of the roles."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.dra import (
    TRIAL,
    of_kubelet,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine import cluster
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine.node import (
    warnings,
)
from ansible_collections.gpu.node.plugins.module_utils._cluster.machine.api import ApiError

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import Look

DRA = {"gpu_nodes_allocation": "dra"}
ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "allocation": (
        {"gpu_nodes_allocation": "draa"},
        "gpu_nodes_allocation: 'draa' is not valid: expected one of device_plugin, dra, both",
    ),
    "enforcement": (
        {**DRA, "gpu_nodes_dra_enforcement": "mpss"},
        "gpu_nodes_dra_enforcement: 'mpss' is not valid: expected one of mps, cgroup, hami-core",
    ),
    "scaling under mps": (
        {**DRA, "gpu_nodes_dra_memory_scaling": 3.0},
        "gpu_nodes_dra_memory_scaling: 3.0 is not valid: enforcement is mps",
    ),
    "scaling under cgroup": (
        {**DRA, "gpu_nodes_dra_memory_scaling": 3.0, "gpu_nodes_dra_enforcement": "cgroup"},
        "gpu_nodes_dra_memory_scaling is 3, and gpu_nodes_dra_oversubscribe is refuse: cgroup limits",
    ),
    "too many shares": (
        {**DRA, "gpu_nodes_dra_split_count": 0},
        "gpu_nodes_dra_split_count: 0 is not valid",
    ),
    "devices without both": (
        {**DRA, "gpu_nodes_dra_devices": ["0"]},
        "gpu_nodes_dra_devices: ['0'] is not valid: expected none, as allocation is dra",
    ),
    "both without devices": (
        {"gpu_nodes_allocation": "both"},
        "gpu_nodes_dra_devices: [] is not valid: expected the GPUs of DRA",
    ),
    "a device that is none": (
        {"gpu_nodes_allocation": "both", "gpu_nodes_dra_devices": ["first"]},
        "gpu_nodes_dra_devices: 'first' is not valid: expected a list of GPUs by index (0), UUID",
    ),
    "hami-core without its library": (
        {**DRA, "gpu_nodes_dra_enforcement": "hami-core"},
        "gpu_nodes_dra_hami_core_library: '' is not valid: expected the path of libvgpu.so",
    ),
    "sharing by the device plugin": (
        {
            **DRA,
            "device_plugin_sharing": {
                "timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}
            },
        },
        "sharing is given, and gpu_nodes_allocation is dra",
    ),
    "who allocates, in the configuration": (
        {**DRA, "device_plugin_config": {"gpuNode": {"allocation": "dra"}}},
        "device_plugin_config.gpuNode.allocation: 'dra' is not valid: expected it in the option",
    ),
    "runtime class": (
        {**DRA, "container_runtime_mode": "runtime_class"},
        "container_runtime_mode: 'runtime_class' is not valid: expected cdi, as gpu_nodes_allocation",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_each_wrong_value_is_told_by_its_variable(look: Look, row: str) -> None:
    variables, said = ROWS[row]
    _first, line, *_more = look(**variables).splitlines()
    assert line.startswith(f"- {said}")
    assert "gpuNode.dra" not in line


@pytest.mark.parametrize(
    "variables",
    [
        {},
        DRA,
        {"gpu_nodes_allocation": "both", "gpu_nodes_dra_devices": ["0", "0000:18:00.0"]},
        {
            **DRA,
            "gpu_nodes_dra_memory_scaling": 3.0,
            "gpu_nodes_dra_oversubscribe": "best-effort",
        },
        {"gpu_nodes_dra_enforcement": "none"},  # of a group whose nodes are not all of DRA
    ],
)
def test_good_values_pass(look: Look, variables: dict[str, Any]) -> None:
    assert look(**variables) == ""


LIBRARY = "/usr/local/vgpu/libvgpu.so"
WITH_LIBRARY = {
    **DRA,
    "gpu_nodes_dra_enforcement": "hami-core",
    "gpu_nodes_dra_hami_core_library": LIBRARY,
}


def test_a_library_with_another_digest_is_refused_before_anything_changes(
    look: Look, host: FakeHost
) -> None:
    host.files[LIBRARY] = "libvgpu"
    digest = hashlib.sha256(b"libvgpu").hexdigest()
    assert look(**WITH_LIBRARY, gpu_nodes_dra_hami_core_sha256=digest.upper()) == ""
    assert look(**WITH_LIBRARY) == ""
    _first, line, *_more = look(
        **WITH_LIBRARY, gpu_nodes_dra_hami_core_sha256="0" * 64
    ).splitlines()
    assert line.startswith(
        f"- gpu_nodes_dra_hami_core_sha256: '{'0' * 64}' is not valid: expected the SHA-256 of"
        f" {LIBRARY} on the node, which is {digest}"
    )


def test_a_library_that_has_to_be_verified_is_on_the_node(look: Look) -> None:
    answer = look(**WITH_LIBRARY, gpu_nodes_dra_hami_core_sha256="0" * 64)
    assert f"gpu_nodes_dra_hami_core_library: '{LIBRARY}' is not valid: expected a file" in answer
    of_mps = {**WITH_LIBRARY, "gpu_nodes_dra_enforcement": "mps"}
    assert look(**of_mps, gpu_nodes_dra_hami_core_sha256="0" * 64) == ""


WITHOUT_GATES = "DRADeviceTaints, and DRAExtendedResource are off by default"
WITHOUT_MENDS = "kubernetes/kubernetes#139211), and kube-scheduler ends"
KUBELETS = {
    "Kubernetes v1.33.4\n": ("Kubernetes 1.33.4, ", "resource.k8s.io/v1 is not served"),
    "Kubernetes v1.34.9\n": ("Kubernetes 1.34.9, ", "kubernetes/kubernetes#134189"),
    "Kubernetes v1.35.7\n": ("Kubernetes 1.35.7, ", WITHOUT_GATES),
    "Kubernetes v1.36.0\n": ("Kubernetes 1.36.0, ", WITHOUT_MENDS),
    "Kubernetes v1.36.1\n": ("Kubernetes 1.36.1, ", WITHOUT_MENDS),
    "Kubernetes v1.36.1-eks-1\n": ("Kubernetes 1.36.1, ", WITHOUT_MENDS),
    "Kubernetes v1.36.2+k3s1\n": (),
    "Kubernetes v1.36.3\n": (),
    "Kubernetes v1.37.0-alpha.1\n": (),
    "": (),
}


@pytest.mark.parametrize("said", KUBELETS)
def test_a_kubelet_below_the_oldest_patch_is_refused_with_the_reason(
    look: Look, host: FakeHost, said: str
) -> None:
    host.commands[("kubelet", "--version")] = said
    answer = look(**DRA)
    assert bool(answer) == bool(KUBELETS[said])
    if answer:
        assert "gpu_nodes_allocation: 'dra' is not possible: the node's kubelet is of " in answer
        assert all(words in answer for words in KUBELETS[said])
        newer = (
            " set gpu_nodes_kubeconfig where the API server is newer, which nobody asked so far,"
        )
        helps = newer if "v1.36" in said else ""  # an older kubelet lacks the gates itself
        back = "or leave gpu_nodes_allocation at device_plugin)"
        assert f"(upgrade Kubernetes to 1.36.3,{helps} {back}" in answer


@pytest.mark.parametrize(("said", "refused"), [("v1.35.9", True), ("v1.36.0", False)])
def test_where_the_api_server_is_asked_a_kubelet_needs_the_gates_alone(
    host: FakeHost, said: str, refused: bool
) -> None:
    values = {**DRA, "gpu_nodes_kubeconfig": "x"}
    found = [str(one) for one in of_kubelet(values, f"Kubernetes {said}")]
    assert len(found) == refused
    for one in found:
        assert WITHOUT_GATES in one
        assert "gpu_nodes_kubeconfig" not in one


@pytest.mark.parametrize(
    ("values", "said", "words"),
    [
        (DRA, "Kubernetes v1.36.3", "the node's kubelet is of Kubernetes 1.36.3"),
        (DRA, "", "the node's kubelet says no version of Kubernetes"),
        (DRA, "Kubernetes v1.36.1", ""),  # which is refused
        ({**DRA, "gpu_nodes_kubeconfig": "x"}, "Kubernetes v1.36.3", ""),
        ({}, "Kubernetes v1.36.3", ""),
    ],
)
def test_what_nobody_could_ask_the_control_plane_is_a_warning(
    host: FakeHost, values: dict[str, Any], said: str, words: str
) -> None:
    host.commands[("kubelet", "--version")] = said
    found = warnings(host, values, ["device_plugin"])
    assert len(found) == bool(words)
    for one in found:
        assert words in one
        assert "whether the API server and kube-scheduler are of 1.36.2 or newer" in one
        assert one.endswith("Next step: set gpu_nodes_kubeconfig, so that the API server is asked")


class Server:
    """An API server of a version; ``keeps`` are the fields of a slice's device that it keeps."""

    def __init__(self, said: str, *, served: bool = True, keeps: Any = None) -> None:
        self.said, self.served, self.keeps = said, served, keeps
        self.error: ApiError | None = None

    def ask(self, _doing: str, method: str, path: str, body: Any = None, **more: Any) -> Any:
        if self.error:
            raise self.error
        if path == "/version":
            return {"gitVersion": self.said}
        assert not self.said.startswith(("v1.33", "v1.34"))  # which answers a trial with 422
        if not self.served:
            raise ApiError("looking", "404 not found", 404)
        if method == "GET":
            return {}
        assert (path, body) == ("/apis/resource.k8s.io/v1/resourceslices", TRIAL)
        assert more["query"] == {"dryRun": "All"}
        if self.keeps is None:
            raise ApiError("trying", "403 forbidden", 403)
        device = {key: one for key, one in body["spec"]["devices"][0].items() if key in self.keeps}
        return {"spec": {"devices": [device]}}


ALL = ("allowMultipleAllocations", "consumesCounters")


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (Server("v1.36.2", keeps=ALL), ()),
        (Server("v1.36.2"), ()),
        (Server("dev", keeps=ALL), ()),
        (Server("v1.33.5", served=False), ("Kubernetes 1.33.5, ", "v1 is not served")),
        (Server("v1.34.1", keeps=()), ("Kubernetes 1.34.1, ", "kubernetes/kubernetes#134189")),
        (Server("v1.35.0", keeps=ALL), ("Kubernetes 1.35.0, ", WITHOUT_GATES)),
        (
            Server("v1.36.1", keeps=ALL),
            ("Kubernetes 1.36.1, ", WITHOUT_MENDS, "kubernetes/kubernetes#138988"),
        ),
        (Server("v1.36.0-gke.100", keeps=ALL), ("upgrade Kubernetes to 1.36.3, or leave gpu_",)),
        (
            Server("v1.36.2", served=False),
            ("does not serve resource.k8s.io/v1", "--runtime-config of kube-apiserver"),
        ),
        (
            Server("v1.36.3", keeps=()),
            (
                "feature gate DRAConsumableCapacity and DRAPartitionableDevices off",
                "take DRAConsumableCapacity=false,DRAPartitionableDevices=false out of --feature-gates of"
                " kube-apiserver and kube-scheduler",
            ),
        ),
        (Server("v1.36.2", keeps=ALL[:1]), ("feature gate DRAPartitionableDevices off",)),
    ],
)
def test_what_a_cluster_lacks(server: Server, words: tuple[str, ...]) -> None:
    values = {**DRA, "gpu_nodes_kubeconfig": "~/.kube/config"}
    found = [str(one) for one in cluster.check(values, lambda *_named: server)]  # type: ignore[arg-type,return-value]
    assert len(found) == bool(words)
    for one in found:
        assert one.startswith("gpu_nodes_allocation: 'dra' is not possible: the API server")
        assert all(word in one for word in words)


def test_a_cluster_that_does_not_answer_is_told_by_its_variable() -> None:
    server = Server("")
    server.error = ApiError("asking for the version", "Connection refused")
    values = {**DRA, "gpu_nodes_kubeconfig": "x"}
    (found,) = cluster.check(values, lambda *_named: server)  # type: ignore[arg-type,return-value]
    assert found.variable == "gpu_nodes_kubeconfig"

    def refuse(*_named: str) -> Any:
        raise NodeError("kubeconfig: 'x' can't be read", cause="no such file", hint="name one")

    (unread,) = cluster.check(values, refuse)
    assert str(unread) == "kubeconfig: 'x' can't be read: no such file (name one)"


def test_no_cluster_is_asked_without_dra_or_without_a_kubeconfig() -> None:
    def never(*_named: str) -> Any:
        raise AssertionError

    assert cluster.check({"gpu_nodes_kubeconfig": "x"}, never) == []
    assert cluster.check(DRA, never) == []
    off = {**DRA, "gpu_nodes_allocation": "device_plugin", "gpu_nodes_kubeconfig": "x"}
    assert cluster.check(off, never) == []
