# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine dockerd whose unit has flags: what it would refuse is refused first, and it runs at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import restart

from tests.fakes.library.runtime_host import DIRS
from tests.fakes.runtime.docker_unit import OPTIONS, SOCKET, DockerUnit, docker_unit
from tests.fakes.runtime.genuine_runtimes import (
    DAEMON,
    OLDER,
    WRAPPER,
    converge,
    planned,
    runs_containers,
)

pytestmark = [
    *runs_containers,
    pytest.mark.long,
]
UNIT = "docker.service"
FLAGS = f'DOCKER_OPTS="--add-runtime nvidia={WRAPPER} --default-runtime=runc"\n'


@pytest.fixture
def start(tmp_path: Path) -> Any:
    """Return a maker of machines with dockerd, given its options and files."""

    @contextmanager
    def make(options: str = "", files: dict[str, str] | None = None) -> Iterator[DockerUnit]:
        with docker_unit(tmp_path, OLDER, {OPTIONS: options, **(files or {})}) as node:
            node.install_toolkit()
            yield node

    return make


def configuration(node: DockerUnit) -> dict[str, str]:
    return {path: text for path, text in node.files().items() if path.startswith("/etc/")}


def info(node: DockerUnit) -> dict[str, Any]:
    answer: dict[str, Any] = node.ask(SOCKET, "/info")
    return answer


@pytest.mark.parametrize("daemon", [None, {"features": {"cdi": True}}])
def test_a_key_that_is_a_flag_is_refused_with_the_file_that_sets_it(
    start: Any, daemon: dict[str, Any] | None
) -> None:
    with start(FLAGS, {DAEMON: json.dumps(daemon)} if daemon else {}) as node:
        before = configuration(node)
        with pytest.raises(InputError, match="mode: 'default_runtime'") as caught:
            planned(node, name="docker", mode="default_runtime")
        assert f"--default-runtime=runc, set in {OPTIONS}" in str(caught.value)
        assert f"remove --default-runtime=runc from {OPTIONS}" in caught.value.hint
        assert configuration(node) == before
        # What the flags leave alone is set, and dockerd has it.
        converge(node, name="docker", mode="runtime_class", restart_now=[UNIT])
        assert info(node)["DefaultRuntime"] == "runc"
        assert info(node)["Runtimes"]["nvidia"]["path"] == WRAPPER
        assert info(node)["CDISpecDirs"] == ["/etc/cdi", "/var/run/cdi"]


def test_folders_that_a_flag_names_are_refused_by_the_option(start: Any) -> None:
    with start('DOCKER_OPTS="--cdi-spec-dir=/etc/cdi"\n') as node:
        with pytest.raises(InputError, match=r"spec_dirs: .*/opt/cdi") as caught:
            planned(node, name="docker", spec_dirs=["/etc/cdi", "/run/cdi", "/opt/cdi"])
        assert f"--cdi-spec-dir=/etc/cdi, set in {OPTIONS}" in str(caught.value)
        converge(node, name="docker", spec_dirs=["/etc/cdi"], restart_now=[UNIT])
        assert info(node)["CDISpecDirs"] == ["/etc/cdi"]


def test_the_file_that_dockerd_is_started_with_is_edited(start: Any) -> None:
    site = "/etc/docker/site.json"
    with start(f"DOCKER_OPTS=--config-file={site}\n", {site: '{"debug": true}'}) as node:
        (edit, restarted) = converge(node, name="docker", restart_now=[UNIT])
        assert site in edit
        assert restarted == f"restart {UNIT}"
        assert DAEMON not in node.files()
        assert info(node)["CDISpecDirs"] == ["/etc/cdi", "/var/run/cdi"]
        with pytest.raises(InputError, match=f"config_path.*expected {site}"):
            planned(node, name="docker", config_path=DAEMON)


def test_a_flag_that_comes_later_is_refused_before_the_next_start(start: Any) -> None:
    with start() as node:
        converge(node, name="docker", mode="default_runtime", restart_now=[UNIT])
        node.put(OPTIONS, FLAGS)
        with pytest.raises(NodeError, match="would not start again") as caught:
            planned(node, name="docker", mode="default_runtime")
        assert "default-runtime: (from flag: runc, from file: nvidia)" in caught.value.cause
        assert OPTIONS in caught.value.hint


@pytest.mark.parametrize("verb", ["restart", "reload"])
def test_a_file_that_dockerd_refuses_is_put_back(
    start: Any, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has seen the flag: it comes after the trial, or the command line is not known."""
    monkeypatch.setattr(restart, "PAUSES", (0.5,) * 4)
    text = json.dumps({"features": {"cdi": verb == "reload"}, "debug": True})
    with start(FLAGS if verb == "reload" else "", {DAEMON: text}) as node:
        node.hides_commands = verb == "reload"
        converge(node, name="docker", mode="default_runtime")
        node.put(OPTIONS, FLAGS)
        with pytest.raises(NodeError, match="as it was before") as caught:
            converge(node, name="docker", mode="default_runtime", restart_now=[UNIT])
        assert "default-runtime: (from flag: runc, from file: nvidia)" in caught.value.cause
        assert node.files()[DAEMON] == text
        assert node.is_active()
        assert info(node)["DefaultRuntime"] == "runc"
        node.stop()
        node.start()
        assert node.is_active()
        assert not (node.root / "var/lib/gpu-node/container_runtime.json").exists()


def test_a_restored_file_starts_a_docker_that_had_failed(start: Any) -> None:
    with start() as node:
        converge(node, name="docker", mode="default_runtime", restart_now=[UNIT])
        node.put(OPTIONS, FLAGS)
        node.stop()
        node.start()
        assert not node.is_active()
        converge(node, name="docker", state="absent", restart_now=[UNIT])
        assert node.is_active()


def test_a_daemon_without_what_its_file_has_is_restarted(start: Any) -> None:
    with start("", {DAEMON: "{}"}) as node:
        node.put(DAEMON, '{"features": {"cdi": true}}')
        node.note_change()  # as if it had read that
        (step, _restart) = converge(node, name="docker", restart_now=[UNIT])
        assert step == f"restart {UNIT}: it runs without cdi = true, cdi-spec-dirs = {DIRS}"
        assert converge(node, name="docker") == []


def test_a_file_that_was_put_back_with_its_times_is_read_again(start: Any) -> None:
    with start("", {DAEMON: "{}"}) as node:
        converge(node, name="docker", mode="runtime_class", restart_now=[UNIT])
        file = node.root / DAEMON[1:]
        shutil.copy2(file, node.root / "saved")
        node.put(DAEMON, "{}")
        node.stop()
        node.start()
        shutil.copy2(node.root / "saved", file)
        (step, _restart) = converge(node, name="docker", mode="runtime_class", restart_now=[UNIT])
        assert step == f"restart {UNIT}: {DAEMON} was changed after it had started"
        assert WRAPPER in json.dumps(info(node)["Runtimes"])


def test_a_key_of_the_users_own_restarts_nothing_where_dockerd_has_ours(start: Any) -> None:
    with start("", {DAEMON: "{}"}) as node:
        converge(node, name="docker", restart_now=[UNIT])
        node.put(DAEMON, json.dumps({**json.loads(node.files()[DAEMON]), "debug": True}))
        assert converge(node, name="docker", restart_now=[UNIT]) == []
