# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the device plugin gives through NVIDIA's runtime is refused on a node whose runtimes have no such handler."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.nvidia import runs_nvidia
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import RECORD
from ansible_collections.gpu.node.plugins.module_utils._runtime.state import RuntimeView

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.preflight_nodes import H100, Look, node
from tests.fakes.library.runtime_host import CONFIG, OLD, RuntimeHost, with_kubelet

PROGRAM = "/usr/bin/nvidia-container-runtime"
ENVVAR = {"flags": {"plugin": {"deviceListStrategy": ["envvar"]}}}
VOLUMES = {"flags": {"plugin": {"deviceListStrategy": "volume-mounts"}}}
REFUSED = "nothing was changed, as one thing has to be corrected first"
TABLE = f'[plugins."{OLD}".containerd.runtimes.nvidia'
HANDLER = f"""version = 2
{TABLE}]
runtime_type = "io.containerd.runc.v2"
{TABLE}.options]
BinaryName = "{{}}"
"""
HOOK = "/usr/share/containers/oci/hooks.d/oci-nvidia-hook.json"


@pytest.fixture
def host() -> FakeHost:
    one = RuntimeHost(node(H100).files, containerd="1.7.24")
    one.commands |= {("apt-get",): "", ("python3",): ""}
    return one


@pytest.mark.parametrize(
    ("variables", "named", "value"),
    [
        ({"device_plugin_config": ENVVAR}, "device_plugin_config", "['envvar']"),
        ({"device_plugin_config": VOLUMES}, "device_plugin_config", "['volume-mounts']"),
        ({"device_plugin_configs": {"few": ENVVAR}}, "device_plugin_configs.few", "['envvar']"),
    ],
)
def test_a_strategy_that_no_runtime_of_the_node_carries_out_is_refused(
    look: Look, variables: dict[str, Any], named: str, value: str
) -> None:
    both = look(**{**variables, "cdi_path": "relative"})
    assert "2 things have" in both
    said = look(**variables)
    assert said.startswith(REFUSED)
    assert f"- {named}: flags.plugin.deviceListStrategy: {value} is not valid: " in said
    assert "containerd" in said
    assert "set deviceListStrategy: [cdi-annotations, cdi-cri]" in said
    assert "container_runtime_mode: runtime_class" in said


CRI = {"flags": {"plugin": {"deviceListStrategy": ["cdi-cri"]}}}
KUBELET = "Kubernetes v1.26.11\n"
ENDPOINT = "--container-runtime-endpoint=unix://{}"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"device_plugin_config": CRI}, "device_plugin_config"),
        ({"device_plugin_configs": {"few": CRI}}, "device_plugin_configs.few"),
    ],
)
def test_a_strategy_that_the_kubelet_drops_is_refused(
    look: Look, host: RuntimeHost, variables: dict[str, Any], named: str
) -> None:
    host.commands["kubelet", "--version"] = KUBELET
    said = look(**variables)
    assert f"- {named}: flags.plugin.deviceListStrategy: ['cdi-cri'] is not valid: " in said
    assert "kubelet 1.26.11 drops the answer of cdi-cri, which 1.29.0 and later pass on" in said
    assert "set deviceListStrategy: [cdi-annotations] there, or upgrade to kubelet 1.29.0" in said


ROOT = "/run/nvidia/driver"
DRIVER_CONFIG = {"flags": {"nvidiaDriverRoot": f"{ROOT}/"}}
LIBRARY = f"{ROOT}/usr/lib64/libnvidia-ml.so.1"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"cdi_driver_root": ROOT}, "cdi_driver_root"),
        ({"device_plugin_config": DRIVER_CONFIG}, "device_plugin_config: flags.nvidiaDriverRoot"),
        (
            {"device_plugin_configs": {"few": {"flags": {"nvidiadriverroot": ROOT}}}},
            "device_plugin_configs.few: flags.nvidiaDriverRoot",
        ),
    ],
)
def test_driver_below_another_root_that_is_not_there_is_refused(
    look: Look, host: RuntimeHost, variables: dict[str, Any], named: str
) -> None:
    refused = look(**variables)
    assert refused.startswith(REFUSED)
    assert f"- {named}: no driver is below {ROOT}: libnvidia-ml.so.1 is not there" in refused
    host.files[LIBRARY] = ""
    assert look(**variables) == ""


