# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Each fault of a node fails its own check, and no other."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.cdi import (
    SpecificationState,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.check import judged
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.containers import (
    Answer,
    answer,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.gpus import Layout
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.node import ValidateOptions
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.services import Holds, Unit
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.library.nodes_to_validate import (
    CDI,
    MIGS,
    PARTED,
    PLAIN,
    VERSION,
    driver,
    failures,
    node,
    resource,
    told,
)

AGAIN = "run the role gpu.node.cdi"
LOG = "see the log of gpu-device-plugin.service"
OWN = "see the log of gpu-node-labels.service"
UUIDS = (PLAIN.uuid, PARTED.uuid)
KEYS = st.sampled_from(("uuids", "problem", "cuda", "untried"))
JSON = st.dictionaries(KEYS, st.none() | st.text() | st.integers() | st.lists(st.text()))


@pytest.mark.parametrize(
    ("said", "name", "text"),
    [
        (
            {**resource(), "state": "waiting_for_driver", "problem": "the driver is not loaded"},
            "device plugin",
            f"the device plugin is not serving (the driver is not loaded) -> {LOG}",
        ),
        (
            {"state": "not_running"},
            "device plugin",
            f"the device plugin is not serving (it does not run) -> {LOG}",
        ),
        (
            {
                **resource(registered=False),
                "registration_problem": "can't listen on /var/lib/kubelet: Read-only file system",
            },
            "registration",
            "the kubelet does not know of nvidia.com/gpu (can't listen on /var/lib/kubelet: Read-only file system)"
            f" -> {LOG}",
        ),
        (
            {"allocatable": {}, "kubelet_problem": "connection refused"},
            "allocatable",
            "what the kubelet can allocate is not known: connection refused -> "
            "see whether the kubelet runs: systemctl status kubelet",
        ),
        (
            {"allocatable": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 1}},
            "allocatable",
            "the kubelet can't allocate what the device plugin advertises (nvidia.com/mig-1g.5gb: 1 of 2) -> "
            f"restart the kubelet; {LOG}",
        ),
        (
            {"mig_boot": {"state": "failed", "problems": ["no room", "GPU 1: busy"]}},
            "MIG at boot",
            "gpu-mig.service failed at boot (no room; GPU 1: busy) -> "
            "fix the cause, then run the playbook gpu.node.mig",
        ),
        (
            {"mig_uuids": [MIGS[0]]},
            "devices",
            "the device plugin does not know the MIG devices that the GPUs have -> restart gpu-device-plugin",
        ),
        (
            {"mps": {"GPU-1": {"problem": "no answer", "waits_for_clients": False}}},
            "MPS",
            "MPS is not ready (GPU-1: no answer) -> see the log of gpu-mps.service",
        ),
        (
            {"cdi": {**CDI, "failed": True}},
            "CDI",
            "gpu-cdi.service failed: the specification is not kept up to date -> "
            f"see the log of gpu-cdi.service, fix the cause, then {AGAIN}",
        ),
        (
            {"cdi": {**CDI, "devices": [*CDI["devices"], PARTED.uuid]}},
            "CDI devices",
            f"/etc/cdi/nvidia.yaml does not describe the devices that the GPUs have -> {AGAIN}",
        ),
        (
            {"cdi": {**CDI, "missing": ["/lib/libcuda.so.1", "/bin/hook"]}},
            "CDI files",
            f"/etc/cdi/nvidia.yaml mounts files that are gone (/lib/libcuda.so.1, /bin/hook) -> {AGAIN}",
        ),
        (
            {"labels": {"state": "failing", "problem": "403"}},
            "labels",
            f"the node's labels are not kept up to date (403) -> {OWN}",
        ),
        ({"labels": None}, "labels", f"nothing keeps the node's labels up to date -> {OWN}"),
        (
            {
                "labels": {
                    "state": "labelled",
                    "labels": {"nvidia.com/cuda.driver-version.full": "1.2"},
                }
            },
            "labels",
            f"nvidia.com/cuda.driver-version.full says 1.2, and {VERSION} is loaded -> "
            "systemctl restart gpu-node-labels.service",
        ),
        (
            {
                **resource(
                    devices={"GPU-1": "Unhealthy", "GPU-2": "Healthy", "GPU-3": "Unhealthy"},
                    problems={"GPU-1": "XID 79"},
                )
            },
            "health",
            "the device plugin reports unhealthy devices (nvidia.com/gpu GPU-1: XID 79; nvidia.com/gpu GPU-3) -> "
            "see '/opt/gpu-node/bin/gpu-plugin status' on the node",
        ),
    ],
)
def test_each_fault_that_the_daemon_tells(said: dict[str, t.Any], name: str, text: str) -> None:
    assert failures(node(said)) == {name: text}


