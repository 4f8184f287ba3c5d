# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What of plain Kubernetes a simulation looks at: requests, labels, taints, workloads, priorities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_cluster.placement.devices import Devices
from gpu_cluster.simulate import pods
from gpu_cluster.simulate.nodes import Node, unsuitable
from gpu_cluster.simulate.scheduler import by_resource, implicit
from gpu_plugin._shared._base.errors import NodeError

from tests.fakes.cluster.simulating import (
    TWO_OF_32,
    Json,
    Simulated,
    claiming,
    container,
    deployment,
    pod,
    simulate,
)

GPU = "nvidia.com/gpu"


def asks(name: str = "c", restart: str | None = None, **requests: Any) -> Json:
    """Return a container with requests, of GPUs by "gpu"."""
    named = {GPU if key == "gpu" else key: value for key, value in requests.items()}
    made: Json = {"name": name, "resources": {"requests": named}}
    return made | ({"restartPolicy": restart} if restart else {})


def spec(*containers: Json, init: tuple[Json, ...] = (), **more: Any) -> Json:
    """Return a pod."""
    return {"spec": {"containers": list(containers), "initContainers": list(init), **more}}


def test_requests_are_summed_and_init_containers_run_before() -> None:
    init = (
        asks(cpu="500m", memory="1Gi"),
        asks(restart="Always", cpu="1"),
        asks(cpu="3", memory="1Gi"),
    )
    found = pods.shape(
        spec(asks(cpu="1"), asks(cpu="500m", memory="2Gi"), init=init, overhead={"cpu": "250m"})
    )
    assert found.requests["cpu"] == 4.25  # the last init container beside the sidecar
    assert found.requests["memory"] == 2 << 30


def test_a_limit_without_a_request_is_one() -> None:
    found = pods.shape(
        spec({"name": "c", "resources": {"limits": {"cpu": "2", GPU: 1}, "requests": {"cpu": 1}}})
    )
    assert found.requests == {"pods": 1, "cpu": 1, GPU: 1}


def test_a_request_that_can_not_be_is_named() -> None:
    for given, why in (
        (spec(asks(gpu="500m")), "nvidia.com/gpu: 500m is not a whole number"),
        (spec(asks(memory="10 Gi")), "memory: '10 Gi' is not valid"),
        (spec(), "spec.containers: there is none"),
    ):
        with pytest.raises(NodeError, match=why):
            pods.shape(given)


def test_what_is_not_looked_at_is_told() -> None:
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}
    spread = [{"whenUnsatisfiable": "DoNotSchedule"}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]
    port = {"name": "c", "ports": [{"hostPort": 80}]}
    given = spec(
        port,
        affinity=affinity,
        topologySpreadConstraints=spread,
        volumes=volumes,
        schedulingGates=[{}],
    )
    fields = (
        "affinity.podAntiAffinity",
        "topologySpreadConstraints",
        "volumes",
        "hostPort",
        "schedulingGates",
    )
    assert tuple(pods.ignored(given["spec"])) == fields


TAINT = {"key": "gpu", "value": "x", "effect": "NoSchedule"}
NODE = Node("n", Devices(), labels={"zone": "a", "size": "8"}, taints=(TAINT,))
TAINTED, APART = "the taint gpu=x:NoSchedule is not tolerated", "its node affinity does not match"


def _affine(*expressions: Json, **more: Any) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions), **more}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _is(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


def test_a_taint_keeps_out_pods_without_its_toleration() -> None:
    for toleration, why in (
        ({"key": "gpu", "operator": "Exists"}, ""),
        ({"key": "gpu", "value": "x"}, ""),
        ({"operator": "Exists"}, ""),
        ({"key": "gpu", "value": "y"}, TAINTED),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, TAINTED),
    ):
        assert unsuitable(pods.shape(spec(asks(), tolerations=[toleration])), NODE) == why, (
            toleration
        )


