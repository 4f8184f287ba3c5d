# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is run for a container of each runtime, and that nothing of it is left."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import program
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.containers import (
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


def test_docker_has_an_empty_image_for_the_time_alone() -> None:
    on = machine(Completed(125, "", "unresolvable CDI devices nvidia.com/gpu=all"), "docker")
    found = Trial(on).run(runtime(on, "docker"), "")  # type: ignore[arg-type]
    assert [words[:2] for words in on.ran] == [
        ("docker", "rm"),
        ("docker", "rmi"),
        ("docker", "import"),
        ("docker", "run"),
        ("docker", "rm"),
        ("docker", "rmi"),
    ]
    run = on.ran[3]
    assert {"--rm", "--network=none", "--pull=never", "--device=nvidia.com/gpu=all"} <= set(run)
    # No driver is behind this machine's nodes, and so it is not the runtime's fault.
    assert found.unknown == program.undriven() != ""


def test_a_container_is_tried_in_every_runtime() -> None:
    tried = Trial(machine())._runs.keys()  # type: ignore[arg-type]
    assert tried == {runtime.kind.name for runtime in KINDS}
