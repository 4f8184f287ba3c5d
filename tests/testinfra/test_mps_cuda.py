# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What MPS enforces, seen by a CUDA program on a node that has a GPU.

On a GPU that nobody shares, by a control daemon of its own: the compute mode stays as it is, as the limits hold in the
default mode too. Where the node shares GPUs by MPS, by a free share as a pod gets it. Also runs by itself on a
machine with a GPU: ``pytest --hosts=local:// tests/testinfra/test_mps_cuda.py``.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PROBE = Path(__file__).with_name("cuda_probe.py")
VECTORS = (
    Path(__file__).parents[2] / "plugins/module_utils/_checks/validate/machine/program.py"
)  # what gpu.node.validate runs
STATUS = "/opt/gpu-node/bin/gpu-plugin status --json"
LIMIT, DEFAULT = 1024, 2048  # MiB
Probe = Callable[..., dict[str, Any]]


def run_probe(host: Any, wanted: int, within: str = "", **env: str) -> dict[str, Any]:
    """Run the probe; ``within`` is a shell command that runs its arguments in other surroundings."""
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    source = base64.b64encode(PROBE.read_bytes()).decode()
    found = host.run(f"echo {source} | base64 -d | {within} env {words} python3 - {wanted}")
    answer: dict[str, Any] = json.loads(found.stdout or '{"problem": "it ended without a word"}')
    return answer


@pytest.fixture(scope="module")
def uuid(host: Any) -> str:
    """Return a GPU that nobody uses and that has a CUDA driver."""
    query = "--query-gpu=uuid,mig.mode.current,compute_mode --format=csv,noheader"
    listed = host.run(f"nvidia-smi {query}")
    if listed.rc or not listed.stdout.strip():
        pytest.skip("there is no GPU here, or no nvidia-smi")
    if host.run("command -v nvidia-cuda-mps-control").rc:
        pytest.skip("nvidia-cuda-mps-control is not installed")
    busy = host.run("nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader").stdout
    pairs = [line.split(", ") for line in busy.splitlines() if ", " in line]
    used = {uuid for uuid, pid in pairs if pid != "0"}  # 0 is no process
    reasons = []
    for index, line in enumerate(listed.stdout.splitlines()):
        found, mig, mode = (word.strip() for word in line.split(","))
        reason = why_not(mig, mode, found in used)
        if not reason:
            answer = run_probe(host, 0, CUDA_VISIBLE_DEVICES=found)
            if "problem" not in answer:
                return found
            reason = f"CUDA does not work: {answer['problem']}"
        reasons.append(f"GPU {index}: {reason}")
    pytest.skip("; ".join(reasons))


def why_not(mig: str, mode: str, used: bool) -> str:
    """Return why MPS is not tried on a GPU; nothing where it can be."""
    if mig == "Enabled":
        return "MIG mode is on"
    if mode == "Exclusive_Process":
        return "the node's own MPS has it, of which a free share is tried"
    if mode != "Default":
        return f"its compute mode is {mode}, not Default"
    return "a process uses it" if used else ""


@pytest.fixture(scope="module")
def folder(host: Any) -> Iterator[str]:
    """Return a folder for an MPS daemon."""
    made = str(host.check_output("mktemp -d /tmp/mps-XXXXXX"))
    yield made
    host.run(f"rm -r {made}")


@pytest.fixture(scope="module")
def probe(host: Any, uuid: str, folder: str) -> Iterator[Probe]:
    """Return the probe as a client of an MPS daemon whose default limit is 2 GiB."""
    daemon = f"CUDA_MPS_PIPE_DIRECTORY={folder} CUDA_MPS_LOG_DIRECTORY={folder}"

    def ask(command: str) -> str:
        return str(host.check_output(f"echo {command} | {daemon} nvidia-cuda-mps-control"))

    host.check_output(f"CUDA_VISIBLE_DEVICES={uuid} {daemon} nvidia-cuda-mps-control -d")
    ask(f"set_default_device_pinned_mem_limit 0 {DEFAULT}M")

    def look(wanted: int = 0, **env: str) -> dict[str, Any]:
        found = run_probe(host, wanted, CUDA_MPS_PIPE_DIRECTORY=folder, **env)
        assert "problem" not in found, found
        assert ask("get_server_list").strip(), "it was no client of MPS"
        return found

    yield look
    host.run(f"echo quit -t 5 | {daemon} nvidia-cuda-mps-control")


