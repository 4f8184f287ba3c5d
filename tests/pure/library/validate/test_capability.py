# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""gpu.node.validate reads the node, names what does not hold, and changes nothing."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NvmlError,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate import capability as room
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.capability import (
    ValidateCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import SETTINGS
from ansible_collections.gpu.node.plugins.module_utils._generated.validate import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host

from tests.fakes.clock import Clock
from tests.fakes.library.fakes import DRIVER, LOADED, FakeHost
from tests.fakes.library.gpu_values import gpu, mig
from tests.fakes.packages.driver_fakes import FakeNvml
from tests.support.waiting import LIMIT

UNIT = "/etc/systemd/system/gpu-device-plugin.service"
RECORD = "/var/lib/gpu-node/nvidia_driver.json"
PLAIN, PARTED = gpu(0), gpu(1, mig=True)
PART = mig(PARTED, 0)
STATUS = (PROGRAM, "status", "--json")
SERVING = {"state": "serving", "resources": {}, "mig_uuids": [PART.uuid]}


def host(status: Any = None, gpus: int = 2) -> FakeHost:
    """Return a machine with GPUs on its bus, on which the daemon tells this, or that it serves."""
    status = SERVING if status is None else status
    files = {}
    for number in range(gpus):
        device = f"/sys/bus/pci/devices/0000:{number + 1:02x}:00.0"
        files |= {
            f"{device}/vendor": "0x10de\n",
            f"{device}/device": "0x20b0\n",
            f"{device}/class": "0x030200\n",
        }
    files |= {UNIT: "", DRIVER: LOADED.format("550.163.01")}
    answer = status if isinstance(status, Completed) else json.dumps(status)
    shown = "UnitFileState=enabled\nActiveState=active\n"
    return FakeHost(files, {STATUS: answer, ("systemctl", "show"): shown})


def nvml() -> FakeNvml:
    return FakeNvml(PLAIN, PARTED, migs=(PART,))


def capability(
    on: FakeHost | Host, driver: FakeNvml | NvmlError, **params: Any
) -> ValidateCapability:
    @contextlib.contextmanager
    def connect() -> Iterator[Any]:
        if isinstance(driver, NvmlError):
            raise driver
        yield driver

    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    asked = {"containers": False, "cuda": False, "wait_timeout": 0}
    return ValidateCapability(on, {**defaults, **asked, **params}, connect)


def answer(
    on: FakeHost | Host, driver: FakeNvml | NvmlError, **params: Any
) -> tuple[list[str], dict[str, str]]:
    """Return the names of the checks that do not hold, and the causes by name."""
    one = capability(on, driver, fail=False, **params)
    state = one.observe()
    plan = one.plan(state)
    assert plan.steps == ()
    told = one.result(state, plan)
    return told["failed_checks"], {check["name"]: check["cause"] for check in told["checks"]}


def test_a_node_that_works_passes_and_keeps_what_it_has() -> None:
    machine = host()
    before = dict(machine.files)
    one = capability(machine, nvml())
    state = one.observe()
    plan = one.plan(state)
    assert plan.steps == ()
    told = one.result(state, plan)
    assert told["failed_checks"] == []
    assert told["failure"] == ""
    assert told["summary"] == "ready, 2 GPUs, 1 MIG device, none advertised"
    assert machine.files == before
    reads = {STATUS[:2], ("systemctl", "show"), ("ldconfig", "-p"), ("/bin/sh", "-c")}
    assert {words[:2] for words in machine.ran} == reads


def test_node_whose_gpus_mps_has_is_tried_by_a_client() -> None:
    """On the node itself, as no runtime is set up here."""
    mounts = [{"inside": "/tmp/nvidia-mps", "outside": "/run/x/pipe", "read_only": True}]
    share = {"device": PLAIN.uuid, "env": {"CUDA_MPS_PIPE_DIRECTORY": "/x"}, "mounts": mounts}
    rows = [{"uuid": uuid, "mps": "ready"} for uuid in (PLAIN.uuid, PART.uuid)]
    shared = {"mps": {PLAIN.uuid: {"problem": ""}}, "mps_shares": [share], "hardware": rows}
    machine = host({**SERVING, **shared})
    printed = {"uuids": [], "problem": "", "cuda": "1 of 256 sums are wrong", "untried": ""}
    machine.commands["unshare",] = json.dumps(printed)
    failed, causes = answer(machine, nvml(), cuda=True)
    assert failed == ["MPS"]
    assert causes["MPS"] == "a client with a free share fails: 1 of 256 sums are wrong"
    assert causes["CUDA"] == "every device is in use"
    machine.commands["unshare",] = json.dumps({**printed, "cuda": ""})
    assert answer(machine, nvml(), cuda=True)[0] == []


def test_device_nodes_that_the_driver_misses_are_named() -> None:
    machine = host()
    machine.files["/dev/nvidia-uvm"] = ""
    machine.commands["/bin/sh", "-c"] = "/dev/nvidia-uvm\n/dev/nvidiactl\n"
    failed, causes = answer(machine, nvml())
    assert failed == ["device nodes"]
    assert causes["device nodes"] == (
        "/dev/nvidia-uvm has another number than the loaded driver's, so nothing can use it; /dev/nvidiactl does not"
        " exist"
    )


def test_every_check_that_does_not_hold_is_named_in_one_failure() -> None:
    one = capability(
        host({"state": "not_running"}), NvmlError(DRIVER_NOT_LOADED, "starting NVML"), gpu_count=8
    )
    with pytest.raises(NodeError) as refused:
        one.plan(one.observe())
    assert str(refused.value).splitlines() == [
        "3 of 24 checks fail",
        "driver: NVML failed while starting NVML: the NVIDIA driver is not loaded. "
        "Next step: run gpu.node.gpu_nodes",
        "GPUs: validate_gpu_count asks for 8, and 0 of 2 GPUs on the PCI bus answer. "
        "Next step: correct validate_gpu_count, or look for the missing GPUs with lspci -d 10de:",
        "device plugin: the device plugin is not serving (it does not run). "
        "Next step: see the log of gpu-device-plugin.service",
    ]
    assert refused.value.details["failed_checks"] == ["driver", "GPUs", "device plugin"]
    checks = refused.value.details["checks"]
    assert len(checks) == 24
    assert set(checks[0]) == {"name", "state", "holds", "cause", "next_step"}


def test_a_driver_that_takes_too_long_is_slow_and_labels_are_not_blamed_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "LATE", 0.01)
    labels = {"state": "failing", "problem": "looking at the GPUs: timed out", "labels": {}}
    let_go = threading.Event()

    class Slow(FakeNvml):
        def gpus(self) -> Any:
            let_go.wait(LIMIT)
            return super().gpus()

    machine = host({**SERVING, "labels": labels})
    machine.files[SETTINGS] = ""
    failed, causes = answer(machine, Slow(PLAIN, PARTED, migs=(PART,)))
    let_go.set()
    assert failed[0] == "driver"
    assert causes["driver"].startswith("the driver is slow: NVML has not reported the GPUs within")
    assert {causes[name] for name in ("GPUs", "labels")} == {"the driver is slow"}


