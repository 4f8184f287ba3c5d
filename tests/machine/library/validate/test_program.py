# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The program that asks the driver, as a process of its own: NVML on the simulated driver, CUDA by its signatures.

Its kernel was assembled by NVIDIA's ptxas 12.9 for sm_50 to sm_120. No GPU has run it in these tests.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.daemon import (
    Mount,
    Share,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import program
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.containers import (
    Trial,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from nvsim.testing import Sim, start

from tests.support.cuda import build

SOURCE = inspect.getsource(program)


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a libcuda that calculates on the machine's memory."""
    return build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def sim() -> Iterator[Sim]:
    with start("a100-40", 2) as found:
        yield found


def ask(env: dict[str, str], device: str = "", source: str = SOURCE) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", source, device],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def with_cuda(
    cuda: Path, device: str, usual: Path = Path("/nowhere"), host: str = "/nowhere", **more: str
) -> dict[str, Any]:
    """Return what the program says with that libcuda and a kernel that has a driver behind its node.

    ``usual`` is where images have libraries, and where ``host`` is a folder it runs in a container.
    """
    more = {"LD_LIBRARY_PATH": str(cuda), "NODE_CUDA_MULTIPROCESSORS": "132", **more}
    return ask({**os.environ, **more}, device, on_the_machine(usual, host))


def on_the_machine(usual: Path = Path("/nowhere"), host: str = "/nowhere") -> str:
    """Return the source for a machine with one GPU whose kernel has a driver."""
    folder = f"FOLDERS = ({str(usual)!r},)\nCONTROL, HOST = '/dev/null', {host!r}\nif __name__"
    source = SOURCE.replace("if __name__", folder).replace(
        "uuids()\n    except", '["GPU-1"]\n    except'
    )
    assert source.count("GPU-1") == 1
    return source


def test_it_names_the_gpus_and_says_why_it_adds_nothing(sim: Sim) -> None:
    listed = [one["uuid"] for one in sim.ctl("status")["gpus"]]
    told = ask(sim.env, listed[0])
    assert told["uuids"] == listed
    assert (told["problem"], told["cuda"]) == ("", None)
    assert told["untried"] == "the kernel has no driver behind /dev/nvidiactl"


def test_it_says_what_the_driver_says(sim: Sim) -> None:
    sim.ctl("unload")
    told = ask(sim.env, "GPU-1")
    assert told["problem"] == "nvmlInit_v2: Driver Not Loaded"
    assert (told["uuids"], told["cuda"]) == ([], None)


def test_it_adds(cuda: Path) -> None:
    assert with_cuda(cuda, "GPU-1")["cuda"] == ""
    assert with_cuda(cuda, "")["cuda"] is None


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("cuInit", "cuInit: CUDA_ERROR_SYSTEM_NOT_READY"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2: CUDA_ERROR_SYSTEM_NOT_READY"),
        ("cuCtxSynchronize", "cuCtxSynchronize: CUDA_ERROR_SYSTEM_NOT_READY"),
        ("sum", "1 of 256 sums are wrong"),
    ],
)
def test_it_says_where_the_sum_goes_wrong(cuda: Path, fault: str, text: str) -> None:
    assert with_cuda(cuda, "GPU-1", NODE_CUDA=fault)["cuda"] == text


def test_on_the_node_the_loader_knows_where_libcuda_is(cuda: Path, tmp_path: Path) -> None:
    """A driver in a folder of its own, and in the usual one an empty file, as containers leave what they mount on."""
    (tmp_path / "libcuda.so.1").touch()
    assert with_cuda(cuda, "GPU-1", tmp_path)["cuda"] == ""
    inside = with_cuda(cuda, "GPU-1", tmp_path, str(tmp_path))
    assert inside["untried"].endswith("file too short")


def test_in_a_container_that_of_the_machine_is_not_taken(cuda: Path, tmp_path: Path) -> None:
    told = with_cuda(cuda, "GPU-1", host=str(tmp_path))
    assert told["untried"] == "libcuda.so.1 is not in the container"
    assert with_cuda(tmp_path, "GPU-1", cuda, str(tmp_path))["cuda"] == ""


def test_without_libcuda_the_sum_is_not_tried(tmp_path: Path) -> None:
    told = with_cuda(tmp_path, "GPU-1")
    assert told["cuda"] is None
    assert "libcuda.so.1" in told["untried"]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[str]:
    """Return the pipe directory of a container with a share, whose control daemon answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control"))
        listener.listen()
        yield str(tmp_path)


SHARE = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1024M", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}


@pytest.mark.parametrize("percentage", ["25", "14.2", "16"])
def test_client_of_mps_is_held_to_its_limits(cuda: Path, pipe: str, percentage: str) -> None:
    share = {**SHARE, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": percentage}
    assert with_cuda(cuda, "GPU-1", CUDA_MPS_PIPE_DIRECTORY=pipe, **share)["cuda"] == ""


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("memory", "1024 MiB could be allocated beside the context, and its limit is 1024 MiB"),
        ("threads", "132 of 132 multiprocessors can be used, and its limit is 25 percent"),
        ("cuCtxSynchronize", "cuCtxSynchronize: CUDA_ERROR_SYSTEM_NOT_READY"),
    ],
)
def test_client_of_mps_names_the_limit_that_is_not_in_force(
    cuda: Path, pipe: str, fault: str, text: str
) -> None:
    answer = with_cuda(cuda, "GPU-1", CUDA_MPS_PIPE_DIRECTORY=pipe, NODE_CUDA=fault, **SHARE)
    assert answer["cuda"] == text


def test_client_on_the_node_has_the_share_of_a_pod(
    cuda: Path, pipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a genuine mount of the server's shared memory, which the machine's own /dev/shm does not notice."""
    if os.geteuid() != 0:
        pytest.skip("mounts can be made by root only")
    memory = tmp_path / "shm"
    memory.mkdir()
    (memory / "of-the-server").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(cuda))
    mounts = (Mount("/tmp/nvidia-mps", pipe, read_only=True), Mount("/dev/shm", str(memory)))
    env = {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps", **SHARE}
    trial = Trial(Host())
    looks = "assert os.path.exists('/dev/shm/of-the-server')\nif __name__"
    monkeypatch.setattr(trial, "_source", on_the_machine().replace("if __name__", looks))
    assert trial.beside("GPU-1", Share("GPU-1", env, mounts)).cuda == ""
    assert not Path("/dev/shm/of-the-server").exists()


def test_process_that_reaches_no_control_daemon_is_not_limited(cuda: Path, tmp_path: Path) -> None:
    """CUDA then works without MPS, as if nothing were wrong."""
    answer = with_cuda(cuda, "GPU-1", CUDA_MPS_PIPE_DIRECTORY=str(tmp_path), **SHARE)
    assert "multiprocessors can be used" in answer["cuda"] or "allocated" in answer["cuda"]


def test_it_needs_the_standard_library_alone() -> None:
    """It runs where no package of the node is, and also under the oldest Python of a node."""
    tree = ast.parse(SOURCE, feature_version=(3, 9))
    names = {
        alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names
    }
    assert names <= set(sys.stdlib_module_names)
    assert not [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.level]