@pytest.fixture(scope="module")
def inside(host: Any, probe: Probe, folder: str) -> Probe:
    """Return the probe with what a container has: the control socket by link, mounted read-only."""
    if host.check_output("id -u") != "0":
        pytest.skip("mounts can be made by root only")
    host.check_output(f"mkdir {folder}/pipe {folder}/seen && ln {folder}/control {folder}/pipe/")
    host.check_output(f"ln -s /dev/null {folder}/pipe/log")
    mount = f"mount --bind {folder}/pipe {folder}/seen && mount -o remount,bind,ro {folder}/seen"
    within = f"unshare --mount sh -c '{mount} && exec \"$@\"' -"

    def look(wanted: int = 0, **env: str) -> dict[str, Any]:
        pipe = f"{folder}/seen"
        return run_probe(host, wanted, within, CUDA_MPS_PIPE_DIRECTORY=pipe, **env)

    return look


@pytest.fixture
def for_all(host: Any, uuid: str) -> Iterator[str]:
    """Return the directory of a control daemon whose server is for all users."""
    if host.check_output("id -u") != "0":
        pytest.skip("only root may have a server for all users")
    made = str(host.check_output("mktemp -d /tmp/mps-XXXXXX"))
    host.check_output(f"chmod 755 {made}")
    daemon = f"CUDA_MPS_PIPE_DIRECTORY={made} CUDA_MPS_LOG_DIRECTORY={made}"
    started = host.run(
        f"CUDA_VISIBLE_DEVICES={uuid} {daemon} nvidia-cuda-mps-control -d -multiuser-server"
    )
    if started.rc:
        host.run(f"rm -r {made}")
        pytest.skip("this driver has no server for all users")
    yield made
    host.run(f"echo quit -t 5 | {daemon} nvidia-cuda-mps-control")
    host.run(f"rm -r {made}")


@pytest.fixture(scope="module")
def alone(host: Any, uuid: str) -> dict[str, Any]:
    """Return what the probe sees without MPS, before there is a daemon."""
    return run_probe(host, 0, CUDA_VISIBLE_DEVICES=uuid, CUDA_MPS_PIPE_DIRECTORY="/nowhere")


@pytest.fixture(scope="module")
def share(host: Any) -> dict[str, Any]:
    """Return a share that no pod has of a GPU that the node shares by MPS, with what a container gets."""
    if host.check_output("id -u") != "0":
        pytest.skip("mounts can be made by root only")
    answer = host.run(STATUS).stdout
    shares: list[dict[str, Any]] = json.loads(answer).get("mps_shares", []) if answer else []
    if not shares:
        pytest.skip("the node has no free share of a GPU that is shared by MPS")
    return shares[0]


