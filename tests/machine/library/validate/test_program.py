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
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import program
from nvsim.testing import Sim, start

from tests.support.paths import FAKES

SOURCE = inspect.getsource(program)


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a libcuda that calculates on the machine's memory."""
    folder = tmp_path_factory.mktemp("cuda")
    source = FAKES / "cuda/standin_cuda.c"
    words = ["gcc", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(source)]
    subprocess.run(words, check=True)
    return folder


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
    folder = f"FOLDERS = ({str(usual)!r},)\nCONTROL, HOST = '/dev/null', {host!r}\nif __name__"
    more = {"LD_LIBRARY_PATH": str(cuda), **more}
    source = SOURCE.replace("if __name__", folder).replace(
        "uuids()\n    except", '["GPU-1"]\n    except'
    )
    assert source.count("GPU-1") == 1
    return ask({**os.environ, **more}, device, source)


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


def test_it_needs_the_standard_library_alone() -> None:
    """It runs where no package of the node is, and also under the oldest Python of a node."""
    tree = ast.parse(SOURCE, feature_version=(3, 9))
    names = {
        alias.name for one in ast.walk(tree) if isinstance(one, ast.Import) for alias in one.names
    }
    assert names <= set(sys.stdlib_module_names)
    assert not [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.level]
