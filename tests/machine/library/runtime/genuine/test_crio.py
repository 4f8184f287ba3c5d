# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a genuine CRI-O makes of its files with ours; `make test-cluster CRIO_BIN=folder` says where it is."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.library.runtime_host import CRIO
from tests.fakes.runtime.crio_files import CONMON, CRUN, PACKAGE, PACKAGED, RUNC, SITE
from tests.fakes.runtime.genuine_runtimes import WRAPPER, GenuineRuntimes, converge

CRIO_BIN = os.environ.get("CRIO_BIN", "")
MAIN, POLICY = "/etc/crio/crio.conf", "/etc/crio/policy.json"
MODES = ("cdi", "runtime_class", "default_runtime")
Make = Callable[..., GenuineRuntimes]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not CRIO_BIN, reason="CRIO_BIN names no folder with crio"),
]


@pytest.fixture
def make(machine: Make) -> Make:
    """Return a maker of machines with files of CRI-O's by their paths."""

    def with_crio(**files: str) -> GenuineRuntimes:
        node = machine("trixie", files)
        node.programs["crio"] = Path(CRIO_BIN) / "crio"
        node.install_toolkit()
        for path in (CONMON, CRUN, RUNC):
            node.put(path, "")
            node.answers[path] = ""
        return node

    return with_crio


def effective(node: GenuineRuntimes) -> dict[str, Any]:
    """Return the runtime's section as CRI-O prints it, with the default that it shows as a comment."""
    found = tomllib.loads(node.run(["crio", "config"]).out)["crio"]["runtime"]
    return {"default_runtime": "crun", **found}


def written(node: GenuineRuntimes, path: str = CRIO) -> dict[str, Any]:
    """Return the handler's entry in a file."""
    config = tomllib.loads(node.read(path) or "")
    entry: dict[str, Any] = config["crio"]["runtime"]["runtimes"]["nvidia"]
    return entry


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_is_in_effect_and_goes(make: Make, mode: str) -> None:
    node = make(**{PACKAGE: PACKAGED})
    before = node.files()
    converge(node, name="cri-o", mode=mode, spec_dirs=["/etc/cdi", "/opt/cdi"])
    found = effective(node)
    assert "/opt/cdi" in found["cdi_spec_dirs"]
    assert found["default_runtime"] == ("nvidia" if mode == "default_runtime" else "crun")
    if mode != "cdi":
        assert found["runtimes"]["nvidia"]["runtime_path"] == WRAPPER
        assert found["runtimes"]["nvidia"]["runtime_root"] == "/run/crun"
    assert converge(node, name="cri-o", mode=mode, spec_dirs=["/etc/cdi", "/opt/cdi"]) == []
    converge(node, name="cri-o", state="absent")
    assert node.files() == before


def test_handler_has_what_crio_does_not_print(make: Make) -> None:
    node = make(**{PACKAGE: PACKAGED, "/etc/crio/crio.conf.d/20-site.conf": SITE})
    converge(node, name="cri-o", mode="runtime_class")
    shown = effective(node)["runtimes"]
    assert "seccomp_profile" not in shown["crun"]
    assert shown["nvidia"]["container_min_memory"] == "20MiB"
    assert written(node)["seccomp_profile"] == "/etc/crio/seccomp-node.json"
    assert written(node)["container_create_timeout"] == 600


def test_handler_is_like_the_runtime_that_is_built_in(make: Make) -> None:
    node = make()
    node.answers["conmon"] = ""
    converge(node, name="cri-o", mode="runtime_class")
    entry = written(node)
    assert entry.pop("runtime_path") == WRAPPER
    assert entry["runtime_root"] == "/run/crun"
    assert entry["monitor_env"]
    assert converge(node, name="cri-o", mode="runtime_class") == []


def test_copy_is_not_read_as_configuration(make: Make) -> None:
    node = make(**{PACKAGE: PACKAGED})
    for mode in ("default_runtime", "runtime_class"):
        converge(node, name="cri-o", mode=mode, backup=True)
    assert effective(node)["default_runtime"] == "crun"


def test_main_file_is_tried_beside_other_files_of_its_folder(make: Make) -> None:
    node = make(**{PACKAGE: PACKAGED, MAIN: "[crio.image]\n", POLICY: "{}"})
    before = node.files()
    converge(node, name="cri-o", config_path=MAIN, spec_dirs=["/opt/cdi"])
    assert "/opt/cdi" in effective(node)["cdi_spec_dirs"]
    converge(node, name="cri-o", config_path=MAIN, state="absent")
    assert node.files() == before


def test_file_that_crio_cannot_read_is_named(make: Make) -> None:
    node = make(**{PACKAGE: PACKAGED, "/etc/crio/crio.conf.d/30-x.conf": "[crio.runtime\n"})
    with pytest.raises(NodeError, match=r"CRI-O can't read its configuration.*30-x.conf") as caught:
        converge(node, name="cri-o")
    assert "level=info" not in str(caught.value)


def test_default_that_another_file_still_has_is_an_error(make: Make) -> None:
    """CRI-O itself refuses it without our file, by which the handler is told from the others."""
    node = make(**{PACKAGE: PACKAGED})
    converge(node, name="cri-o", mode="default_runtime")
    there = node.read(CRIO)
    other = "/etc/crio/crio.conf.d/zzz"
    node.then = lambda: node.put(other, '[crio.runtime]\ndefault_runtime = "nvidia"\n')
    with pytest.raises(NodeError, match=r"default_runtime.*nvidia"):
        converge(node, name="cri-o", mode="runtime_class")
    assert node.read(CRIO) == there