def with_share(share: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return a shell command that runs its arguments with the mounts of a share, and the variables."""
    mounts = ["mount -t tmpfs tmpfs /tmp"]  # so that no folder of a mount is left
    for mount in share["mounts"]:
        inside, outside = (shlex.quote(mount[side]) for side in ("inside", "outside"))
        mounts.append(f"mkdir -p {inside} && mount --bind {outside} {inside}")
        if mount["read_only"]:
            mounts.append(f"mount -o remount,bind,ro {inside}")
    script = " && ".join([*mounts, 'exec "$@"'])
    within = f"unshare --mount sh -c {shlex.quote(script)} -"
    return within, {**share["env"], "CUDA_VISIBLE_DEVICES": share["device"]}


def test_free_share_of_the_node_holds_a_client_to_its_limits(
    host: Any, share: dict[str, Any]
) -> None:
    """The two vectors of gpu.node.validate, which also asks for more than the share has."""
    within, env = with_share(share)
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    source = base64.b64encode(VECTORS.read_bytes()).decode()
    run = f"{within} env {variables} python3 - {share['device']}"
    answer = json.loads(host.check_output(f"echo {source} | base64 -d | {run}"))
    assert answer["problem"] == ""
    if answer["cuda"] is None:
        pytest.skip(f"CUDA is not tried: {answer['untried']}")
    assert answer["cuda"] == ""


def test_free_share_of_the_node_ends_at_its_memory(host: Any, share: dict[str, Any]) -> None:
    within, env = with_share(share)
    mib = int(share["env"]["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"].removeprefix("0=").rstrip("M"))
    answer = run_probe(host, mib + 1024, within, **env)
    if "no CUDA" in answer.get("problem", ""):
        pytest.skip(answer["problem"])
    assert "problem" not in answer, answer
    assert 0 < answer["given_mib"] <= mib


def limit(mib: int) -> dict[str, str]:
    return {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={mib}M"}


def test_memory_is_limited(alone: dict[str, Any], probe: Probe) -> None:
    assert alone["total_mib"] > 2 * DEFAULT
    given = probe(2 * DEFAULT, **limit(LIMIT))["given_mib"]
    assert 0 < given <= LIMIT  # the context is part of it


def test_an_allocation_beyond_a_share_of_1000_mib_is_refused(probe: Probe) -> None:
    """What a container with nvidia.com/gpumem: 1000 gets; the driver's own context is part of it."""
    assert probe(384, **limit(1000))["given_mib"] == 384
    assert 384 <= probe(1100, **limit(1000))["given_mib"] <= 1000


def test_client_that_drops_its_limit_has_the_default(probe: Probe) -> None:
    assert LIMIT < probe(2 * DEFAULT)["given_mib"] <= DEFAULT


def test_client_can_not_raise_its_limit(probe: Probe) -> None:
    assert probe(2 * DEFAULT, **limit(4 * DEFAULT))["given_mib"] <= DEFAULT


def test_client_comes_through_a_read_only_directory(inside: Probe) -> None:
    """What every container with a share has. Where this fails, set pipeAccess: read-write."""
    found = inside(2 * DEFAULT, **limit(LIMIT))
    assert "problem" not in found, found
    assert 0 < found["given_mib"] <= LIMIT  # so it is a client


def test_who_is_not_root_commands_no_server_for_all_users(host: Any, for_all: str) -> None:
    """What keeps tenants apart: a server for one user takes these commands from each of its clients."""
    user = "setpriv --reuid 12345 --regid 12345 --clear-groups"
    found = run_probe(host, 64, user, CUDA_MPS_PIPE_DIRECTORY=for_all)
    assert "problem" not in found, found

    def ask(command: str, who: str = "") -> str:
        words = f"{who} env CUDA_MPS_PIPE_DIRECTORY={for_all} nvidia-cuda-mps-control"
        return str(host.run(f"echo '{command}' | {words}").stdout)

    (server,) = ask("get_server_list").split()
    for command in (
        f"set_device_pinned_mem_limit {server} 0 40G",
        f"set_active_thread_percentage {server} 100",
        f"shutdown_server {server} -f",
    ):
        assert "Insufficient privileges" in ask(command, user)
    assert ask("get_server_list").split() == [server]


@pytest.mark.parametrize("percent", ["25", "14.2"])
def test_threads_are_limited(alone: dict[str, Any], probe: Probe, percent: str) -> None:
    share = probe(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=percent)["multiprocessors"]
    assert 0 < share <= alone["multiprocessors"] * float(percent) / 100 + 2  # what hardware has


def test_what_programs_are_told(host: Any, uuid: str, alone: dict[str, Any], probe: Probe) -> None:
    told = probe(**limit(LIMIT))
    smi = host.check_output(
        f"nvidia-smi -i {uuid} --query-gpu=memory.total --format=csv,noheader,nounits"
    )
    print(
        f"{alone['name']}: with a limit of {LIMIT} MiB a program is told {told}, nvidia-smi {smi}"
    )
    assert int(smi) >= alone["total_mib"] - 1024  # it does not know of the limit
    assert told["info_free_mib"] <= told["info_total_mib"] <= alone["info_total_mib"]
