# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tools in containers of a genuine podman and docker: they have the GPUs, no network, and end with their limit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._accept.machine import commands, tools
from ansible_collections.gpu.node.plugins.module_utils._accept.machine.containers import (
    ToolContainer,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.machine.tools import ToolProcesses
from ansible_collections.gpu.node.plugins.module_utils._accept.plan import (
    AcceptOptions,
    ToolSource,
)
from ansible_collections.gpu.node.plugins.module_utils._accept.tools.findings import ToolRun
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.limited import Programs
from ansible_collections.gpu.node.plugins.module_utils._repair.reset.state import ResetGpu
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import GpuSigns

from tests.fakes.accept import recorded
from tests.fakes.runtime.genuine_runtimes import NEWEST, GenuineRuntimes, runs_containers
from tests.fakes.runtime.tool_images import (
    GPUS,
    IMAGE,
    SHELL,
    SPEC,
    ToolHost,
    ToolMachine,
    docker_machine,
    podman_machine,
)

REPORT = f'{SHELL}env\necho "networks: $(ls /sys/class/net)"\nid -u\necho "arguments: $*"\n'
# The last argument of all_reduce_perf is its file.
HANG = f"{SHELL}echo > $1/started\nexec sleep 98765\n"
OF_IMAGE = ToolSource("", IMAGE)
LEFT_OUT = {"dcgmi": None, "nvbandwidth": None, "all_reduce_perf": None}
MACHINES = {"podman": podman_machine, "docker": docker_machine}
pytestmark = [
    *runs_containers,
    pytest.mark.skipif(shutil.which("podman") is None, reason="needs podman"),
]


@pytest.fixture(params=["podman", pytest.param("docker", marks=pytest.mark.long)])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ToolMachine]:
    with MACHINES[request.param](tmp_path) as made:
        yield made


def container(
    machine: ToolMachine, name: str, *uuids: str, source: ToolSource = OF_IMAGE
) -> ToolContainer:
    return ToolContainer(machine.host, name, source, uuids or GPUS[:2])


def tool(run: ToolRun) -> dict[str, str]:
    """Return the files of a tool that prints what was recorded, and writes its file."""
    script = (
        f'{SHELL}for last; do :; done\ncat /output\n[ ! -e /document ] || cat /document > "$last"\n'
    )
    document = {"document": run.document} if run.document else {}
    return {"output": run.output, **document, "script": f"{script}exit {run.status}\n"}


