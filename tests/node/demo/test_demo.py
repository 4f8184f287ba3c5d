# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The demo, and what it says can be tried on its node, command by command as it prints them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.tour import STOPS
from tests.support.paths import REPOSITORY

NAME = "tour"
# What each says, in the order in which the demo names them.
SAID = {
    "a pod": r"pod training-1 is admitted",
    "a MIG layout": r"GPU 0: create 3g\.20gb",
    "a drift": r"/etc/cdi/nvidia\.yaml: .*changed=1 ",
    "an XID": r"Unhealthy.*XID 79",
    "the report": r"gpu-report\.html: 1 node",
}

pytestmark = [pytest.mark.node, pytest.mark.long]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Run the demo in a folder of its own, and return the folder and what was printed."""
    folder = tmp_path / "demo"
    words = [sys.executable, "-m", "tests.demo.demo", "--node", NAME, "--folder", str(folder)]
    env = {**os.environ, "PRODUCT": "a100-40", "GPUS": "2"}
    try:
        done = subprocess.run(
            words, cwd=REPOSITORY, env=env, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        yield folder, done.stdout
    finally:
        subprocess.run([REPOSITORY / "tests/fakes/node/gpunode", "down", NAME], check=False)


def test_what_the_demo_says_to_try_works_in_its_order(demo: tuple[Path, str]) -> None:
    folder, printed = demo
    assert "changed=0" in printed
    told = printed.partition("Try on this one")[2]
    commands = dict(re.findall(r"^  (\w[\w ]+?)  +(\S.*)$", told, re.MULTILINE))
    assert list(commands)[: len(STOPS)] == [title for title, _command in STOPS] == list(SAID)
    for title, wanted in SAID.items():
        done = subprocess.run(
            ["bash", "-c", commands[title]], cwd=folder, check=False, capture_output=True, text=True
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, bool(re.search(wanted, said, re.DOTALL))) == (0, True), (
            title,
            said,
        )
    assert "GPU" in (folder / "gpu-report.html").read_text()