@pytest.mark.parametrize(
    ("program", "printed", "socket", "refused"),
    [
        ("containerd", "containerd x 1.7.1 y\n", "/run/containerd/containerd.sock", "1.7.2"),
        ("containerd", "containerd x 1.7.2 y\n", "/run/containerd/containerd.sock", ""),
        ("containerd", "containerd x 1.7.1 y\n", "/run/k3s/containerd/containerd.sock", ""),
        ("crio", "crio version 1.27.8\n", "/var/run/crio/crio.sock", "1.28.0"),
        ("crio", "crio version 1.28.0\n", "/var/run/crio/crio.sock", ""),
        ("cri-dockerd", "cri-dockerd 0.3.4 (e88b1605)\n", "/run/cri-dockerd.sock", "0.4.4"),
    ],
)
def test_a_strategy_that_the_kubelets_runtime_drops_is_refused(
    look: Look, host: RuntimeHost, program: str, printed: str, socket: str, refused: str
) -> None:
    host.commands["kubelet", "--version"] = "Kubernetes v1.36.3\n"
    host.commands[program, "--version"] = printed
    with_kubelet(host, ENDPOINT.format(socket))
    said = look(device_plugin_config=CRI)
    assert bool(said) == bool(refused)
    assert f"which {refused} and later pass on" in said if refused else not said


def test_the_default_reaches_no_container_of_cri_dockerd(look: Look, host: RuntimeHost) -> None:
    host.commands["cri-dockerd", "--version"] = "cri-dockerd 0.3.4 (e88b1605)\n"
    with_kubelet(host, ENDPOINT.format("/run/cri-dockerd.sock"))
    said = look()
    assert "cri-dockerd 0.3.4 drops the answer of cdi-annotations, and cri-dockerd 0.3.4 " in said
    assert "set deviceListStrategy: [envvar] there and container_runtime_mode: " in said


def test_claims_reach_no_container_of_cri_dockerd(look: Look, host: RuntimeHost) -> None:
    host.commands["cri-dockerd", "--version"] = "cri-dockerd 0.4.3 (HEAD)\n"
    with_kubelet(host, ENDPOINT.format("/run/cri-dockerd.sock"))
    said = look(gpu_nodes_allocation="dra")
    assert "gpu_nodes_allocation: 'dra' is not possible: devices of claims reach " in said
    assert "cri-dockerd 0.4.3 drops the answer of cdi-cri, which 0.4.4 and later pass on" in said


@pytest.mark.parametrize(
    ("chosen", "printed"),
    [
        (["cdi-cri"], "Kubernetes v1.29.0+k3s1\n"),
        (["cdi-cri"], "no version"),
        (["cdi-annotations"], KUBELET),
        (["cdi-cri", "cdi-annotations"], KUBELET),
    ],
)
def test_a_strategy_that_the_kubelet_may_pass_on_is_taken(
    look: Look, host: RuntimeHost, chosen: list[str], printed: str
) -> None:
    host.commands["kubelet", "--version"] = printed
    assert look(device_plugin_config={"flags": {"plugin": {"deviceListStrategy": chosen}}}) == ""