def test_taints_keep_pods_out_by_their_effect() -> None:
    shape = pods.shape(spec(asks()))
    for effect, why in (
        ("NoSchedule", TAINTED),
        ("NoExecute", "the taint gpu=x:NoExecute is not tolerated"),
        ("PreferNoSchedule", ""),
    ):
        node = Node("n", Devices(), taints=({**TAINT, "effect": effect},))
        assert unsuitable(shape, node) == why, effect


def test_selectors_names_and_affinity_choose_nodes() -> None:
    for more, why in (
        ({"nodeSelector": {"zone": "a"}}, ""),
        ({"nodeSelector": {"zone": "b"}}, "nodeSelector zone=b does not match"),
        ({"nodeName": "m"}, "it is not the node m"),
        (_affine(_is("zone", "In", "a", "b")), ""),
        (_affine(_is("zone", "NotIn", "a")), APART),
        (_affine(_is("size", "Gt", "7"), _is("x", "DoesNotExist")), ""),
        (_affine(_is("size", "Lt", "8")), APART),
        (_affine(_is("zone", "Exists"), matchFields=[_is("metadata.name", "In", "m")]), APART),
        (_affine(), APART),
    ):
        tolerates = [{"operator": "Exists"}]
        assert unsuitable(pods.shape(spec(asks(), tolerations=tolerates, **more)), NODE) == why, (
            more
        )


def test_how_many_pods_a_workload_has() -> None:
    for given, expected in (
        ({"kind": "Deployment", "spec": {}}, ["w-0"]),
        ({"kind": "Deployment", "spec": {"replicas": 0}}, []),
        (
            {"kind": "StatefulSet", "spec": {"replicas": 2, "ordinals": {"start": 5}}},
            ["w-5", "w-6"],
        ),
        ({"kind": "Job", "spec": {"parallelism": 4, "completions": 2}}, ["w-0", "w-1"]),
        ({"kind": "Job", "spec": {"completions": 5}}, ["w-0"]),
        (
            {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"parallelism": 2}}}},
            ["w-0", "w-1"],
        ),
        ({"kind": "Pod", "spec": {}}, ["w"]),
    ):
        assert list(pods.names({"metadata": {"name": "w"}, **given})) == expected, given


def test_replicas_that_can_not_be() -> None:
    with pytest.raises(NodeError, match=r"spec.replicas: 'many' is not valid"):
        list(pods.names({"kind": "Deployment", "metadata": {}, "spec": {"replicas": "many"}}))
    with pytest.raises(NodeError, match=r"Deployment w: spec.template is missing"):
        pods.manifest({"kind": "Deployment", "metadata": {"name": "w"}})


def test_extended_resources_become_requests_by_container() -> None:
    init = (asks(gpu=3), asks(gpu=1), asks(restart="Always", gpu=1))
    (found,) = implicit(pods.shape(spec(asks(gpu=1), asks(), init=init)), {GPU: "gpus"})
    # As createRequestsAndMappings has it: what init containers need beyond the later ones' own, once.
    assert [(one.name, one.count, one.device_class) for (one,) in found.requests] == [
        ("container-0-request-0", 1, "gpus"),
        ("container-2-request-0", 1, "gpus"),
        ("container-3-request-0", 1, "gpus"),
    ]
    assert implicit(pods.shape(spec(asks(cpu=1))), {GPU: "gpus"}) == ()


def test_the_newer_class_has_the_name_of_a_resource() -> None:
    def made(name: str, born: str) -> Json:
        return {
            "metadata": {"name": name, "creationTimestamp": born},
            "spec": {"extendedResourceName": GPU},
        }

    found = by_resource(
        {"a": made("a", "2026-01-01T00:00:00Z"), "b": made("b", "2026-02-01T00:00:00Z")}
    )
    assert found[GPU] == "b"
    assert found["deviceclass.resource.kubernetes.io/a"] == "a"
    assert by_resource({"b": made("b", "2026"), "a": made("a", "2026")})[GPU] == "a"


