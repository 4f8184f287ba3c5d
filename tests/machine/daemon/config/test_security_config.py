# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Configurations that would end or hang what reads them: whoever may edit a ConfigMap can write one."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gpu_plugin.config import sources
from gpu_plugin.config.configuration import parse
from gpu_plugin.config.sharing import LONGEST_PATTERN, Rule
from gpu_plugin.config.strict_yaml import ConfigError
from gpu_plugin.labels.settings import Configs

from tests.fakes.daemon.hostile_configurations import ATTACKS, GOOD, STARS
from tests.support.waiting import LIMIT, alarm, eventually

if TYPE_CHECKING:
    from tests.fakes.daemon.fixtures import MakeNode
    from tests.fakes.daemon.running import Node

GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
PRODUCT = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
# One of each kind, for what takes a process; all of them are parsed below.
SHOWN = (
    "3000 brackets",
    "an alias bomb for a text",
    "an interval of 400 digits",
    "a hexadecimal size of 5000 digits",
)


def check(file: Path) -> subprocess.CompletedProcess[str]:
    """``gpu-plugin check-config`` as a process, which may take 20 seconds of the processor and 1 GiB."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))

    command = [sys.executable, "-m", "gpu_plugin", "check-config", str(file)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, check=False, preexec_fn=limit
    )


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(
    "name",
    [one if one in SHOWN else pytest.param(one, marks=pytest.mark.long) for one in ATTACKS],
)
def test_check_config_refuses_in_a_few_words(name: str, tmp_path: Path) -> None:
    text, word = ATTACKS[name]
    file = tmp_path / "config.yaml"
    file.write_text(text)
    done = check(file)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert str(file) in done.stderr
    assert word in done.stderr
    assert len(done.stderr) < 800


@pytest.mark.attack("hostile-configuration")
def test_what_is_no_file_of_this_size_is_refused_as_well(tmp_path: Path) -> None:
    pipe, endless, sparse = (tmp_path / name for name in ("pipe", "endless", "sparse"))
    os.mkfifo(pipe)  # whoever opens it to read waits for a writer
    endless.symlink_to("/dev/zero")
    with sparse.open("wb") as stream:
        stream.truncate(1 << 40)
    assert "valid" in check(pipe).stdout  # nothing is in it, and that is read without waiting
    for file in (endless, sparse):
        done = check(file)
        assert (done.returncode, "KiB" in done.stderr) == (1, True), done.stderr
    nothing = tmp_path / "nothing"
    nothing.symlink_to("/dev/null")  # what the labels' process links to for an empty configuration
    assert sources.read(nothing)[0] == ""


@pytest.mark.attack("hostile-configuration")
def test_stars_are_matched_in_linear_time() -> None:
    with alarm():
        for pattern in ("*" * 14 + "!", "*a" * 120 + "!", "*" * LONGEST_PATTERN):
            assert Rule(pattern, "x").matches(PRODUCT) == pattern.endswith("*")
        assert not Rule("*a*a*a*a*a*a*a*a*a*a*b", "x").matches("a" * 100)


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*", True),
        (PRODUCT, True),
        ("NVIDIA*", True),
        ("*Edition", True),
        ("*RTX*6000*", True),
        ("NVIDIA*Edition", True),
        ("*Edition*", True),
        ("**Edition**", True),
        ("RTX*", False),
        ("*RTX", False),
        ("*6000*RTX*", False),
        ("*Edition*Edition", False),
        (f"{PRODUCT}*{PRODUCT}", False),
        (f"{PRODUCT}n", False),
        ("NVIDIA", False),
        ("NVIDIA.RTX*", False),
    ],
)
def test_what_a_pattern_means_is_as_before(pattern: str, matches: bool) -> None:
    assert Rule(pattern, "x").matches(PRODUCT) is matches


@pytest.mark.attack("hostile-configuration")
def test_plain_anchors_are_still_taken() -> None:
    text = (
        "sharing: {timeSlicing: {resources: ["
        "{name: &n gpu, replicas: &r 2, devices: &d ['0']}, {name: *n, replicas: *r, devices: ['1']}]}}"
    )
    one, other = parse(text).sharing.shares
    assert (one.replicas, other.replicas, one.name) == (2, 2, other.name)


@pytest.mark.attack("hostile-configuration")
def test_many_entries_are_read() -> None:
    lines = [f"  - {{name: n{number}, replicas: 2}}" for number in range(700)]
    entries = "\n".join(lines)
    with alarm():
        found = parse(f"sharing:\n timeSlicing:\n  resources:\n{entries}")
    assert len(found.sharing.shares) == 700
    with pytest.raises(ConfigError, match="is shared twice"):
        parse(f"sharing:\n timeSlicing:\n  resources:\n{entries}\n{lines[0]}")


LONG = 60_000


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize(
    "text",
    [
        f"[{'a,' * (LONG // 2)}]",
        "- a\n" * (LONG // 4),
        "#" * LONG,
        "\n" * LONG,
        "a: '" + "x" * LONG + "'",
        'a: "' + "\\x41" * (LONG // 4) + '"',
        "a: |\n" + " x\n" * (LONG // 3),
        "? " * (LONG // 2),
        "[" * LONG,
        "{" * LONG,
        "- " * (LONG // 2),
        f"flags: {{migStrategy: {{{','.join(f'a{n}: {n}' for n in range(1900))}}}}}",
        f"flags: {{migStrategy: &a [{'*a,' * (LONG // 3)}]}}",
        f"flags: {{migStrategy: [&a {'x' * 5000}, {'*a,' * 15_000}]}}",
        f"resources: {{gpus: [{'{pattern: a*, name: b},' * 700}]}}",
    ],
    ids=lambda text: f"{text[:24]!r}",
)
def test_the_longest_texts_keep_no_parser_busy(text: str) -> None:
    with alarm(), contextlib.suppress(ConfigError):
        parse(text)


@pytest.mark.attack("hostile-configuration")
@pytest.mark.parametrize("name", ATTACKS)
def test_the_labels_process_links_to_no_such_configuration(name: str, tmp_path: Path) -> None:
    source, link = tmp_path / "configs", tmp_path / "config.yaml"
    source.mkdir()
    (source / "good").write_text(GOOD % 2)
    (source / "bad").write_text(ATTACKS[name][0])
    configs = Configs(source, link)
    assert configs.follow("good") == ""
    assert 0 < len(configs.follow("bad")) < 800
    assert link.readlink() == source / "good"


def replace(node: Node, text: str) -> None:
    trial = node.config.with_suffix(".new")
    trial.write_text(text)
    trial.replace(node.config)


@pytest.mark.attack("hostile-configuration")
def test_the_running_daemon_keeps_the_configuration_before(make_node: MakeNode) -> None:
    node = make_node(1)
    node.start_kubelet()
    node.start_daemon(GOOD % 3)
    node.wait(SHARED, 3)
    assert node.daemon is not None
    for name in SHOWN:
        text, word = ATTACKS[name]
        replace(node, text)
        eventually(lambda word=word: word in (node.status().get("config_problem") or ""))
        assert node.resources()[SHARED] == 3
    replace(node, STARS % ("*" * 14 + "!"))  # it may be asked for, and nothing is called so
    node.wait(GPU, 1)
    with contextlib.suppress(OSError):
        node.config.unlink()
    os.mkfifo(node.config)  # opened to read it would never come back
    replace(node, GOOD % 5)
    node.wait(SHARED, 5)
    assert node.daemon.poll() is None
    assert node.status()["pid"] == node.daemon.pid
    assert node.logged().count("info: started") == 1
    assert "Traceback" not in node.logged()
