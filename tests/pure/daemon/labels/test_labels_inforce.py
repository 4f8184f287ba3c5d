# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Finding M14: labels speak of the configuration that the plugin serves, not of one that it refused."""

from __future__ import annotations

import hashlib
import json
import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from gpu_plugin.config.sources import Source
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.labels.inforce import PATIENCE, InForce, Plugin
from gpu_plugin.tools.files import StateFile

GOOD, OTHER, BAD = "flags: {migStrategy: single}", "flags: {migStrategy: mixed}", "flagz: {}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Node:
    """A configuration file, and what the plugin says of it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.file, self.last_good = folder / "config.yaml", folder / "configuration.json"
        self.now = 0.0
        self.file.write_text(text)

    def begin(self) -> InForce:
        source = Source(Namespace(config=str(self.file)), {})
        return InForce(source, self.last_good, lambda: self.now)

    def keep(self, text: str) -> None:
        found = {"version": 1, "pid": 1, "sha256": digest(text), "text": text}
        self.last_good.write_text(json.dumps(found))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, GOOD)


def serving(text: str, problem: str | None = None) -> dict[str, Any]:
    return {"config_sha256": digest(text), "config_problem": problem}


def test_a_refused_configuration_is_not_labelled(node: Node) -> None:
    one = node.begin()
    assert one.follow(serving(GOOD))
    node.file.write_text(OTHER)
    one.reload()
    assert not one.follow(serving(GOOD, "the node does not allow it"))
    assert (one.config.mig_strategy, one.problem) == ("single", "the node does not allow it")
    assert one.follow(serving(OTHER))  # the reason has passed
    assert (one.config.mig_strategy, one.problem) == ("mixed", "")


def test_what_the_plugin_has_not_taken_yet_waits(node: Node) -> None:
    one = node.begin()
    one.follow(serving(GOOD))
    node.file.write_text(OTHER)
    one.reload()
    assert not one.follow(serving(GOOD))
    assert (one.config.mig_strategy, one.problem, one.known) == ("single", "", True)
    assert one.follow(serving(OTHER))


def test_after_a_start_the_last_good_one_is_labelled(node: Node) -> None:
    node.keep(OTHER)
    one = node.begin()
    assert one.follow(serving(OTHER, "the node does not allow it"))
    assert (one.config.mig_strategy, one.problem) == ("mixed", "the node does not allow it")


@pytest.mark.parametrize("kept", [None, "{", "[]", '{"sha256": 3, "text": 4}'])
def test_labels_stay_where_it_is_not_known_what_is_served(node: Node, kept: str | None) -> None:
    if kept is not None:
        node.last_good.write_text(kept)
    one = node.begin()
    assert not one.follow(serving(OTHER, "the node does not allow it"))
    assert not one.known
    assert one.problem.startswith("labels stay as they are: the plugin serves a configuration")
    assert one.problem.endswith("the node does not allow it")
    assert one.follow(serving(GOOD))
    assert one.known


def test_a_bad_file_at_the_start_waits_for_a_good_one(node: Node) -> None:
    node.file.write_text(BAD)
    one = node.begin()
    assert not one.follow(None)
    assert not one.known
    assert "unknown key flagz" in one.problem
    assert not one.follow(serving(OTHER, "unknown key flagz"))
    node.keep(OTHER)
    assert one.follow(serving(OTHER, "unknown key flagz"))
    assert one.config.mig_strategy == "mixed"
    node.file.write_text(GOOD)
    one.reload()
    assert one.follow(None)
    assert (one.config.mig_strategy, one.problem) == ("single", "")


def test_without_a_plugin_the_files_word_counts(node: Node) -> None:
    one = node.begin()
    assert one.follow(None)
    node.file.write_text(BAD)
    one.reload()
    assert not one.follow(None)
    assert (one.config.mig_strategy, one.known) == ("single", True)
    assert "unknown key flagz" in one.problem
    assert not one.follow({})  # one that says nothing of it is as good as none
    assert not one.follow({"config_sha256": 3})


def test_a_plugin_that_reads_another_file_is_not_waited_for(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    one = node.begin()
    assert not one.follow(serving("version: v1"))
    assert not one.known
    node.now = PATIENCE - 1
    assert not one.follow(serving("version: v1"))
    node.now = PATIENCE + 1
    assert one.follow(serving("version: v1"))
    assert one.known
    assert not one.follow(serving("version: v1"))
    assert capsys.readouterr().err.count("serves another file than this one") == 1


def test_flags_that_are_wrong_are_an_error_at_once(tmp_path: Path) -> None:
    given = Namespace(**{"config": None, "flags.migStrategy": "x"})
    with pytest.raises(ConfigError, match="flag --mig-strategy: 'x' is not valid"):
        InForce(Source(given, {}), tmp_path / "none")


def test_the_plugins_word_counts_while_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    plugin = Plugin(path)
    assert plugin.state() is None
    StateFile(path).write({"config_sha256": "a"})
    assert (plugin.state() or {})["config_sha256"] == "a"
    path.write_text("{")
    assert plugin.state() is None
    StateFile(path, pid=os.getpid()).write({"config_sha256": "b", "pid": 1, "began": "0"})
    assert plugin.state() is None  # another process has its number by now
    path.unlink()
    assert plugin.state() is None
