# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What ``gpu-cluster show`` prints of manifests and inventories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from gpu_cluster import cli
from gpu_cluster.show import inventory, manifests
from gpu_plugin._shared._base.errors import NodeError
from nvsim.catalog import FOLDER, product

from tests.fakes.cluster.hami_pods import Json, limits, pod
from tests.support.paths import REPOSITORY

V100 = {"name": "v100", "gpus": [{"product": "Tesla V100", "memory": "32Gi", "count": 2}]}
SHARE = limits(gpu=1, gpumem=10000)
CATALOG = ("a100-40", "a100-80", "a30", "h100-80", "h200-141", "l40s", "t4", "v100")


class Shown:
    """The output of a run."""

    def __init__(self, status: int, output: str, log: str) -> None:
        self.status, self.output, self.log = status, output, log
        self.objects: list[Json] = list(yaml.safe_load_all(output))

    def of_kind(self, kind: str) -> list[Json]:
        return [item for item in self.objects if item["kind"] == kind]


@pytest.fixture
def show(tmp_path: Path, capsys: Any) -> Any:
    def run(
        *objects: Json, nodes: list[Json] | None = None, options: tuple[str, ...] = ()
    ) -> Shown:
        args = ["show", *options]
        if nodes is not None:
            (tmp_path / "nodes.yaml").write_text(json.dumps({"nodes": nodes}))
            args += ["--inventory", str(tmp_path / "nodes.yaml")]
        if objects:
            (tmp_path / "pods.yaml").write_text("\n---\n".join(map(json.dumps, objects)))
            args.append(str(tmp_path / "pods.yaml"))
        status = cli.main(args)
        captured = capsys.readouterr()
        return Shown(status, captured.out, captured.err)

    return run


def test_a_pod_has_its_claim_in_place_of_the_resources(show: Any) -> None:
    shown = show(pod(SHARE), nodes=[V100])
    (template,) = shown.of_kind("ResourceClaimTemplate")
    (admitted,) = shown.of_kind("Pod")
    (claim,) = admitted["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == template["metadata"]["name"]
    resources = admitted["spec"]["containers"][0]["resources"]
    assert resources == {"limits": dict.fromkeys(SHARE, "0"), "claims": [{"name": claim["name"]}]}
    assert template["apiVersion"] == "resource.k8s.io/v1"
    assert shown.status == 0


def test_a_count_alone_is_shown_as_the_share_that_it_is(show: Any, tmp_path: Path) -> None:
    (tmp_path / "device-config.yaml").write_text("nvidia: {defaultMem: 5000}")
    options = ("--device-config", str(tmp_path / "device-config.yaml"))
    whole = show(pod(limits(gpu=1)), nodes=[V100], options=options)
    assert whole.of_kind("ResourceClaimTemplate") == []
    assert "defaultMemory is 5000" in whole.log
    shared = show(pod(limits(gpu=1)), nodes=[V100], options=(*options, "--count-alone", "share"))
    (template,) = shared.of_kind("ResourceClaimTemplate")
    assert "5000Mi" in str(template["spec"])
    assert shared.log == ""


def test_a_scheduler_of_another_chart_is_named_by_an_option(show: Any) -> None:
    one = pod(SHARE, schedulerName="4pd-scheduler")
    assert "pods of 4pd-scheduler are left as they are" in show(one, nodes=[V100]).log
    shown = show(one, nodes=[V100], options=("--hami-scheduler", "4pd-scheduler"))
    assert shown.of_kind("Pod")[0]["spec"]["schedulerName"] == "default-scheduler"
    assert shown.of_kind("ResourceClaimTemplate")


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Deployment", ("spec", "template")),
        ("Job", ("spec", "template")),
        ("CronJob", ("spec", "jobTemplate", "spec", "template")),
    ],
)
def test_the_pods_of_a_workload_are_admitted(show: Any, kind: str, path: tuple[str, ...]) -> None:
    template: Json = {"spec": pod(SHARE)["spec"]}
    for key in reversed(path):
        template = {key: template}
    metadata = {"name": "web", "namespace": "team"}
    shown = show({"apiVersion": "x/v1", "kind": kind, "metadata": metadata, **template})
    (workload,) = shown.of_kind(kind)
    for key in path:
        workload = workload[key]
    assert workload["spec"]["resourceClaims"]
    (claim_template,) = shown.of_kind("ResourceClaimTemplate")
    assert claim_template["metadata"]["namespace"] == "team"


