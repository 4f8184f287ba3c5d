# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Every pip that this repository runs takes what is listed by its hash, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY

BETWEEN = r"""["'`,*()\s\\]*"""
FETCHES = re.compile(rf"""\bpip[\d.]*{BETWEEN}(?:install|download|wheel)\b(?!\()""")
CALLS = re.compile(rf"""-m{BETWEEN}pip\b{BETWEEN}(?P<verb>[^\s"',]*)""")
KNOWN = {"install", "download", "config", "uninstall", "--version"}
WITHIN = 400  # characters that a command has
# Where words are no command that is run, or run for the hashes' sake, and why.
OTHERS = {
    "tests/lock": "it chooses the versions whose hashes are then written down",
    "tests/bootstrap_pip.py": "ansible-test gives it the requirements that ansible-core has pinned",
    "tests/pure/daemon/deployment/test_pod_manifest.py": "it looks for such words",
    "tests/pure/library/device_plugin/test_deployed.py": "it looks for such words",
    "tests/machine/release/test_execution_environment.py": "it looks for such words",
}
# What ansible-builder asks of an image: ranges, which tests/environments/ee.txt has with hashes.
RANGES = "requirements.txt"
# A library that a user installs on the controller, as the distribution or a virtual environment has it.
OF_USERS = re.compile(rf"pip{BETWEEN}install{BETWEEN}(?:kubernetes|packaging|ansible[a-z-]*)\b")


def tracked() -> list[Path]:
    words = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    found = [REPOSITORY / name for name in done.stdout.split("\0") if name]
    return [one for one in found if one.is_file() and not one.is_symlink()]


def unpinned(text: str) -> list[str]:
    """Return the commands of a text that would fetch what no hash is known of."""
    found = []
    for one in FETCHES.finditer(text):
        command = text[one.start() : one.start() + WITHIN]
        if not re.search(r"--require-hashes|--no-index", command) and not OF_USERS.match(command):
            found.append(f"line {text.count(chr(10), 0, one.start()) + 1}: {command[:60]!r}")
    odd = {one["verb"] for one in CALLS.finditer(text)} - KNOWN
    return found + [f"-m pip {verb}" for verb in sorted(odd)]


def texts() -> dict[str, str]:
    found = {}
    for path in tracked():
        try:
            found[str(path.relative_to(REPOSITORY))] = path.read_text()
        except UnicodeDecodeError:
            continue
    del found[str(Path(__file__).relative_to(REPOSITORY))]
    return found


def test_every_pip_of_the_repository_requires_hashes() -> None:
    found = {name: unpinned(text) for name, text in texts().items()}
    assert {name: said for name, said in found.items() if said and name not in OTHERS} == {}
    assert [name for name in OTHERS if not found[name]] == []  # no reason outlives its cause


def test_there_are_such_commands() -> None:
    fetching = {name for name, text in texts().items() if FETCHES.search(text)}
    assert {
        *("Makefile", "files/gpu_plugin/Containerfile", "tests/fakes/node/gpunode_tool/image.py"),
        "plugins/module_utils/_device_plugin/machine/release.py",
        "plugins/module_utils/_bundle/machine/pip.py",
    } <= fetching


@pytest.mark.parametrize(
    "text",
    [
        "RUN pip install requests",
        "python3 -m pip download requests",
        '[sys.executable, "-m", "pip", "install", "requests"]',
        '(\n    *("-I", "-m", "pip",\n    "install"), "requests",\n)',
        "$(BIN)/pip3 wheel .",
        "pip3.11 install -r requirements.txt",
        '[sys.executable, "-m", "pip", *words]',
    ],
)
def test_one_that_does_not_is_told(text: str) -> None:
    assert unpinned(text)
    assert unpinned(text + "\n" * WITHIN + "--require-hashes")


def test_lists_of_requirements_have_hashes_throughout() -> None:
    lists = {
        one: text
        for one, text in texts().items()
        if re.search(r"requirements[^/]*\.txt$", one) and one != RANGES
    }
    assert {
        "files/gpu_cluster/requirements.txt",
        "files/gpu_cluster/requirements-build.txt",
    } <= {*lists}
    for name, text in lists.items():
        lines = text.replace("\\\n", " ").splitlines()
        wanted = [one for one in lines if one and not one.startswith("#")]
        assert [one for one in wanted if " --hash=sha256:" not in one] == [], name
