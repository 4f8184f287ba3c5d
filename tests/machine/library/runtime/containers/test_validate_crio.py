# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The container that validation starts in a genuine CRI-O, and what it says where CRI-O gives it no GPU."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.validate import containers, pods
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.containers import (
    Answer,
    NotTried,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import runtimes
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.containers import (
    FOLDER,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine.pods import PodTrial
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.crio import Crio

from tests.fakes.runtime import crio_unit
from tests.fakes.runtime.crio_unit import CrioUnit
from tests.fakes.runtime.daemon_unit import started
from tests.fakes.runtime.genuine_runtimes import planned, runs_containers
from tests.support.waiting import eventually

CRIO_BIN = os.environ.get("CRIO_BIN", "")
SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "all", "containerEdits": {"env": ["SEEN=GPU-1"]}}],
}
# Prints what the program of validation does, with the UUID that the specification gives it.
ASKS = "import json, os; print(json.dumps({'uuids': [os.environ['SEEN']], 'problem': ''}))"
SLEEPS = "import time; time.sleep(600)"
OPTIONS = {"hooks": "auto", "library_folders": [], "driver_root": "/", "generator": "nvml"}
pytestmark = [
    pytest.mark.skipif(not CRIO_BIN, reason="CRIO_BIN names no folder with crio"),
    *runs_containers,
    pytest.mark.long,
]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[CrioUnit]:
    """Return a machine whose CRI-O knows the GPUs."""
    unit = CrioUnit(tmp_path, Path(CRIO_BIN))
    unit.put("/etc/cdi/nvidia.json", json.dumps(SPEC))
    unit.put("/etc/gpu-node/cdi.json", json.dumps({**OPTIONS, "path": "/etc/cdi/nvidia.json"}))
    with started(unit):
        yield unit


def tried(node: CrioUnit, source: str = ASKS) -> Answer:
    """Return what a container answers, and see that nothing of it is left."""
    maps = Path("/proc/self/maps").read_text()
    python = containers.python(os.path.realpath(sys.executable), sys.base_prefix, maps)
    assert python is not None
    try:
        return PodTrial(node, Crio(node), FOLDER).run(python.command(source), python)
    finally:
        assert node.pods.running() == set()
        node.remove(FOLDER)


def crictl(node: CrioUnit, *args: str) -> str:
    """Return what crictl prints."""
    endpoint = f"unix://{crio_unit.SOCKET}"
    options = [f"--runtime-endpoint={endpoint}", f"--image-endpoint={endpoint}"]
    return node.run(["crictl", *options, *args]).out


def test_container_gets_what_the_specification_says(node: CrioUnit) -> None:
    assert tried(node) == Answer(("GPU-1",))


def test_device_that_is_not_in_it_is_a_problem(node: CrioUnit) -> None:
    node.remove("/etc/cdi/nvidia.json")
    with pytest.raises(NodeError, match="unresolvable CDI devices") as caught:
        tried(node)
    assert not isinstance(caught.value, NotTried)


def test_variable_of_the_unit_is_found_by_all(node: CrioUnit) -> None:
    """It has the last word over all files."""
    node.variables["CONTAINER_CDI_SPEC_DIRS"] = "/opt/cdi"
    node.run(["systemctl", "restart", node.unit])
    (check,) = runtimes.look(node, [Crio(node)], required="cri-o").values()
    assert "it reads /opt/cdi, and the specification is in /etc/cdi" in check.cause
    with pytest.raises(NodeError, match="unresolvable CDI devices"):
        tried(node)
    with pytest.raises(InputError, match="--cdi-spec-dirs=/opt/cdi"):
        planned(node, name="cri-o")


def test_pod_that_a_kubelet_ends_is_unknown(node: CrioUnit) -> None:
    """As it does with each pod that it does not know."""
    ended = threading.Event()

    def end() -> None:
        while not ended.is_set():
            # The trial may have removed the pod meanwhile, or is about to.
            with contextlib.suppress(grpc.RpcError):
                if node.pods.running():
                    node.pods.end(pods.NAME)

    killer = threading.Thread(target=end)
    killer.start()
    try:
        with pytest.raises(NotTried, match="as a kubelet ends pods that it does not know"):
            tried(node, SLEEPS)
    finally:
        ended.set()
        killer.join()


def test_pod_that_a_killed_run_left_is_removed(node: CrioUnit) -> None:
    node.put("/run/left.json", json.dumps(pods.pod("/run/logs")))
    crictl(node, "runp", "/run/left.json")
    assert tried(node) == Answer(("GPU-1",))
    assert crictl(node, "pods", "--quiet") == ""


def test_nothing_is_pulled(node: CrioUnit) -> None:
    crictl(node, "rmi", crio_unit.IMAGE)
    with pytest.raises(NotTried, match="with which CRI-O begins pods, is not on the node"):
        tried(node)


def test_reload_takes_over_folders_and_nothing_says_so(node: CrioUnit) -> None:
    """Its status has the former list, or parts of both. So it is restarted for them, with which no container ends."""
    node.remove("/etc/cdi/nvidia.json")
    node.put("/etc/site/nvidia.json", json.dumps(SPEC))
    node.put(
        "/etc/crio/crio.conf.d/50-site.conf", '[crio.runtime]\ncdi_spec_dirs = ["/etc/site"]\n'
    )
    node.run(["systemctl", "reload", node.unit])
    eventually(lambda: starts(node))
    shown = Crio(node).running("")
    assert shown is not None
    assert shown["cdi_spec_dirs"] != ["/etc/site"]


def starts(node: CrioUnit) -> bool:
    """Return whether a pod with all GPUs starts."""
    try:
        node.pods.start("plain", devices=[containers.ALL])
    except grpc.RpcError:
        return False
    finally:
        node.pods.end()
    return True
