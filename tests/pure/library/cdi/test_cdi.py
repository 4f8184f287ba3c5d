# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The specification follows the GPUs and the driver's files, on a machine laid out as Debian's packages do it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.boot import PROGRAM
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NvmlError,
)
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot as cdi_boot
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.gpu_values import gpu, mig, minors_text
from tests.fakes.packages.driver_fakes import CDI_SPEC as PATH
from tests.fakes.packages.driver_fakes import CURRENT, LIB, VERSION, FakeNvml, HostWithDriver

HOOK = "/usr/bin/nvidia-cdi-hook"


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(gpu(0), gpu(1))
    monkeypatch.setattr(cdi, "open_nvml", fake.opened)
    return fake


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(library: str = "") -> None:
        raise NvmlError(DRIVER_NOT_LOADED, "starting NVML")

    monkeypatch.setattr(cdi, "open_nvml", fail)


def capability(host: FakeHost, *, check_mode: bool = False, **params: Any) -> cdi.CdiCapability:
    defaults = {name: option["default"] for name, option in SPEC["argument_spec"].items()}
    return cdi.CdiCapability(host, {**defaults, "boot": False, **params}, check_mode=check_mode)


def converge(host: FakeHost, **params: Any) -> list[str]:
    """Bring the machine there; return the steps in words."""
    one = capability(host, **params)
    steps = one.plan(one.observe()).steps
    for step in steps:
        one.apply(step)
    return [step.summary for step in steps]


def warnings(host: FakeHost, **params: Any) -> list[str]:
    one = capability(host, **params)
    return list(one.plan(one.observe()).warnings)


