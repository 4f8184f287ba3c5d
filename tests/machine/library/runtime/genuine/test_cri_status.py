# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a genuine containerd says over CRI that it has: all that was set, or that its CRI plugin did not start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.containerd import (
    PYTHON,
    Containerd,
)
from ansible_collections.gpu.node.plugins.module_utils._runtime.state import (
    RuntimeOptions,
    RuntimeView,
)

from tests.fakes.runtime.genuine_runtimes import CONFIG, GenuineRuntimes, converge, with_cdi
from tests.support import helper_process
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="runs containerd as root")
SOCKET = "/run/cri.sock"
SECTIONS = {"trixie": "io.containerd.grpc.v1.cri", "forky": "io.containerd.cri.v1.runtime"}


class WithPython(GenuineRuntimes):
    """A machine that has the device plugin's environment."""

    def run(self, argv, **values):  # type: ignore[no-untyped-def]
        if argv[0] != PYTHON:
            return super().run(argv, **values)
        self.programs[PYTHON] = Path(sys.executable)
        try:
            return super().run(argv, **values)
        finally:
            del self.programs[PYTHON]


@contextmanager
def containerd(node: GenuineRuntimes) -> Iterator[None]:
    """Run containerd by the machine's file until the end of a with statement."""
    program = node.programs["containerd"]
    path = f"{program.parent}:{os.environ['PATH']}:/usr/sbin"
    command = ["unshare", "--net", *node.inside(), str(program), "--config", CONFIG]
    with helper_process.start(
        command,
        stderr=subprocess.DEVNULL,
        env={"PATH": path},
        ready=lambda _process: eventually(lambda: node.listens(node.at(SOCKET))),
    ) as process:
        yield
        process.terminate()


def looked_at(node: GenuineRuntimes, mode: str) -> tuple[RuntimeView, object]:
    """Return what must be set, and what of it the running containerd lacks."""
    runtime = Containerd(node)
    view = runtime.view(CONFIG, RuntimeOptions(mode=mode))
    return view, view.lacking_in_effect(runtime.running(CONFIG))


@with_cdi
@pytest.mark.parametrize("mode", ["cdi", "default_runtime"])
def test_the_running_containerd_says_what_it_has(tmp_path: Path, suite: str, mode: str) -> None:
    version = 2 if suite == "trixie" else 3
    text = f'version = {version}\n[grpc]\naddress = "{SOCKET}"\n'
    cri = f"[plugins.'{SECTIONS[suite]}']\nenable_cdi = false\n"
    node = WithPython(tmp_path, suite, {CONFIG: text + cri})
    node.install_toolkit()
    with containerd(node):
        converge(node, mode=mode)
        view, lacking = looked_at(node, mode)
        assert view.settings[0] == (("enable_cdi",), True)
        assert view.settings[0] in lacking  # type: ignore[operator]
    with containerd(node):
        view, lacking = looked_at(node, mode)
        answer = Containerd(node).running(CONFIG)
        assert answer is not None
        assert {path[0] for path, _value in view.settings} <= set(answer)
        assert lacking == []
    assert Containerd(node).running(CONFIG) is None  # nobody answers, which says nothing


@with_cdi
def test_a_cri_plugin_that_did_not_start_has_nothing(tmp_path: Path, suite: str) -> None:
    version = 2 if suite == "trixie" else 3
    at = f"plugins.'{SECTIONS[suite]}'"
    text = f'version = {version}\n[grpc]\naddress = "{SOCKET}"\n[{at}]\nenable_cdi = true\n'
    text += f'[{at}.containerd]\ndefault_runtime_name = "gone"\n'
    node = WithPython(tmp_path, suite, {CONFIG: text})
    with containerd(node):
        _view, lacking = looked_at(node, "cdi")
        assert lacking == [(("enable_cdi",), True)]