@pytest.fixture
def run(tmp_path: Path, capsys: Any) -> Any:
    """Run a simulation."""

    def simulated(nodes: list[Json], *objects: Json, options: tuple[str, ...] = ()) -> Simulated:
        return simulate(tmp_path, capsys, nodes, list(objects), *options)

    return simulated


def test_cpu_memory_and_the_number_of_pods(run: Any) -> None:
    nodes = [{"name": "n", "cpu": 4, "memory": "8Gi", "pods": 3}]
    large, small = spec(asks(cpu="3", memory="1Gi")), spec(asks(memory="1Gi"))
    asked = {"a": large, "b": large, "c": small, "d": small, "e": small}
    made = [{"kind": "Pod", "metadata": {"name": name}, **of} for name, of in asked.items()]
    found = run(nodes, *made)
    assert [bool(one["node"]) for one in found.json["pods"]] == [True, False, True, True, False]
    assert "cpu 3, most free is 1" in found.why("b")
    assert found.why("e") == "it has 3 pods, which is the most"


def test_the_least_loaded_node_first_or_the_most_loaded(run: Any) -> None:
    nodes = [{**TWO_OF_32, "count": 2}]
    asked = deployment(4, pod(gpu=1, gpumem=1000))
    assert [one["node"] for one in run(nodes, asked).json["pods"]] == ["n-0", "n-1"] * 2
    packed = run(nodes, asked, options=("--pack",))
    assert [one["node"] for one in packed.json["pods"]] == ["n-0"] * 4


def test_pods_of_high_priority_first(run: Any) -> None:
    important = {"kind": "PriorityClass", "metadata": {"name": "important"}, "value": 1000}
    late = pod("late", gpu=1)
    late["spec"]["priorityClassName"] = "important"
    found = run([{**TWO_OF_32, "gpus": [{"product": "T4"}]}], important, pod("early", gpu=1), late)
    assert (found.devices("early"), found.devices("late")) == ([], ["gpu-0"])
    late["spec"]["priorityClassName"] = "nothing"
    assert run([TWO_OF_32], late).why("late") == "the PriorityClass nothing does not exist"


def test_gpus_of_the_device_plugin_and_of_dra_in_one_cluster(run: Any) -> None:
    plugin = {
        "name": "p",
        "gpus": [{"product": "T4"}],
        "config": {"gpuNode": {"allocation": "device_plugin"}},
    }
    found = run([plugin, TWO_OF_32], deployment(4, pod(gpu=1)))
    assert [one["node"] for one in found.json["pods"]] == ["p", "n", "n", None]
    assert (
        found.why("web-3")
        == "nvidia.com/gpu 1, most free is 0; its devices are in use as whole GPUs"
    )


def test_a_daemonset_has_a_pod_on_each_node_that_suits(run: Any) -> None:
    nodes = [{**TWO_OF_32, "name": name, "labels": {"of": name}} for name in ("a", "b", "c")]
    daemon = {"kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {"template": pod(gpu=2)}}
    affinity = _affine(_is("of", "NotIn", "b"))
    daemon["spec"]["template"]["spec"] |= affinity
    found = run(nodes, daemon, pod("late", gpu=1))
    assert [(one["name"], one["node"]) for one in found.json["pods"]] == [
        ("d-a", "a"),
        ("d-c", "c"),
        ("late", "b"),
    ]


def test_lists_claims_and_pods_of_several_containers(run: Any) -> None:
    both = pod("both")
    both["spec"]["containers"] = [container("a", gpu=1), container("b", gpu=1)]
    bare = [{"metadata": one["metadata"], "spec": one["spec"]} for one in (both, claiming("none"))]
    items = {"kind": "PodList", "items": bare}
    found = run([TWO_OF_32], items)
    assert found.devices("both") == ["gpu-0", "gpu-1"]
    assert found.pods["none"]["node"] == "n"