@pytest.mark.parametrize(
    ("changes", "name", "text"),
    [
        (
            driver(libraries=("570.1.2",)),
            "driver version",
            f"version {VERSION} is loaded, the libraries are of 570.1.2 -> "
            "reboot the node, or reload the modules (nvidia_driver_reload: when_idle)",
        ),
        (driver(nouveau=True), "reboot", "the nouveau driver holds the GPUs -> reboot the node"),
        (
            driver(kernels=("6.1.0-9", "6.1.0-10"), bare=("6.1.0-10",)),
            "kernels",
            "the kernel 6.1.0-10 has no modules of the driver: after a boot into it no GPU works -> "
            "run gpu.node.gpu_nodes, which says what it lacks, or remove it",
        ),
        (
            driver(fabric="failed"),
            "fabric manager",
            "nvidia-fabricmanager.service is failed, and without it CUDA does not start -> "
            "see journalctl -u nvidia-fabricmanager.service; it must be of exactly the driver's version",
        ),
        (
            driver(fabric_version="550.1.2"),
            "fabric manager",
            f"it has version 550.1.2, the driver {VERSION} -> "
            "install the fabric manager of the driver's version (gpu.node.gpu_nodes)",
        ),
        (
            {"holds": Holds(frozenset({"nvidia-smi"}), frozenset())},
            "holds",
            "an upgrade would take nvidia-smi, which was on hold -> "
            "run the role gpu.node.nvidia_driver, which holds it again",
        ),
        (
            {"layout": Layout("half", tuple(f"GPU 1: create {at}" for at in range(6)))},
            "MIG",
            "the GPUs are not in the layout half (GPU 1: create 0; GPU 1: create 1; GPU 1: create 2; "
            "GPU 1: create 3; and 2 more) -> run the playbook gpu.node.mig",
        ),
        (
            {"layout": Layout("", problem="/etc/gpu-node/mig.json is damaged")},
            "MIG",
            "the layout that was declared can't be compared: /etc/gpu-node/mig.json is damaged -> "
            "fix the cause, then run the playbook gpu.node.mig",
        ),
        (
            {"cdi": SpecificationState(("lacks the node /dev/nvidia9",))},
            "CDI specification",
            f"/etc/cdi/nvidia.yaml is out of date (lacks the node /dev/nvidia9) -> {AGAIN}",
        ),
        (
            {"runtimes": {"": judged("containerd: CDI", "enable_cdi is off", "turn it on")}},
            "containerd: CDI",
            "enable_cdi is off -> turn it on",
        ),
        (
            {"containers": {"docker": Answer(problem="no such device")}},
            "docker: container",
            "a container does not open the GPUs: no such device -> "
            "see the log of docker; the role gpu.node.cdi regenerates the specification",
        ),
        (
            {"containers": {"docker": Answer(UUIDS[:1])}},
            "docker: container",
            f"a container with all GPUs does not see {PARTED.uuid} -> "
            "see the log of docker; the role gpu.node.cdi regenerates the specification",
        ),
        (
            {
                "containers": {},
                "beside": Answer(UUIDS, cuda="cuInit: CUDA_ERROR_SYSTEM_NOT_READY"),
            },
            "CUDA",
            "the sum of two vectors failed on the node: cuInit: CUDA_ERROR_SYSTEM_NOT_READY -> "
            "see the kernel's log for XIDs (journalctl -k -g Xid)",
        ),
        (
            {
                "units": (
                    Unit("gpu-cdi.path", "enabled", "inactive"),
                    Unit("a.service", "disabled", "active"),
                    Unit("gpu-settings.service", "enabled", "failed", runs=False),
                    Unit("gpu-mig.service", "enabled", "inactive", runs=False),
                )
            },
            "services",
            "gpu-cdi.path is inactive; a.service is disabled: it does not start at boot; "
            "gpu-settings.service is failed -> "
            "systemctl enable --now gpu-cdi.path a.service gpu-settings.service, or see journalctl -u",
        ),
    ],
)
def test_each_fault_of_the_node_itself(changes: dict[str, t.Any], name: str, text: str) -> None:
    assert failures(node(**changes)) == {name: text}


@pytest.mark.parametrize(
    ("version", "source", "step"),
    [
        ("580", "repository", "run the playbook gpu.node.upgrade_driver"),
        ("550.163.2", "preinstalled", "install that version, or correct nvidia_driver_version"),
    ],
)
def test_the_version_that_the_user_asks_for(version: str, source: str, step: str) -> None:
    wanted = ValidateOptions(driver_version=version, driver_source=source)
    assert failures(node(), wanted) == {
        "driver version": f"version {VERSION} is loaded, and nvidia_driver_version asks for {version} -> {step}"
    }
    for fits in ("550", "550.163.01", ""):
        assert failures(node(), ValidateOptions(driver_version=fits, driver_source=source)) == {}


@pytest.mark.parametrize("gpu_count", [0, 1, 3])
def test_the_count_is_the_users_wish(gpu_count: int) -> None:
    found = failures(node(), ValidateOptions(gpu_count))
    assert found == {
        "GPUs": f"validate_gpu_count asks for {gpu_count}, and 2 of 2 GPUs on the PCI bus answer -> "
        "correct validate_gpu_count, or look for the missing GPUs with lspci -d 10de:"
    }
    assert failures(node(pci_gpus=gpu_count), ValidateOptions(2)) == {}


