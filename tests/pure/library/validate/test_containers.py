# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is run for a container of each runtime, and that nothing of it is left."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.containers import Answer
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.daemon import (
    Mount,
    Share,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import program
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.containers import (
    CONFIG,
    FOLDER,
    Trial,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Status
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.engines import KINDS

from tests.fakes.library.fakes import FakeHost

SAID = json.dumps({"uuids": ["GPU-1"], "problem": "", "cuda": "", "untried": ""})
MAPS = "7f0-7f1 r-xp 0 08:01 1 /usr/lib/x86_64-linux-gnu/{}\n"
SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [
        {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
        {"name": "all", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
    ],
    "containerEdits": {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [{"path": "/dev/nvidiactl"}],
        "mounts": [{"hostPath": "/lib/a.so", "containerPath": "/usr/lib/a.so", "options": ["ro"]}],
        "hooks": [{"hookName": "createContainer", "path": "/usr/bin/hook", "args": ["hook"]}],
    },
}


def machine(said: Any = SAID, *programs: str) -> FakeHost:
    """Return a machine with these programs, whose containers say this."""
    files = {
        "/proc/self/maps": "".join(map(MAPS.format, ("libc.so.6", "ld-linux-x86-64.so.2"))),
        "/etc/gpu-node/cdi.json": json.dumps(
            {
                "path": "/etc/cdi/nvidia.yaml",
                "hooks": "auto",
                "library_folders": [],
                "driver_root": "/",
                "generator": "nvml",
            }
        ),
        "/etc/cdi/nvidia.yaml": json.dumps(SPEC),
    }
    answer = said if isinstance(said, Completed) else Completed(0, f"{said}\n", "")
    commands: dict[tuple[str, ...], Any] = {(one,): Completed(0, "", "") for one in programs}
    for words in (("docker", "run"), ("podman", "run")):
        commands[words] = answer
    commands[("ctr",)] = lambda words: answer if "run" in words else Completed(0, "", "")
    found = FakeHost(files, commands)
    for minor, name in ((0, "nvidia0"), (255, "nvidiactl")):
        found.statuses[f"/dev/{name}"] = Status(0o020666, 0, 0, (195 << 8) | minor)
    return found


def runtime(on: FakeHost, name: str) -> Any:
    return next(make(on) for make in KINDS if make.kind.name == name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["docker", "podman", "containerd"])
def test_each_runtime_says_what_the_program_in_it_says(name: str) -> None:
    on = machine(SAID, "docker", "podman", "ctr", "containerd")
    found = Trial(on).run(runtime(on, name), "GPU-1")  # type: ignore[arg-type]
    assert found == Answer(("GPU-1",), cuda="")
    assert not on.listdir(FOLDER)
    assert not [
        word for words in on.ran for word in words if "pull" in word and word != "--pull=never"
    ]


SHARE = Share(
    "GPU-1",
    {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"},
    (
        Mount("/tmp/nvidia-mps", "/run/x/GPU-1/ipc/pipe", read_only=True),
        Mount("/dev/shm", "/run/x/GPU-1/shm"),
    ),
)


def in_containerd(share: Share | None = None) -> tuple[FakeHost, dict[str, Any]]:
    """Return a machine that has run a container of containerd, and the configuration of that."""
    on = machine(SAID, "ctr", "containerd")
    written: dict[str, Any] = {}

    def run(words: tuple[str, ...]) -> Completed:
        if "run" in words:
            written.update(json.loads(on.files[CONFIG]))
        return Completed(0, f"{SAID}\n", "")

    on.commands["ctr",] = run
    Trial(on).run(runtime(on, "containerd"), "GPU-1", share)  # type: ignore[arg-type]
    return on, written


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_client_of_mps_has_what_a_pod_gets_with_a_share(name: str) -> None:
    on = machine(SAID, "docker", "podman")
    Trial(on).run(runtime(on, name), "GPU-1", SHARE)  # type: ignore[arg-type]
    (run,) = [words for words in on.ran if words[1] == "run"]
    assert {
        "--env=CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",
        "--env=CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25",
        "--volume=/run/x/GPU-1/ipc/pipe:/tmp/nvidia-mps:ro",
        "--volume=/run/x/GPU-1/shm:/dev/shm:rw",
    } <= set(run)


def test_client_of_mps_in_containerd_has_what_a_pod_gets_with_a_share() -> None:
    _on, written = in_containerd(SHARE)
    assert "CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps" in written["process"]["env"]
    mounts = {mount["destination"]: mount for mount in written["mounts"]}
    assert mounts["/tmp/nvidia-mps"]["source"] == "/run/x/GPU-1/ipc/pipe"
    assert mounts["/tmp/nvidia-mps"]["options"] == ["rbind", "ro"]
    assert mounts["/dev/shm"]["options"] == ["rbind", "rw"]


def test_client_of_mps_on_the_node_has_the_memory_of_its_server() -> None:
    on = machine(SAID)
    on.commands["unshare",] = Completed(0, f"{SAID}\n", "")
    assert Trial(on).beside("GPU-1", SHARE).cuda == ""  # type: ignore[arg-type]
    (words,) = on.ran
    assert words[:4] == ("unshare", "--mount", "sh", "-c")
    assert words[6] == "/run/x/GPU-1/shm"


def test_a_fault_of_the_runtime_is_told_where_the_kernel_has_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "CONTROL", "/dev/null")
    said = "docker: Error response from daemon: unresolvable CDI devices nvidia.com/gpu=all"
    on = machine(Completed(125, "", said), "docker")
    found = Trial(on).run(runtime(on, "docker"), "")  # type: ignore[arg-type]
    assert found == Answer(problem=said)


def test_containerd_gets_what_the_specification_says_in_a_namespace_of_its_own() -> None:
    on, written = in_containerd()
    assert all(
        "--namespace=gpu-node-validate" in words or "namespaces" in words for words in on.ran
    )
    gone = [("delete", "--force"), ("containers", "delete"), ("namespaces", "remove")]
    assert [words[-3:-1] for words in on.ran] == [*gone, ("--rm", f"--config={CONFIG}"), *gone]
    numbers = {one["path"]: (one["major"], one["minor"]) for one in written["linux"]["devices"]}
    assert numbers == {"/dev/nvidiactl": (195, 255), "/dev/nvidia0": (195, 0)}
    denied, *allowed = written["linux"]["resources"]["devices"]
    assert denied == {"allow": False, "access": "rwm"}
    assert {(one["major"], one["minor"]) for one in allowed} == set(numbers.values())
    assert written["hooks"]["createContainer"] == [{"path": "/usr/bin/hook", "args": ["hook"]}]
    assert "NVIDIA_VISIBLE_DEVICES=void" in written["process"]["env"]
    targets = [one["destination"] for one in written["mounts"]]
    assert "/usr/lib/a.so" in targets
    assert any(one.startswith("/host/usr") for one in targets)
    assert written["process"]["args"][-1] == "GPU-1"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('{"devices": []}', "it has no device named all"),
        ("kind: nvidia.com/gpu", "/etc/cdi/nvidia.yaml can't be given to a container"),
    ],
)
def test_a_specification_that_says_nothing_of_use(
    monkeypatch: pytest.MonkeyPatch, text: str, cause: str
) -> None:
    monkeypatch.setattr(program, "CONTROL", "/dev/null")
    on = machine(SAID, "ctr", "containerd")
    on.files["/etc/cdi/nvidia.yaml"] = text
    found = Trial(on).run(runtime(on, "containerd"), "")  # type: ignore[arg-type]
    assert cause in found.problem
    assert found.unknown == ""


def test_a_daemon_that_takes_no_image_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "CONTROL", "/dev/null")
    on = machine(SAID, "docker")
    on.commands["docker", "import"] = Completed(1, "", "Cannot connect to the Docker daemon")
    found = Trial(on).run(runtime(on, "docker"), "")  # type: ignore[arg-type]
    assert "Cannot connect to the Docker daemon" in found.problem
    assert [words[:2] for words in on.ran][-2:] == [("docker", "rm"), ("docker", "rmi")]


def test_what_can_not_be_started_says_why() -> None:
    on = machine(SAID, "dockerd")
    trial = Trial(on)  # type: ignore[arg-type]
    del on.commands["docker", "run"]
    assert trial.run(runtime(on, "docker"), "").unknown == "the program docker is not on the node"
    on.files["/proc/self/maps"] = MAPS.format("ld-musl-x86_64.so.1")
    assert "is not linked with glibc" in Trial(on).run(runtime(on, "docker"), "").unknown  # type: ignore[arg-type]


def test_nothing_below_a_mount_is_ever_removed() -> None:
    on = machine(SAID, "docker")
    on.files["/proc/self/mountinfo"] = f"36 35 98:0 / {FOLDER}/root/host/usr rw - ext4 /dev/a rw\n"
    on.files[f"{FOLDER}/root/host/usr/bin/env"] = "program"
    found = Trial(on).run(runtime(on, "docker"), "")  # type: ignore[arg-type]
    assert f"something is mounted below {FOLDER}" in found.unknown
    assert on.files[f"{FOLDER}/root/host/usr/bin/env"] == "program"
    assert on.ran == []