def test_no_program_is_asked_for_the_default(look: Look, host: RuntimeHost) -> None:
    host.commands["kubelet", "--version"] = KUBELET
    assert look() == ""
    assert ("kubelet", "--version") not in host.ran


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {
            "device_plugin_config": {
                "flags": {"plugin": {"deviceListStrategy": ["cdi-annotations"]}}
            }
        },
        {"device_plugin_config": {"flags": {"plugin": {"deviceListStrategy": "cdi-cri"}}}},
        {"device_plugin_config": {"flags": {"plugin": {"devicelistStrategy": "cdi-cri"}}}},
        {
            "device_plugin_config": {
                "flags": {"plugin": {"deviceListStrategy": ["envvar", "cdi-cri"]}}
            }
        },
        {"device_plugin_config": ENVVAR, "device_plugin_state": "stopped"},
        {"device_plugin_config": ENVVAR, "gpu_nodes_allocation": "dra"},
        {"device_plugin_config": ENVVAR, "container_toolkit_state": "present"},
    ],
)
def test_what_reaches_containers_is_not(look: Look, variables: dict[str, Any]) -> None:
    assert look(**variables) == ""


def test_a_handler_that_the_same_run_sets_up_is_enough(look: Look, host: RuntimeHost) -> None:
    host.install_toolkit()
    assert look(device_plugin_config=ENVVAR, container_runtime_mode="runtime_class") == ""


@pytest.mark.parametrize(
    "program",
    [PROGRAM, "/usr/local/nvidia/toolkit/nvidia-container-runtime", f"{PROGRAM}.legacy"],
)
def test_a_handler_that_is_there_is_enough(look: Look, host: FakeHost, program: str) -> None:
    host.files[CONFIG] = HANDLER.format(program)
    assert look(device_plugin_config=ENVVAR) == ""
    host.files[CONFIG] = HANDLER.format("/usr/bin/runc")
    assert look(device_plugin_config=ENVVAR).startswith(REFUSED)


def test_a_handler_of_ours_that_the_mode_takes_back_is_not(look: Look, host: FakeHost) -> None:
    host.files[CONFIG] = HANDLER.format(PROGRAM)
    path = ["plugins", OLD, "containerd", "runtimes", "nvidia", "options", "BinaryName"]
    written = {"runtime": "containerd", "base": None, "text": host.files[CONFIG]}
    host.files[RECORD] = json.dumps({CONFIG: {**written, "entries": [[path, PROGRAM, [], 0]]}})
    assert look(device_plugin_config=ENVVAR).startswith(REFUSED)
    others = ["driver", "device_plugin"]
    assert look(components=others, device_plugin_config=ENVVAR) == ""


def test_a_hook_is_enough(look: Look, host: FakeHost) -> None:
    host.files[HOOK] = '{"hook": {"path": "/usr/bin/nvidia-container-runtime-hook"}}'
    assert look(device_plugin_config=ENVVAR) == ""
    host.files[HOOK] = '{"hook": {"path": "/usr/bin/other"}}'
    assert look(device_plugin_config=ENVVAR).startswith(REFUSED)


def test_what_is_not_known_is_not_refused(look: Look, host: FakeHost) -> None:
    """A file that containerd can't read is told of by the role that has to change it."""
    host.commands["containerd", "--config"] = host.commands["containerd", "config"] = "x = ["
    host.files[CONFIG] = "x = ["
    assert look(components=["device_plugin"], device_plugin_config=ENVVAR) == ""


def test_nothing_is_asked_of_runtimes_where_no_handler_is_needed(
    look: Look, host: FakeHost
) -> None:
    look(components=["device_plugin"])
    assert not [one for one in host.ran if one[0] == "containerd"]


@pytest.mark.parametrize(
    ("effective", "has"),
    [
        ({"runtimes": {"nvidia": {"path": PROGRAM}}}, True),
        ({"runtimes": {"nvidia": {"runtime_path": PROGRAM}, "runc": {}}}, True),
        ({"runtimes": {"nvidia": {"path": "/usr/bin/runc"}}}, False),
        ({"plugins": {"x": [{"runtimes": {"gpu": {"options": {"BinaryName": PROGRAM}}}}]}}, True),
        ({}, False),
    ],
)
def test_a_handler_is_known_by_its_program(effective: dict[str, Any], has: bool) -> None:
    assert runs_nvidia(RuntimeView((1,), effective=effective).effective) is has
