# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Whether runtimes read the specification: each way in which one does not is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.check import (
    Check,
    judged,
    skipped,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import runtimes
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine.record import MARK, RECORD

from tests.fakes.library.fakes import FakeHost
from tests.fakes.library.runtime_host import RuntimeHost

OPTIONS = {"hooks": "auto", "library_folders": [], "driver_root": "/", "generator": "nvml"}
NAME = "docker: CDI"
DAEMON = "/etc/docker/daemon.json"
AGAIN = "run the role gpu.node.container_runtime"


def docker(
    daemon: dict[str, Any],
    *,
    path: str = "/var/run/cdi/nvidia.yaml",
    ours: tuple[str, ...] | None = ("features", "cdi"),
    active: str = "active",
) -> FakeHost:
    """Return a machine with Docker, of whose configuration we have written a key, or none."""
    entries = [[ours, True, [], 0]] if ours else []
    record = {DAEMON: {"runtime": "docker", "base": None, "text": "", "entries": entries}}
    files = {
        DAEMON: json.dumps(daemon),
        "/etc/gpu-node/cdi.json": json.dumps({**OPTIONS, "path": path}),
        **({RECORD: json.dumps(record)} if ours else {}),
    }
    shown = (
        f"ActiveState={active}\nActiveEnterTimestampMonotonic=1\nStateChangeTimestampMonotonic=1\n"
    )
    commands = {
        ("dockerd", "--version"): "Docker version 26.1.5, build a72d7cd",
        ("systemctl", "show", "docker.service"): shown,
    }
    return FakeHost(files, commands)


def look(on: FakeHost, *, required: str = "") -> Check:
    return runtimes.look(on, runtimes.there(on), required=required)["docker"]  # type: ignore[arg-type]


ON = {"features": {"cdi": True}}


@pytest.mark.parametrize("path", ["/var/run/cdi/a.yaml", "/run/cdi/a.yaml", "/etc/cdi/a.json"])
def test_a_runtime_that_reads_the_folder(path: str) -> None:
    assert look(docker(ON, path=path)) == Check(NAME)


@pytest.mark.parametrize(
    ("on", "problem", "step"),
    [
        (docker({}), "features.cdi is off", AGAIN),
        (
            docker({**ON, "cdi-spec-dirs": ["/opt/cdi"]}),
            "it reads /opt/cdi, and the specification is in /var/run/cdi",
            AGAIN,
        ),
        (
            docker(ON, path="/srv/nvidia.yaml"),
            "it reads /etc/cdi, /var/run/cdi, and the specification is in /srv",
            AGAIN,
        ),
        (docker(ON, active="failed"), "docker.service is failed", "systemctl start docker.service"),
    ],
)
def test_one_that_we_have_set_up_and_that_does_not(on: FakeHost, problem: str, step: str) -> None:
    assert look(on) == judged(NAME, problem, step)


def test_the_docker_that_runs_is_asked() -> None:
    on = docker(ON)
    on.answers["/var/run/docker.sock", "/info"] = {"CDISpecDirs": []}
    problem = "features.cdi is off in the one that runs, whatever its file has"
    assert look(on) == judged(NAME, problem, AGAIN)
    on.answers["/var/run/docker.sock", "/info"] = {"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}
    assert look(on) == Check(NAME)


LATER = 1e12  # than anything has started


def test_one_that_has_not_read_its_configuration_since() -> None:
    on = docker(ON)
    on.files[MARK] = json.dumps({"docker.service": LATER})
    assert look(on).cause == "docker.service has not read its configuration since it was changed"


@pytest.mark.parametrize("ours", [None, ("runtimes", "nvidia", "path")])
def test_one_that_nobody_has_set_up_for_cdi_is_skipped(ours: tuple[str, ...] | None) -> None:
    on = docker({}, ours=ours)
    unknown = "gpu.node has not set up CDI in it: features.cdi is off"
    assert look(on) == skipped(NAME, unknown)
    assert look(on, required="auto") == judged(NAME, "features.cdi is off", AGAIN)
    assert look(on, required="docker") == judged(NAME, "features.cdi is off", AGAIN)
    assert look(on, required="containerd") == skipped(NAME, unknown)
    assert look(docker(ON, ours=ours)) == Check(NAME)


def test_nothing_is_asked_without_a_specification_or_a_runtime() -> None:
    on = docker(ON)
    del on.files["/etc/gpu-node/cdi.json"]
    assert runtimes.look(on, runtimes.there(on)) == {}  # type: ignore[arg-type]
    assert runtimes.there(FakeHost()) == []  # type: ignore[arg-type]


def test_the_cri_o_that_runs_is_asked() -> None:
    """A variable of its unit has the last word over all files, and neither is in them."""
    on = RuntimeHost(
        {"/etc/gpu-node/cdi.json": docker(ON).files["/etc/gpu-node/cdi.json"]}, crio="1.36.3"
    )
    on.commands["crio", "status"] = '[crio.runtime]\ncdi_spec_dirs = ["/opt/cdi"]\n'
    (found,) = runtimes.look(on, runtimes.there(on), required="cri-o").values()  # type: ignore[arg-type]
    problem = "it reads /opt/cdi, and the specification is in /var/run/cdi in the one that runs"
    assert found == judged("cri-o: CDI", f"{problem}, whatever its file has", AGAIN)
    on.commands["crio", "status"] = "[crio.runtime]\n"  # what it has by default is not shown
    (found,) = runtimes.look(on, runtimes.there(on), required="cri-o").values()  # type: ignore[arg-type]
    assert found == Check("cri-o: CDI")