def test_other_objects_stay_as_they_are(show: Any) -> None:
    others = [
        pod(limits(cpu=1)),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}},
    ]
    listed = {"apiVersion": "v1", "kind": "List", "items": others}
    assert show(listed).objects == others


def test_published_slices_among_the_manifests_count(show: Any) -> None:
    (slice_object,) = (
        item for item in inventory.parse(json.dumps({"nodes": [V100]}), "n") if _has_devices(item)
    )
    half = pod(limits(gpu=1, gpumem_percentage=50))
    assert "16Gi" not in show(half).output
    shown = show(half, dict(slice_object))
    assert "16Gi" in shown.output
    assert shown.of_kind("ResourceSlice") == [slice_object]


def _has_devices(item: Any) -> bool:
    return item["kind"] == "ResourceSlice" and bool(item["spec"].get("devices"))


def test_a_refused_pod_is_named_and_the_others_are_shown(show: Any) -> None:
    refused = pod(limits(gpu=1, gpumem="much"))
    refused["metadata"]["name"] = "refused"
    shown = show(refused, pod(SHARE), nodes=[V100])
    assert shown.status == 1
    assert "error: Pod/refused: spec.containers[0].resources.limits[nvidia.com/gpumem]" in shown.log
    assert [item["metadata"]["name"] for item in shown.of_kind("Pod")] == ["p"]


def test_the_classes_are_those_of_the_manifests() -> None:
    specs = {}
    for name in ("device-classes.yaml", "extended-resource.yaml"):
        file = REPOSITORY / "files/kubernetes/dra" / name
        for item in manifests.parse(file.read_text(), name):
            specs[item["metadata"]["name"]] = item["spec"]
    assert specs == {item["metadata"]["name"]: item["spec"] for item in manifests.DEVICE_CLASSES}


def test_a_row_with_a_count_is_that_many_nodes(show: Any) -> None:
    row = {"name": "n", "count": 2, "cpu": 64, "gpus": [{"product": "T4"}], "labels": {"a": "b"}}
    shown = show(nodes=[row])
    first, second = shown.of_kind("Node")
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("n-0", "n-1")
    assert first["metadata"]["labels"] == {"kubernetes.io/hostname": "n-0", "a": "b"}
    assert first["status"]["allocatable"]["cpu"] == "64"
    slices = shown.of_kind("ResourceSlice")
    assert {item["spec"]["nodeName"] for item in slices} == {"n-0", "n-1"}
    devices = [device for item in slices for device in item["spec"].get("devices") or ()]
    assert [device["name"] for device in devices] == ["gpu-0", "gpu-0-share"] * 2
    uuids = {
        device["attributes"]["uuid"]["string"]
        for device in devices
        if "uuid" in device["attributes"]
    }
    assert uuids == {"GPU-n-0-0", "GPU-n-1-0"}


def test_the_device_plugins_configuration_says_how_gpus_are_shared(show: Any) -> None:
    dra = {"devices": [1], "splitCount": 4, "memoryScaling": 2, "enforcement": "none"}
    config = {"gpuNode": {"allocation": "both", "dra": dra}}
    shown = show(nodes=[{"gpus": [{"product": "T4", "count": 2}], "config": config}])
    devices = [
        d for item in shown.of_kind("ResourceSlice") for d in item["spec"].get("devices") or ()
    ]
    assert [device["name"] for device in devices] == ["gpu-1", "gpu-1-share"]
    assert devices[1]["capacity"]["shares"]["value"] == "4"
    assert devices[1]["capacity"]["memory"]["value"] == "30Gi"


def test_the_device_plugins_gpus_are_extended_resources(show: Any) -> None:
    config = {"gpuNode": {"allocation": "device_plugin"}}
    shown = show(nodes=[{"gpus": [{"product": "T4", "count": 3}], "config": config}])
    (node,) = shown.of_kind("Node")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "3"
    assert shown.of_kind("ResourceSlice") == []


@pytest.mark.parametrize("name", CATALOG)
def test_a_known_product_is_as_nvml_reports_it(name: str) -> None:
    real = product(name)
    key = inventory.known_product(real.name)
    assert inventory.KNOWN[key] == (real.memory_mib, real.compute_capability)
    profiles = inventory.mig_profiles(key, real.memory_mib)
    assert bool(profiles) is real.mig_capable
    for profile in profiles:
        same = next(other for other in real.profiles if other.id == profile.id)
        assert abs(profile.memory_mb - same.memory_mib) <= real.memory_mib * 0.03


