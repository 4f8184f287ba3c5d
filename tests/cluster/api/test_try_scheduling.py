# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page that has a genuine kube-scheduler place pods on nodes that an inventory describes, word for word."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubernetes.genuine_api import found
from tests.support import helper_process
from tests.support.paths import DOCS, SOURCES
from tests.support.ports import reserve
from tests.support.waiting import LIMIT, eventually

PAGE = (DOCS / "fractions/try-scheduling.md").read_text()
NODES, DEPLOYMENT = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
SCRIPT = "".join(re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL))
PORTS = ("12379", "12380", "16443")
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
FULL = "cannot allocate all claims"


class Desk:
    """A folder with the control plane of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = {str(found(name).parent.resolve()) for name in PROGRAMS}
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
            "KUBECONFIG": str(folder / "admin.conf"),
            "PYTHONPATH": os.pathsep.join(map(str, SOURCES)),
        }
        script = SCRIPT
        for port in PORTS:
            script = script.replace(port, str(reserve(self)))
        self._process = helper_process.start(
            ["bash", "-euc", f"{script}\ntouch started\nwait"],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            ready=helper_process.executed,
        )
        eventually(lambda: (folder / "started").exists() or self._process.poll() is not None)
        assert (folder / "started").exists(), (folder / "apiserver.log").read_text()[-2000:]

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.close()

    def apply(self, *args: str) -> None:
        """Give what ``gpu-cluster show`` prints to kubectl."""
        command = [sys.executable, "-m", "gpu_cluster", "show", *args]
        shown = self._run(command)
        self._run(["kubectl", "apply", "-f", "-"], shown)

    def get(self, kind: str) -> list[Any]:
        output = self._run(["kubectl", "get", kind, "-o", "json"])
        return list(json.loads(output)["items"])

    def _run(self, command: list[str], text: str = "") -> str:
        process = subprocess.run(
            command,
            input=text,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return process.stdout


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def _is_decided(pod: Any) -> bool:
    messages = [item.get("message", "") for item in pod["status"].get("conditions") or ()]
    return bool(pod["spec"].get("nodeName")) or any(FULL in message for message in messages)


def test_the_page_s_pods_are_placed_on_the_nodes_of_its_inventory(desk: Desk) -> None:
    (desk.folder / "nodes.yaml").write_text(NODES)
    (desk.folder / "pods.yaml").write_text(DEPLOYMENT)
    desk.apply("--inventory", "nodes.yaml", "pods.yaml")

    def decided() -> int:
        return sum(map(_is_decided, desk.get("pods")))

    eventually(decided, 13)
    nodes = [pod["spec"].get("nodeName", "") for pod in desk.get("pods")]
    assert sorted(nodes) == ["", *["v100-0"] * 6, *["v100-1"] * 6]
    results = [
        (result["pool"], result["device"])
        for claim in desk.get("resourceclaims")
        if "allocation" in claim.get("status", {})
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert len(results) == 12
    assert {results.count(result) for result in results} == {3}