def test_first_run_writes_what_it_announced_and_a_second_changes_nothing(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    one = capability(host)
    plan = one.plan(one.observe())
    uuids = [one.uuid for one in nvml.found]
    names = ["0", uuids[0], "1", uuids[1], "all"]
    assert [step.summary for step in plan.steps] == [f"{PATH}: add {', '.join(names)}"]
    assert plan.before == ""
    one.apply(plan.steps[0])
    assert host.files[PATH] == plan.after
    assert host.names() == names
    assert plan.warnings == ()
    assert converge(host) == []
    result = one.result(one.observe(), plan)
    assert result == {
        "path": PATH,
        "kind": "nvidia.com/gpu",
        "devices": names,
        "cdi_version": "0.5.0",
        "driver_version": VERSION,
        "hook": "",
    }


def test_libraries_are_mounted_under_all_their_names_in_the_folders_of_both_families(
    nvml: FakeNvml,
) -> None:
    host = HostWithDriver()
    converge(host)
    names = {
        "libcuda": ["", ".1", f".{VERSION}"],
        "libnvidia-cfg": [".1", f".{VERSION}"],
        "libnvidia-ml": [".1", f".{VERSION}"],
        "libnvidia-ptxjitcompiler": [".1", f".{VERSION}"],
    }
    expected = {
        f"{folder}/{stem}.so{end}": f"{CURRENT}/{stem}.so.{VERSION}"
        for folder in (LIB, "/usr/lib64")
        for stem, ends in names.items()
        for end in ends
    }
    own = f"libnvidia-pkcs11-openssl3.so.{VERSION}"
    expected |= {f"{folder}/{own}": f"{LIB}/{own}" for folder in (LIB, "/usr/lib64")}
    mounts = host.mounts()
    assert {path: at for path, at in mounts.items() if ".so" in path} == expected
    assert {path: at for path, at in mounts.items() if ".so" not in path} == {
        "/usr/bin/nvidia-smi": "/usr/lib/nvidia/current/nvidia-smi",
        "/usr/sbin/nvidia-cuda-mps-server": "/usr/sbin/nvidia-cuda-mps-server",
        "/run/nvidia-persistenced/socket": "/run/nvidia-persistenced/socket",
    }


def test_without_a_cache_the_packages_folders_are_searched(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    with_cache = converge(host) and host.mounts()
    host.commands.clear()
    assert converge(host) == []
    assert host.mounts() == with_cache


def test_files_are_found_where_no_cache_tells_of_the_distributions_folder(nvml: FakeNvml) -> None:
    host = FakeHost({"/dev/nvidia0": "", f"/usr/lib64/libcuda.so.{VERSION}": ""})
    converge(host)
    spec = json.loads(host.files[PATH])
    paths = [one["containerPath"] for one in spec["containerEdits"]["mounts"]]
    assert paths == [
        f"{folder}/{name}"
        for folder in (LIB, "/usr/lib64")
        for name in ("libcuda.so", f"libcuda.so.{VERSION}")
    ]


def test_images_of_arm_nodes_have_another_folder(nvml: FakeNvml) -> None:
    host = FakeHost({"/dev/nvidia0": "", f"/usr/lib64/libcuda.so.{VERSION}": ""})
    host.files["/lib/ld-linux-aarch64.so.1"] = ""
    converge(host)
    spec = json.loads(host.files[PATH])
    mounts = {one["containerPath"] for one in spec["containerEdits"]["mounts"]}
    folders = {path.rpartition("/")[0] for path in mounts}
    assert folders == {"/usr/lib64", "/usr/lib/aarch64-linux-gnu"}


def test_folder_that_only_the_cache_tells_is_searched_too(nvml: FakeNvml) -> None:
    host = FakeHost({"/dev/nvidia0": ""})
    for name in ("libcuda", "libnvidia-cfg"):
        host.files[f"/opt/driver/{name}.so.{VERSION}"] = ""
    host.commands["ldconfig", "-p"] = (
        "\tlibc.so.6 (libc6,x86-64) => /lib64/libc.so.6\n"
        f"\tlibcuda.so.1 (libc6,x86-64) => /opt/driver/libcuda.so.{VERSION}\n"
    )
    converge(host)
    spec = json.loads(host.files[PATH])
    paths = [one["containerPath"] for one in spec["containerEdits"]["mounts"]]
    assert f"/usr/lib64/libnvidia-cfg.so.{VERSION}" in paths


def test_libraries_are_of_the_folders_that_were_chosen(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    converge(host, library_folders=["/usr/lib64", "/x"])
    folders = {path.rpartition("/")[0] for path in host.mounts() if ".so" in path}
    assert folders == {"/usr/lib64", "/x"}


@pytest.mark.parametrize("program", ["nvidia-cdi-hook", "nvidia-ctk"])
def test_hook_program_of_the_node(nvml: FakeNvml, program: str) -> None:
    host = HostWithDriver()
    host.commands[(f"/usr/bin/{program}", "--version")] = "NVIDIA CDI Hook version 1.19.1"
    host.commands[(program,)] = ""
    converge(host)
    hooks = host.spec()["containerEdits"]["hooks"]
    assert {one["path"] for one in hooks} == {f"/usr/bin/{program}"}
    assert f"{CURRENT}/libcuda.so.{VERSION}" in host.mounts()
    assert len(converge(host, hooks="never")) == 1
    assert "hooks" not in host.spec()["containerEdits"]


@pytest.mark.parametrize(
    ("answer", "told"), [("CLI version 1.19.0", "1.19.0"), ("broken", "unknown")]
)
def test_hook_with_a_known_hole_is_not_used(nvml: FakeNvml, answer: str, told: str) -> None:
    host = HostWithDriver()
    host.commands = {**host.commands, ("nvidia-cdi-hook",): "", (HOOK, "--version"): answer}
    assert f"{HOOK} is not used: its version is {told}" in warnings(host)[0]
    converge(host)
    assert "hooks" not in host.spec()["containerEdits"]


def test_devices_come_and_go_with_the_layout(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    converge(host)
    cut = gpu(1, mig=True)
    part = mig(cut, 0)
    nvml.found, nvml.migs = [gpu(0), cut], (part,)
    caps = minors_text(1).splitlines()
    numbers = [
        line.split()[1] for line in caps if line.startswith(("gpu1/gi7/access", "gpu1/gi7/ci0/"))
    ]
    for number in numbers:
        host.files[f"/dev/nvidia-caps/nvidia-cap{number}"] = ""
    assert converge(host) == [f"{PATH}: add 1:0, {part.uuid}; remove 1, {cut.uuid}"]
    edits = next(one["containerEdits"] for one in host.spec()["devices"] if one["name"] == "1:0")
    paths = [node["path"] for node in edits["deviceNodes"]]
    assert paths == [
        "/dev/nvidia1",
        *(f"/dev/nvidia-caps/nvidia-cap{number}" for number in numbers),
    ]
    nvml.found, nvml.migs = [gpu(0)], ()
    assert converge(host) == [f"{PATH}: remove 1:0, {part.uuid}"]
    assert host.names() == ["0", gpu(0).uuid, "all"]


def test_another_driver_version_changes_the_files_only(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = HostWithDriver()
    converge(host)
    host.files[f"{LIB}/libcuda.so.560.1"] = ""
    monkeypatch.setattr(nvml, "driver_version", lambda: "560.1")
    assert converge(host) == [f"{PATH}: follow the files of the driver"]
    assert host.mounts()[f"{LIB}/libcuda.so"] == f"{LIB}/libcuda.so.560.1"
    assert VERSION not in host.files[PATH]


def test_gpus_that_do_not_answer_are_left_out(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    nvml.lost = {0}
    nvml.broken = [NvmlError(GPU_IS_LOST, "reading GPU 2")]
    found = warnings(host)
    assert len(found) == 2
    assert "a GPU is left out: NVML failed while reading GPU 2: the GPU has fallen" in found[0]
    assert "GPU 0 is left out: NVML failed while listing MIG devices" in found[1]
    converge(host)
    assert host.names() == ["1", gpu(1).uuid, "all"]


def test_when_the_last_device_is_gone_the_file_goes(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    converge(host)
    nvml.lost = {0, 1}
    assert "no GPU of this node can be given to containers" in warnings(host)[-1]
    assert converge(host) == [f"remove {PATH}"]
    assert PATH not in host.files
    assert converge(host) == []


def test_absent_asks_no_driver(no_nvml: None) -> None:
    host = HostWithDriver()
    assert converge(host, state="absent") == []
    old = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": []}
    for text in (json.dumps(old, indent=2) + "\n", ""):
        host.files[PATH] = text
        assert converge(host, state="absent") == [f"remove {PATH}"]
        assert PATH not in host.files
        assert converge(host, state="absent") == []


def test_check_mode_without_a_driver_says_what_would_be_done(no_nvml: None) -> None:
    one = capability(FakeHost(), check_mode=True)
    plan = one.plan(one.observe())
    assert [step.summary for step in plan.steps] == [
        f"write the node's GPUs to {PATH} once the driver is loaded"
    ]
    assert "known only after the driver is installed" in plan.warnings[0]
    assert one.result(one.observe(), plan)["devices"] == []


def test_without_a_driver_the_next_step_is_named(no_nvml: None) -> None:
    with pytest.raises(NodeError, match=r"not loaded\. Next step: .*gpu\.node\.nvidia_driver"):
        capability(FakeHost()).observe()


def test_somebody_elses_file_is_replaced_and_said(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    host.files[PATH] = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n"
    assert converge(host) == [
        f"replace {PATH}, which something else wrote and which comes back with state absent"
    ]


@pytest.mark.parametrize("folder", ["/etc/cdi", "/var/run/cdi", "/srv/cdi"])
def test_another_file_with_the_same_devices_is_named(nvml: FakeNvml, folder: str) -> None:
    host = HostWithDriver()
    same = '{"kind": "nvidia.com/gpu", "devices": [{"name": "0"}]}'
    host.files[f"{folder}/old.yaml"] = same
    host.files[f"{folder}/mine.json"] = same.replace('"0"', '"mine"')
    host.files[f"{folder}/other.yaml"] = "kind: amd.com/gpu\n"
    host.files[f"{folder}/note.txt"] = same
    found = warnings(host, path=f"{folder}/nvidia.yaml")
    assert len(found) == 1
    assert f"{folder}/old.yaml describes 0 of nvidia.com/gpu too" in found[0]


def test_the_other_folders_are_looked_at_too_and_the_own_file_is_no_rival(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    converge(host)
    assert warnings(host) == []
    host.files["/etc/cdi/nvidia.json"] = '{"kind": "nvidia.com/gpu"}'
    assert "/etc/cdi/nvidia.json describes" in warnings(host)[0]


def test_what_cuda_lacks_is_said(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    for path in ("/dev/nvidia-uvm", f"{CURRENT}/libcuda.so.{VERSION}"):
        del host.files[path]
    found = warnings(host)
    assert len(found) == 2
    assert "/dev/nvidia-uvm does not exist" in found[0]
    assert f"libcuda.so.{VERSION} is not on this node" in found[1]


def test_a_driver_below_another_root(nvml: FakeNvml) -> None:
    host = HostWithDriver("/run/driver")
    converge(host, driver_root="/run/driver/")
    assert nvml.loaded == [f"/run/driver{CURRENT}/libnvidia-ml.so.{VERSION}"]
    assert host.mounts()[f"{LIB}/libcuda.so.1"] == f"/run/driver{CURRENT}/libcuda.so.{VERSION}"
    node = host.spec()["devices"][0]["containerEdits"]["deviceNodes"][0]
    assert (node["path"], node["hostPath"]) == ("/dev/nvidia0", "/run/driver/dev/nvidia0")


def test_root_without_a_driver_is_refused_and_the_nodes_own_is_not_taken(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    with pytest.raises(NodeError, match="no driver is below /run/driver"):
        converge(host, driver_root="/run/driver")
    assert nvml.loaded == []
    assert PATH not in host.files


def test_capabilities_of_the_node_itself_where_the_root_has_no_proc(nvml: FakeNvml) -> None:
    host = HostWithDriver("/run/driver")
    text = host.files.pop("/run/driver/proc/driver/nvidia-caps/mig-minors")
    host.files["/proc/driver/nvidia-caps/mig-minors"] = text
    cut = gpu(1, mig=True)
    nvml.found, nvml.migs = [cut], (mig(cut, 0),)
    assert "nvidia-cap" in warnings(host, driver_root="/run/driver")[0]


@pytest.mark.parametrize(
    ("params", "key"),
    [
        ({"path": "/etc/cdi/nvidia"}, "path"),
        ({"path": "/etc/cdi/nvidia.yml"}, "path"),
        ({"library_folders": ["lib"]}, "library_folders"),
    ],
)
def test_values_that_cannot_work_are_refused(params: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=rf"^{key}: "):
        capability(FakeHost(), **params)


def test_what_keeps_the_file_up_to_date_is_written_and_removed(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    host.files[PROGRAM] = ""
    before = set(host.files)
    states = {"UnitFileState": "enabled", "ActiveState": "active"}

    def show(words: tuple[str, ...]) -> Completed:
        on = ("systemctl", "enable", cdi_boot.PATH_UNIT) in host.ran
        lines = [f"{key}={value}\n" for key, value in states.items() if on]
        return Completed(0, "".join(lines), "")

    host.commands["systemctl",] = ""
    host.commands["systemctl", "show"] = show
    checked = capability(host, boot=True, check_mode=True, library_folders=["/usr/lib64"])
    planned = checked.plan(checked.observe())
    steps = converge(host, boot=True, library_folders=["/usr/lib64"])
    assert steps == [step.summary for step in planned.steps]
    kept = cdi_boot.load(host.files[cdi_boot.CONFIG], cdi_boot.CONFIG)
    assert kept == (PATH, "auto", ("/usr/lib64",), "/", "nvml", ("compute", "utility", "video"))
    assert ("systemctl", "restart", cdi_boot.PATH_UNIT) in host.ran
    assert converge(host, boot=True, library_folders=["/usr/lib64"]) == []
    assert len(converge(host, boot=True)) == 2
    converge(host, state="absent", boot=True)
    assert set(host.files) == before
    assert ("systemctl", "disable", "--now", cdi_boot.PATH_UNIT, cdi_boot.UNIT) in host.ran


@pytest.mark.attack("folder-of-a-user-above")
def test_a_file_in_a_folder_of_a_user_is_refused_before_anything_is_written(nvml: FakeNvml) -> None:
    host = HostWithDriver()
    host.writers["/home/user"] = "/home/user belongs to user 1000"
    with pytest.raises(
        InputError, match=r"path: .*/home/user belongs to user 1000\. Next step: chown root:root"
    ):
        converge(host, path="/home/user/nvidia.yaml")
    assert "/home/user/nvidia.yaml" not in host.files
    assert converge(host, path="/home/user/nvidia.yaml", state="absent") == []