def test_each_product_of_the_catalog_is_compared() -> None:
    assert {file.stem for file in FOLDER.glob("*.toml")} - {"b200"} == {*CATALOG}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"nodes.yaml: nodes: \[\] is not valid: expected a list of nodes"),
        ([{"gpu": []}], r"nodes\[0\].gpu: .* the nearest is gpus"),
        ([{"gpus": [{"produkt": "T4"}]}], r"gpus\[0\].produkt: .* the nearest is product"),
        ([{"gpus": [{"product": "Foo"}]}], r"gpus\[0\].memory: None is not valid"),
        ([{"gpus": [{"product": "T4", "memory": "much"}]}], r"memory: 'much' is not valid"),
        ([{"gpus": [{"product": "T4", "mig": True}]}], r"gpus\[0\].mig: 'T4' is not valid"),
        ([{"gpus": [{"product": "T4", "count": 65}]}], r"gpus\[0\].count: 65 is not valid"),
        ([{"gpus": [{"computeCapability": "new", "memory": "8Gi"}]}], "Capability: 'new' is not"),
        ([{"count": 0}], r"nodes\[0\].count: 0 is not valid"),
        ([{"count": 5000}, {}], "nodes: 'node' is not valid: expected at most 5000 nodes"),
        ([{"name": "n"}, {"name": "n"}], "nodes: 'n' is not valid: expected names that differ"),
        ([{"config": {"gpuNode": {"allocation": "mine"}}}], r"nodes\[0\].config"),
        ([{"config": "dra"}], r"nodes\[0\].config: 'dra' is not valid"),
        ([{"cpu": "many"}], r"nodes\[0\].cpu: 'many' is not valid"),
    ],
)
def test_a_wrong_value_of_an_inventory_is_named(rows: list[Json], message: str) -> None:
    with pytest.raises(NodeError, match=message):
        inventory.parse(json.dumps({"nodes": rows}), "nodes.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("{" * 3000, "not valid YAML"),
        ("- 1", "document 1 is no object of Kubernetes: it has no kind"),
        ("kind: Pod\n---\nspec: 1", "document 2 is no object"),
        ("&a [*a]", "is no object"),
    ],
)
def test_a_text_without_manifests_is_refused(text: str, message: str) -> None:
    with pytest.raises(NodeError, match=message):
        manifests.parse(text, "pods.yaml")


def test_a_damaged_manifest_is_an_error_without_a_traceback(show: Any) -> None:
    shown = show({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [1]}})
    assert shown.status == 1
    assert "Pod/p is damaged" in shown.log
    assert "kubectl apply --dry-run=server" in shown.log


def test_without_anything_to_show_the_options_are_named(show: Any) -> None:
    shown = show()
    assert shown.status == 1
    assert "name manifests, --inventory FILE, or both" in shown.log


def test_a_missing_file_is_named(show: Any, tmp_path: Path) -> None:
    assert "no.yaml can't be read: " in show(options=(str(tmp_path / "no.yaml"),)).log


def test_manifests_come_from_the_standard_input(
    show: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").write_text(json.dumps(pod(SHARE)))
    with (tmp_path / "in").open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert show(options=("-",)).of_kind("Pod")


def test_hami_names_come_from_its_configuration(show: Any, tmp_path: Path) -> None:
    (tmp_path / "device-config.yaml").write_text("nvidia: {resourceMemoryName: example.com/mem}\n")
    asking = pod({"nvidia.com/gpu": 1, "example.com/mem": 5000})
    options = ("--device-config", str(tmp_path / "device-config.yaml"))
    assert show(asking, options=options).of_kind("ResourceClaimTemplate")


@pytest.mark.attack("terminal-escapes")
def test_control_characters_of_manifests_are_escaped(show: Any) -> None:
    owned = "\x1b]0;owned\x07\x1b[2J\u202e"
    manifest = pod(limits(gpu=1, gpumem="much"))
    manifest["metadata"] = {"name": owned, "annotations": {owned: owned}}
    shown = show(manifest, {**pod(SHARE), "metadata": {"name": owned}})
    assert set("\x1b\x07\u202e").isdisjoint(shown.output + shown.log)
    assert "owned" in shown.output
    assert "owned" in shown.log