def test_lost_gpus_are_named() -> None:
    lost = node(pci_gpus=3, lost_gpus=("GPU 2 has fallen off the bus",))
    assert failures(lost) == {
        "GPUs": "2 of 3 GPUs on the PCI bus answer (GPU 2 has fallen off the bus) -> "
        "see the kernel's log for the missing ones (journalctl -k -g NVRM)"
    }


@pytest.mark.parametrize(
    ("said", "changes", "name", "text"),
    [
        (
            {},
            driver(pending=("linux-base",)),
            "reboot",
            "the distribution asks for a reboot (linux-base)",
        ),
        ({}, driver(pending=()), "reboot", "the distribution asks for a reboot -> "),
        (
            {},
            driver(kernels=("6.1.0-9", "6.1.0-10"), bare=("6.1.0-9",)),
            "kernels",
            "the kernel 6.1.0-9 has no modules",
        ),
        (
            {"mps": {"GPU-1": {"problem": "2 clients", "waits_for_clients": True}}},
            {},
            "MPS",
            "MPS is not ready (GPU-1: 2 clients) -> wait for the clients to end",
        ),
        (
            {"labels": {"state": "waiting", "problem": "no kubeconfig"}},
            {},
            "labels",
            "the node is not labelled yet (no kubeconfig) -> join the node to its cluster",
        ),
    ],
)
def test_what_makes_no_node_unfit_is_a_warning(
    said: dict[str, t.Any], changes: dict[str, t.Any], name: str, text: str
) -> None:
    one = node(said, **changes)
    assert failures(one) == {}
    found = told(one, "warning")
    assert list(found) == [name]
    assert found[name].startswith(text)


@pytest.mark.parametrize(
    ("said", "changes", "name", "text"),
    [
        ({}, driver(switches=False), "fabric manager", "the GPUs are not joined by NVSwitches"),
        ({}, {"holds": Holds()}, "holds", "no package was put on hold"),
        ({}, {"holds": Holds(frozenset("a"), unknown="rpm is busy")}, "holds", "rpm is busy"),
        ({}, {"layout": None}, "MIG", "no MIG layout is declared"),
        ({"mig_boot": None}, {}, "MIG at boot", "no layout was made at the last boot"),
        ({"mps": {}}, {}, "MPS", "no device is shared by MPS"),
        ({"resources": {}}, {}, "registration", "the device plugin has nothing to advertise"),
        ({}, {"units": ()}, "services", "nothing of gpu.node is on this node"),
        ({}, {"containers": {}, "cuda_unknown": "busy"}, "CUDA", "busy"),
        (
            {},
            {"containers": {}, "beside": Answer(UUIDS, untried="no libcuda")},
            "CUDA",
            "no libcuda",
        ),
        (
            {},
            {"cdi": SpecificationState(unknown="no nvidia-ctk")},
            "CDI specification",
            "no nvidia-ctk",
        ),
        (
            {},
            {"containers": {"cri-o": Answer(unknown="for a kubelet alone")}},
            "cri-o: container",
            "for a kubelet alone",
        ),
    ],
)
def test_what_can_not_be_told_is_skipped_with_the_reason(
    said: dict[str, t.Any], changes: dict[str, t.Any], name: str, text: str
) -> None:
    one = node(said, **changes)
    assert failures(one) == {}
    assert told(one, "skipped")[name] == text


def test_the_order_of_devices_does_not_matter() -> None:
    cdi = {**CDI, "devices": CDI["devices"][::-1]}
    assert failures(node({"cdi": cdi, "mig_uuids": list(MIGS[::-1])})) == {}


@pytest.mark.parametrize(
    ("out", "err", "expected"),
    [
        ('{"uuids": ["GPU-1"], "problem": "", "cuda": ""}\n', "", Answer(("GPU-1",), cuda="")),
        ('warning\n{"uuids": [], "problem": "no GPU"}', "x", Answer(problem="no GPU")),
        ('{"uuids": ["a"], "untried": "no libcuda"}', "", Answer(("a",), untried="no libcuda")),
        ("", "a\nunresolvable CDI devices nvidia.com/gpu=all\n", None),
        ("{", "unresolvable CDI devices nvidia.com/gpu=all", None),
        ("", "", Answer(problem="it ended with status 125")),
        ("[]", "", Answer(problem="[]")),
    ],
)
def test_what_comes_out_of_a_container(out: str, err: str, expected: Answer | None) -> None:
    told_of_it = expected or Answer(problem="unresolvable CDI devices nvidia.com/gpu=all")
    assert answer(out, err, 125) == told_of_it


@given(st.text() | st.builds(json.dumps, JSON), st.text(), st.integers(-255, 255))
def test_whatever_comes_out_of_a_container_is_read(out: str, err: str, status: int) -> None:
    found = answer(out, err, status)
    assert len(found.problem) < 1000
    assert found.cuda is None or isinstance(found.cuda, str)