def test_container_has_the_gpus_and_its_environment_and_nothing_else(
    machine: ToolMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_TOKEN", recorded.SECRET)
    machine.build({"opt/report": REPORT})
    source = ToolSource("/opt/report", IMAGE)
    run = container(machine, "nvbandwidth", "GPU-0", "GPU-2", source=source).run(
        ["-j", "a b"], {"CUDA_VISIBLE_DEVICES": "GPU-0,GPU-2"}, 300.0
    )
    lines = run.output.splitlines()
    assert run.status == 0, run
    assert {"SEEN_0=GPU-0", "SEEN_2=GPU-2", "CUDA_VISIBLE_DEVICES=GPU-0,GPU-2"} <= {*lines}
    assert "SEEN_1=GPU-1" not in lines
    assert "NVIDIA_VISIBLE_DEVICES=void" in lines  # the image's own would ask for all
    assert lines[-3:] == ["networks: lo", "0", "arguments: -j a b"]
    assert recorded.SECRET not in run.output
    assert machine.containers() == []


def test_container_that_does_not_end_is_killed_and_removed(
    machine: ToolMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    machine.build({"bin/nvbandwidth": HANG})

    def clock() -> float:
        return 1000.0 * (shared / "started").exists()

    monkeypatch.setattr(commands, "Programs", lambda host: Programs(host, clock))
    run = container(machine, "nvbandwidth").run([str(shared)], {}, 300.0, str(shared))
    assert run.problem == "it had not ended after 300 seconds and was killed"
    assert machine.containers() == []


def test_container_that_a_killed_run_has_left_makes_way(machine: ToolMachine) -> None:
    machine.build({"bin/nvbandwidth": REPORT})
    name = "--name=gpu-node-accept-nvbandwidth"
    machine.ask("run", "--detach", name, "--network=none", IMAGE, "/bin/sleep", "98765")
    run = container(machine, "nvbandwidth").run([], {}, 300.0)
    assert run.status == 0, run
    assert machine.containers() == []


def test_program_that_the_image_does_not_have_is_the_reason(machine: ToolMachine) -> None:
    machine.build({"bin/nvbandwidth": REPORT})
    source = ToolSource("/opt/absent", IMAGE)
    result = processes(machine, {"nvbandwidth": source})["nvbandwidth"]
    (reason,) = result.unmeasured["GPU-0"].values()
    assert "it ended with status 127" in reason
    assert "/opt/absen" in reason
    assert machine.containers() == []


def processes(
    machine: ToolMachine, sources: Mapping[str, ToolSource], numbers: tuple[int, ...] = (0, 1)
) -> dict[str, tools.ToolResult]:
    """Return the results of tools for GPUs with these indices on their node."""
    options = AcceptOptions(level="standard", tools={**LEFT_OUT, **sources})
    gpus = [
        ResetGpu(GpuSigns(f"GPU-{number}"), f"0000:{number:02x}:00.0", number) for number in numbers
    ]
    pairs = [(one.uuid, other.uuid) for one in gpus for other in gpus if one != other]
    return ToolProcesses(machine.host, options, pairs).test(gpus)


def test_tools_of_an_image_pass_gpus(machine: ToolMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "LARGEST", recorded.LARGEST)
    for name, recording in (("nvbandwidth", "nvbandwidth"), ("all_reduce_perf", "nccl")):
        files = tool(recorded.load(recording)["pass"].run)
        script = files.pop("script")
        machine.build({**files, f"bin/{name}": script})
        result = processes(machine, {name: OF_IMAGE})[name]
        assert result.passed("GPU-0"), result
        assert result.passed("GPU-1"), result
    assert result.figures["GPU-1"] == {"nccl_all_reduce_gb_per_s": 318.4}


def test_diagnostic_in_a_container_counts_the_gpus_that_are_there(machine: ToolMachine) -> None:
    passed = recorded.load("dcgm")["pass_level_2"].run
    files = tool(passed._replace(output=passed.output.replace('"serial_num"', '"other"')))
    check = '[ "$*" = "diag -r 2 -j -i 1,0" ] || exit 9\n'
    script = files.pop("script").replace("for last", f"{check}for last")
    machine.build({**files, "bin/dcgmi": script})
    (result,) = processes(machine, {"dcgmi": OF_IMAGE}, (2, 1)).values()
    assert result.passed("GPU-1"), result
    assert result.passed("GPU-2"), result


def test_file_of_a_container_is_not_followed_elsewhere(
    machine: ToolMachine, tmp_path: Path
) -> None:
    """What is in an image may write a link or a pipe in place of its file."""
    files = tool(recorded.load("nccl")["pass"].run)
    script = files.pop("script").replace("cat /document >", "mkfifo")
    machine.build({**files, "bin/all_reduce_perf": script})
    source = {"all_reduce_perf": OF_IMAGE}
    assert not processes(machine, source)["all_reduce_perf"].passed("GPU-0")
    link = tmp_path / "link"
    link.symlink_to("/etc/passwd")
    assert tools._read(str(link)) == ""
    os.mkfifo(tmp_path / "pipe")
    assert tools._read(str(tmp_path / "pipe")) == ""


def test_image_that_is_not_on_the_node_is_not_pulled(machine: ToolMachine) -> None:
    with pytest.raises(NodeError, match=f"its image is not on the node: run {machine.name} pull"):
        container(machine, "nvbandwidth")


def test_gpus_without_a_specification_are_asked_for_by_docker_alone(machine: ToolMachine) -> None:
    machine.build({"bin/nvbandwidth": REPORT})
    if machine.name == "podman":
        with pytest.raises(NodeError, match="no CDI specification has the GPUs by their UUIDs"):
            container(machine, "nvbandwidth", "GPU-0", "GPU-9")
    else:  # NVIDIA's runtime, which is not there, would answer
        run = container(machine, "nvbandwidth", "GPU-0", "GPU-9").run([], {}, 300.0)
        assert run.status == 125
        assert "could not select device driver" in run.output
        assert "[[gpu]]" in run.output


def test_nerdctl_is_asked_by_its_option_gpus(tmp_path: Path) -> None:
    """The script in its place prints what it is asked."""
    node = GenuineRuntimes(tmp_path, NEWEST)
    node.put("/etc/cdi/nvidia.json", json.dumps(SPEC))
    node.put("/client/nerdctl", '#!/bin/sh\necho "$*"\n')
    client = tmp_path / "client/nerdctl"
    client.chmod(0o755)
    container = ToolContainer(ToolHost(node, client), "nvbandwidth", OF_IMAGE, GPUS[:2])
    run = container.run(["-j"], {"A": "1"}, 300.0)
    assert '--gpus="device=GPU-0,GPU-1"' in run.output.split()
    assert "--device" not in run.output
    assert run.output.endswith(f"--env=A=1 --entrypoint=nvbandwidth {IMAGE} -j\n")


def test_without_a_container_runtime_the_reason_says_what_helps() -> None:
    class BareHost(Host):
        def which(self, _name: str) -> str | None:
            return None

    with pytest.raises(NodeError, match="none of podman, docker, nerdctl is installed"):
        ToolContainer(BareHost(), "nvbandwidth", OF_IMAGE, GPUS)