def test_a_gpu_that_is_lost_is_told() -> None:
    driver = FakeNvml(PLAIN)
    driver.broken.append(NvmlError(GPU_IS_LOST, "reading GPU 1", gpu_index=1))
    failed, causes = answer(host({**SERVING, "mig_uuids": []}), driver)
    assert failed == ["GPUs"]
    assert causes["GPUs"] == (
        "1 of 2 GPUs on the PCI bus answer (NVML failed while reading GPU 1: the GPU has fallen off the bus)"
    )
    assert answer(host({**SERVING, "mig_uuids": []}), driver, gpu_count=1)[0] == []


def test_a_gpu_that_breaks_while_it_is_read_counts_as_a_driver_that_does_not_answer() -> None:
    driver = nvml()
    driver.lost = {1}
    failed, causes = answer(host(), driver)
    assert failed == ["driver", "GPUs"]
    assert "listing MIG devices" in causes["driver"]


@pytest.mark.parametrize(
    "status",
    [
        Completed(127, "", "not found"),
        Completed(1, "", "Traceback"),
        Completed(0, "not JSON", ""),
        Completed(0, "[]", ""),
        Completed(3, '{"state": "not_running", "resources": {}}', ""),
    ],
)
def test_a_daemon_that_cannot_be_asked_is_one_that_does_not_run(status: Completed) -> None:
    failed, causes = answer(host(status), nvml())
    assert failed == ["device plugin"]
    assert causes["device plugin"] == "the device plugin is not serving (it does not run)"


UNREGISTERED = {**SERVING, "resources": {"nvidia.com/gpu": {"registered": False}}}


def test_a_kubelet_that_is_required() -> None:
    machine = host(UNREGISTERED)
    one = capability(machine, nvml())
    (warning,) = one.plan(one.observe()).warnings
    assert warning.startswith(
        "registration: no kubelet has registered the GPUs yet. Next step: join"
    )
    failed, _causes = answer(machine, nvml(), require_kubelet=True)
    assert failed == ["registration"]
    for path in room.TRACES:
        there = host(UNREGISTERED)
        there.files[path] = ""
        failed, causes = answer(there, nvml())
        assert failed == ["registration"]
        assert causes["registration"] == "the kubelet has not registered nvidia.com/gpu"


def test_a_driver_that_does_not_say_who_uses_it_leaves_cuda_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = nvml()
    monkeypatch.setattr(driver, "processes", broken)
    failed, causes = answer(host(), driver, cuda=True)
    assert "driver" not in failed
    assert causes["CUDA"] == "every device is in use"


def broken(_gpu: Any) -> Any:
    raise NvmlError(GPU_IS_LOST, "listing processes")


