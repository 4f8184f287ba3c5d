# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""k0s and MicroK8s bring a containerd of their own, and a kubelet says which runtime it uses."""

from __future__ import annotations

import tomllib

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._runtime import containerd
from ansible_collections.gpu.node.plugins.module_utils._runtime.state import RuntimeKind

from tests.fakes.library.runtime_host import (
    CONFIG,
    OLD,
    RuntimeHost,
    capability,
    converge,
    planned,
    with_kubelet,
)

MAIN = containerd.K0S.config_path
GENERATED = '# k0s_managed=true\nversion = 2\nimports = ["/run/k0s/containerd-cri.toml"]\n'
MERGED = f'version = 2\n[plugins."{OLD}"]\nsandbox_image = "registry.example.com/pause:3.10"\n'
TEMPLATE = f'version = 2\n[plugins."{OLD}".containerd]\ndefault_runtime_name = "${{RUNTIME}}"\n'


def bundled(kind: RuntimeKind, files: dict[str, str], **versions: str) -> RuntimeHost:
    """Return a machine whose containerd is that of a distribution of Kubernetes, and in no folder of PATH."""
    host = RuntimeHost(files, **{"containerd": "1.7.27", **versions})  # type: ignore[arg-type]
    if "containerd" not in versions:
        for argv in [key for key in host.commands if key[0] == "containerd"]:
            host.commands[(kind.program, *argv[1:])] = host.commands.pop(argv)
    else:
        for argv in [key for key in host.commands if key[0] == "containerd"]:
            host.commands[(kind.program, *argv[1:])] = host.commands[argv]
    host.commands["systemctl", "show"] = (
        "LoadState=loaded\nActiveState=active\nActiveEnterTimestampMonotonic=1\n"
    )
    return host


def k0s(**versions: str) -> RuntimeHost:
    return bundled(containerd.K0S, {MAIN: GENERATED, containerd.K0S_MERGED: MERGED}, **versions)


def names(host: RuntimeHost) -> list[str]:
    return [state.runtime.kind.name for state in capability(host, name="auto").observe().states]


@pytest.mark.parametrize("mode", ["cdi", "runtime_class", "default_runtime"])
def test_settings_of_k0s_go_into_the_folder_that_it_merges(mode: str) -> None:
    host = k0s()
    host.install_toolkit()
    before = host.own_files()
    (step,) = converge(host, name="auto", mode=mode)
    assert containerd.K0S_DROP_IN in step
    assert {MAIN: host.files[MAIN]} == {MAIN: GENERATED}
    assert host.files[containerd.K0S_MERGED] == MERGED  # k0s writes it
    plan = planned(host, name="auto", mode=mode)
    assert (plan.steps, plan.restart_required) == ((), ("k0sworker.service",))
    section = tomllib.loads(host.files[containerd.K0S_DROP_IN])["plugins"][OLD]
    assert section["enable_cdi"] is True
    assert ("nvidia" in str(section)) == (mode != "cdi")
    converge(host, name="auto", state="absent")
    assert host.own_files() == before


def test_a_file_that_was_taken_over_from_k0s_is_edited() -> None:
    host = bundled(containerd.K0S, {MAIN: "version = 2\n"})
    assert converge(host, name="k0s") == [f"set enable_cdi = true in {MAIN}"]


def test_k0s_beside_other_runtimes_is_looked_at_too() -> None:
    assert names(k0s(docker="28.3.0")) == ["docker", "k0s"]
    host = k0s(containerd="1.7.24")
    host.files[CONFIG] = "version = 2\n"
    assert names(host) == ["containerd", "k0s"]


def test_the_file_of_k0s_is_not_taken_for_another_containerds() -> None:
    host = k0s()
    with pytest.raises(NodeError, match=r"containerd is not installed: the node has k0s.*to k0s"):
        planned(host, config_path=MAIN)
    host = k0s(containerd="1.7.24")
    with pytest.raises(NodeError, match=r"regenerated.*name the runtime: k3s, rke2, or k0s"):
        planned(host, config_path=MAIN)


def test_settings_of_microk8s_go_into_its_template() -> None:
    path = containerd.MICROK8S.config_path
    host = bundled(containerd.MICROK8S, {path: TEMPLATE})
    host.install_toolkit()
    host.commands["systemctl", "show"] += "MainPID=77\n"  # type: ignore[operator]
    host.files["/proc/77/cmdline"] = (
        "/snap/microk8s/1/bin/containerd\0--config\0/var/snap/microk8s/1/args/containerd.toml\0"
    )
    (step,) = converge(host, name="auto", mode="default_runtime")
    assert path in step
    plan = planned(host, name="auto", mode="default_runtime")
    assert plan.restart_required == ("snap.microk8s.daemon-containerd.service",)
    converge(host, name="microk8s", state="absent")
    assert host.files[path] == TEMPLATE


@pytest.mark.parametrize(
    ("args", "config", "warned"),
    [
        (["--container-runtime-endpoint=unix:///run/cri.sock"], "", "unix:///run/cri.sock"),
        (
            ["--config=/k.yaml"],
            "containerRuntimeEndpoint: unix:///run/cri.sock\n",
            "unix:///run/cri.sock",
        ),
        (
            ["--config", "/k.yaml"],
            '{\n "containerRuntimeEndpoint": "/run/cri.sock"\n}',
            "/run/cri.sock",
        ),
        (
            ["--config=/k.yaml"],
            "containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n",
            "",
        ),
        (["--container-runtime-endpoint=/var/run/crio/crio.sock"], "", "/var/run/crio/crio.sock"),
        (["--config=/k.yaml"], "kind: KubeletConfiguration\n", ""),
        ([], "", ""),
    ],
)
def test_a_kubelet_that_uses_none_of_the_runtimes_is_named(
    args: list[str], config: str, warned: str
) -> None:
    host = RuntimeHost({CONFIG: "version = 2\n", "/k.yaml": config}, containerd="1.7.24")
    warnings = planned(with_kubelet(host, *args)).warnings
    found = [text for text in warnings if text.startswith("the kubelet uses ")]
    assert len(found) == bool(warned)
    assert not warned or f"{warned}, which is the socket of none of containerd" in found[0]


def test_a_containerd_with_another_socket_is_the_kubelets() -> None:
    text = 'version = 2\n[grpc]\naddress = "/run/cri.sock"\n'
    host = with_kubelet(
        RuntimeHost({CONFIG: text}, containerd="1.7.24"),
        "--container-runtime-endpoint=unix:///run/cri.sock",
    )
    assert planned(host).warnings == ()


def test_without_a_known_runtime_the_refusal_says_what_the_kubelet_uses() -> None:
    host = with_kubelet(RuntimeHost(), "--container-runtime-endpoint=unix:///run/other.sock")
    with pytest.raises(NodeError, match=r"no container runtime.*uses unix:///run/other\.sock"):
        planned(host, name="auto")
