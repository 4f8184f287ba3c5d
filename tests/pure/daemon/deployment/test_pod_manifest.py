# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The daemon as a pod: what the manifest asks for exists, in Kubernetes' API and in the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes.client as api
import pytest
import yaml
from gpu_plugin import cli
from gpu_plugin.config.configuration import parse
from gpu_plugin.report.probes import STUCK
from gpu_plugin.tools import status

from tests.support.paths import REPOSITORY
from tests.support.refusals import refused_otherwise

MANIFESTS = sorted((REPOSITORY / "files/kubernetes").glob("*.yaml"))
CONTAINERFILE = (REPOSITORY / "files/gpu_plugin/Containerfile").read_text()
DOCUMENTS = [yaml.safe_load(path.read_text()) for path in MANIFESTS]
OBJECTS = [one for each in DOCUMENTS for one in each.get("items", [each])]
OTHERS = (
    "nfd.",
    "readiness.node.x-k8s.io",
)  # of node feature discovery, and of the node readiness controller
OF_KUBERNETES = [one for one in OBJECTS if not one["apiVersion"].startswith(OTHERS)]
(CONFIG,) = [one for one in OBJECTS if one["kind"] == "ConfigMap"]
(DAEMON,) = [one for one in OBJECTS if one["kind"] == "DaemonSet"]
POD = DAEMON["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def check(data: Any, kind: str, where: str) -> None:
    """Compare a manifest's part with the API's type of that name, field by field."""
    if match := re.fullmatch(r"List\[(.*)\]", kind):
        assert isinstance(data, list), where
        for at, one in enumerate(data):
            check(one, match[1], f"{where}[{at}]")
    elif match := re.fullmatch(r"Dict\[str, (.*)\]", kind):
        for key, one in data.items():
            check(one, match[1], f"{where}.{key}")
    elif kind in ("str", "int", "bool", "float"):
        assert type(data).__name__ == kind, f"{where}: {data!r} is no {kind}"
    elif kind == "object":  # IntOrString and the like
        assert isinstance(data, (str, int)), where
    else:
        model = getattr(api, kind)
        names = {there: ours for ours, there in model.attribute_map.items()}
        for key, one in data.items():
            assert key in names, f"{where}: {kind} has no field {key}"
            check(one, model.openapi_types[names[key]], f"{where}.{key}")
        model.model_validate(data)  # what is required is there


def test_manifests_are_of_kubernetes_api() -> None:
    for data in OF_KUBERNETES:
        check(data, f"V1{data['kind']}", f"{data['kind']} {data['metadata']['name']}")


def test_the_check_sees_mistakes() -> None:
    def see(change: dict[str, Any]) -> None:
        check({**CONTAINER["securityContext"], **change}, "V1SecurityContext", "it")

    cases: list[tuple[dict[str, Any], str]] = [
        ({"privilegd": True}, "V1SecurityContext has no field privilegd"),
        ({"runAsUser": "0"}, "runAsUser: '0' is no int"),
    ]
    assert refused_otherwise(see, cases, AssertionError) == []


def test_the_command_line_is_ours() -> None:
    options = cli._parser().parse_args(CONTAINER["args"])
    assert options.command is cli._run
    mounts = {one["mountPath"]: one for one in CONTAINER["volumeMounts"]}
    assert str(Path(options.config).parent) in mounts
    assert Path(options.config).name in CONFIG["data"]
    writable = {path for path, one in mounts.items() if not one.get("readOnly")}
    root = str(options.host_root)
    assert writable == {
        str(Path(options.kubelet_socket).parent),
        str(Path(status.DEFAULT_FILE).parent),
        str(options.state_directory),
        f"{root}/var/run/cdi",
    }
    assert {f"{root}/{name}" for name in ("dev", "proc", "sys", "etc/cdi")} < set(mounts)


def test_its_parts_fit_together() -> None:
    config = parse(CONFIG["data"]["config.yaml"])
    assert config.metrics is not None
    assert [one["containerPort"] for one in CONTAINER["ports"]] == [config.metrics[1]]
    names = {one["name"] for one in POD["volumes"]}
    assert names == {one["name"] for one in CONTAINER["volumeMounts"]}
    labels = DAEMON["spec"]["template"]["metadata"]["labels"]
    assert DAEMON["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.attack("silent-metrics-client")
def test_no_port_decides_whether_the_plugin_lives() -> None:
    """Whoever reaches the metrics could make a probe by HTTP fail, and the kubelet end the plugin."""
    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = CONTAINER[name]
        assert not {"httpGet", "tcpSocket", "grpc"} & set(probe)
        program, *arguments = probe["exec"]["command"]
        assert f'ENTRYPOINT ["{program}"]' in CONTAINERFILE
        options = cli._parser().parse_args(arguments)
        assert options.command is cli._probe
        assert options.ready == (name == "readinessProbe")
        assert options.status_file == cli._parser().parse_args(CONTAINER["args"]).status_file


def test_a_probe_is_no_burden_and_a_busy_node_no_reason_to_end_the_plugin() -> None:
    """A loop that hangs is seen from STUCK seconds on: to ask more often tells nothing more."""
    probe = CONTAINER["livenessProbe"]
    assert probe["periodSeconds"] >= STUCK
    assert probe["timeoutSeconds"] >= STUCK / 2


@pytest.mark.attack("silent-metrics-client")
def test_a_network_policy_says_who_reaches_the_metrics() -> None:
    (policy,) = [one["spec"] for one in OBJECTS if one["kind"] == "NetworkPolicy"]
    labels = DAEMON["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert set(policy["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["egress"] == []
    (rule,) = policy["ingress"]
    assert [one["port"] for one in rule["ports"]] == [CONTAINER["ports"][0]["containerPort"]]
    for source in rule["from"]:  # an empty selector would be everybody
        assert source["namespaceSelector"]["matchLabels"]


def test_the_container_has_no_capabilities() -> None:
    context = CONTAINER["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(POD)


def test_nothing_is_unpinned() -> None:
    assert re.fullmatch(r"gpu-plugin@sha256:[0-9a-f]{64}", CONTAINER["image"])
    assert re.findall(r"^ARG BASE.*", CONTAINERFILE, re.MULTILINE) == ["ARG BASE"]
    stages = set(re.findall(r"^FROM \S+ AS (\S+)", CONTAINERFILE, re.MULTILINE))
    assert set(re.findall(r"^FROM (\S+)", CONTAINERFILE, re.MULTILINE)) - stages == {"${BASE}"}
    assert "apt" not in CONTAINERFILE
    for option in ("--require-hashes", "--only-binary=:all:", "--no-deps"):
        assert CONTAINERFILE.count("pip install") == CONTAINERFILE.count(option) == 2