def test_what_is_on_its_way_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet that takes a moment to register what it is offered."""
    monkeypatch.setattr(room, "time", Clock())
    machine = host(UNREGISTERED)
    machine.files[room.TRACES[0]] = ""
    later = iter([UNREGISTERED, SERVING])
    machine.commands[STATUS] = lambda _words: Completed(0, json.dumps(next(later)), "")
    assert answer(machine, nvml(), wait_timeout=30)[0] == []
    assert [words for words in machine.ran if words == STATUS] == [STATUS, STATUS]


@pytest.mark.parametrize("root", ["/var/lib/kubelet", "/var/lib/k0s/kubelet"])
def test_the_kubelet_is_asked_where_it_is(root: str) -> None:
    machine = host()
    socket = f"{root}/pod-resources/kubelet.sock"
    machine.files[socket] = ""
    assert answer(machine, nvml())[0] == []
    assert (*STATUS, f"--pod-resources={socket}") in machine.ran


def test_holds_that_an_operator_has_taken_away() -> None:
    """Played: dpkg tells that the package is not on hold any more, which the record says that it was."""
    machine = host()
    machine.files[RECORD] = json.dumps({"holds": ["nvidia-smi"]})
    machine.files["/etc/os-release"] = "ID=debian\nVERSION_CODENAME=trixie\n"
    for letters, failed in (("hi ", []), ("ii ", ["holds"])):
        line = f"nvidia-smi\tamd64\tnvidia-graphics-drivers\t550.163.01-2\t{letters}\n"
        machine.commands["dpkg-query",] = line
        assert answer(machine, nvml())[0] == failed


def test_kernels_reboots_and_versions_are_read() -> None:
    machine = host()
    lib = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.86.15"
    machine.files |= {
        "/boot/vmlinuz-6.1.0-9": "",
        "/lib/modules/6.1.0-9/modules.dep": "kernel/drivers/net/a.ko:\n",
        "/run/reboot-required": "",
        "/run/reboot-required.pkgs": "linux-base\n",
        lib: "",
    }
    failed, causes = answer(machine, nvml(), driver_version="580")
    assert failed == ["driver version", "kernels"]
    assert "the libraries are of 570.86.15" in causes["driver version"]
    assert causes["reboot"] == "the distribution asks for a reboot (linux-base)"
    del machine.files[lib]
    assert "asks for 580" in answer(machine, nvml(), driver_version="580")[1]["driver version"]


@pytest.mark.parametrize(
    ("state", "version", "expected"),
    [
        ("active", "550.163.01", ""),
        ("failed", "550.163.01", "nvidia-fabricmanager.service is failed"),
        ("active", "550.90.07", "it has version 550.90.07, the driver 550.163.01"),
        ("active", "", ""),
    ],
)
def test_a_fabric_manager_is_asked_for_its_version(state: str, version: str, expected: str) -> None:
    machine = host()
    switch = "/sys/bus/pci/devices/0000:90:00.0"
    machine.files |= {f"{switch}/vendor": "0x10de\n", f"{switch}/class": "0x068000\n"}
    machine.commands["nv-fabricmanager", "--version"] = f"Fabric Manager version is : {version}\n"
    show = ("systemctl", "show", "nvidia-fabricmanager.service")
    machine.commands[show] = f"ActiveState={state}\n"
    failed, causes = answer(machine, nvml())
    assert failed == (["fabric manager"] if expected else [])
    assert causes["fabric manager"].startswith(expected)


def test_units_that_are_off_are_named() -> None:
    machine = host()
    machine.commands["systemctl", "show"] = "UnitFileState=disabled\nActiveState=active\n"
    machine.commands["systemctl", "show", "gpu-node-labels.service"] = ""
    machine.files["/etc/gpu-node/labels.env"] = ""
    failed, causes = answer(machine, nvml())
    assert failed == ["labels", "services"]
    assert causes["services"] == (
        "gpu-device-plugin.service is disabled: it does not start at boot; "
        "gpu-node-labels.service is not there"
    )


def test_units_that_records_name_are_asked_for() -> None:
    machine = host()
    machine.files[RECORD] = json.dumps({"service": True})
    machine.files["/var/lib/gpu-node/dcgm.json"] = json.dumps({"managed": ["nvidia-dcgm.service"]})
    for unit in ("nvidia-persistenced.service", "nvidia-dcgm.service"):
        machine.commands["systemctl", "show", unit] = ""
    _failed, causes = answer(machine, nvml())
    assert "nvidia-persistenced.service is not there" in causes["services"]
    assert "nvidia-dcgm.service is not there" in causes["services"]


def test_a_layout_that_is_damaged_is_named() -> None:
    machine = host()
    machine.files["/etc/gpu-node/mig.json"] = "{"
    failed, causes = answer(machine, nvml())
    assert "MIG" in failed
    assert "/etc/gpu-node/mig.json is damaged" in causes["MIG"]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"wait_timeout": -1}, "wait_timeout: -1 is not valid"),
        ({"components": ["slurm"]}, "components: 'slurm' is not valid"),
    ],
)
def test_what_can_not_be_meant_is_refused(params: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        capability(host(), nvml(), **params)
