# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A node with the process that labels it, and its API."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable
from typing import Any

from tests.fakes.daemon.running import Node
from tests.fakes.kubernetes.standin_api import NODE, Api
from tests.support.waiting import LIMIT, eventually


class Labeller:
    """A node with the process that labels it, and its API."""

    def __init__(self, node: Node) -> None:
        self.node, self.api = node, Api(node.folder)
        self.output = node.folder / "features/gfd"
        self.status = node.folder / "run/labels.json"
        self.process: subprocess.Popen[bytes] | None = None

    def words(self, *more: object) -> list[object]:
        words: list[object] = ["labels", "--config", self.node.config, "--node-name", NODE]
        words += ["--kubeconfig", self.api.kubeconfig, "--host-root", self.node.sim.root]
        words += ["--plugin-status-file", self.node.status_file, "--patience", LIMIT]
        return [*words, "--status-file", self.status, "--output-file", self.output, *more]

    def start(self, config: str, *more: object, **env: str) -> None:
        self.node.config.write_text(config)
        self.process = self.node.python("-m", "gpu_plugin", *self.words(*more), **env)

    def once(self, config: str, *more: object) -> subprocess.CompletedProcess[str]:
        self.node.config.write_text(config)
        found: subprocess.CompletedProcess[str] = self.node.cli(*self.words(*more))
        return found

    def wait(self, **labels: str | None) -> dict[str, str]:
        """Wait until the node has labels of nvidia.com; in names an underscore is a dot."""
        wanted = {f"nvidia.com/{name.replace('_', '.')}": text for name, text in labels.items()}
        eventually(lambda: all(self.api.own().get(k) == v for k, v in wanted.items()))
        return self.api.own()

    def looks(self) -> int:
        """How often the process has asked the driver for the number of GPUs since its start."""
        assert self.process is not None
        return self.node.sim.looks(self.process.pid)

    def file(self) -> dict[str, str]:
        with contextlib.suppress(FileNotFoundError):
            return dict(line.split("=", 1) for line in self.output.read_text().splitlines())
        return {}

    def state(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            found: dict[str, Any] = json.loads(self.status.read_text())
            return found
        return {"state": "", "problem": ""}

    def end(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(LIMIT)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
        self.api.stop()


Start = Callable[..., Labeller]
