# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Mutations of the golden files through genuine programs: an edit that holds, or a refusal that changes nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.runtime.genuine_runtimes import (
    CONF_D,
    CONFIG,
    DAEMON,
    NEWEST,
    OLDER,
    OLDEST,
    GenuineRuntimes,
    converge,
    every_suite,
    with_cdi,
)
from tests.support.paths import FAKES

FILES = FAKES / "runtime_configs"
CRI = ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
WORDS = (
    *("version = 1", "version = 2", "version = 3", "version = {}", "version = '2'", ""),
    *('disabled_plugins = ["cri"]', f'disabled_plugins = ["{CRI[0]}"]', "imports = 3", "# x"),
    *(f'imports = ["{CONF_D}/*.toml"]', f'imports = ["{CONF_D}/gone.toml"]', "[plugins]"),
    *(f'[plugins."{one}"]' for one in CRI),
    *(f'[plugins."{one}".containerd.runtimes.nvidia.options]' for one in CRI),
    *(f'[plugins."{one}".containerd]\nruntimes = {{}}' for one in CRI),
    *(f'[[plugins."{one}".containerd.runtimes.runc]]' for one in CRI),
    *('"features": true,', '"features": {"cdi": false},', '"runtimes": [],', '"hosts": [],'),
    *("\0", "\r", "\ufeff", '"""', "'", "{", "}", "[", "]", ",", "=", "\udcff", "x" * 5000),
)


def mutated(text: str, dice: random.Random) -> str:
    """Return a text after one to three changes, most of them of whole lines."""
    for _time in range(dice.randint(1, 3)):
        lines = text.split("\n")
        at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        kind = dice.randrange(7)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 2:
            lines.insert(at, lines[other])
        elif kind == 3:
            lines.insert(at, dice.choice(WORDS))
        elif kind == 4:
            place = dice.randint(0, len(lines[at]))
            lines[at] = lines[at][:place] + dice.choice(WORDS) + lines[at][place:]
        elif kind == 5:
            lines = lines[: max(at, 1)]
        else:
            first, last = sorted((at, other))
            lines = lines[last:] + lines[first:last] + lines[:first]
        text = "\n".join(lines)
    return text


def mutations(ending: str, count: int, seed: str) -> Iterator[tuple[str, str, random.Random]]:
    files = sorted(FILES.glob(f"*.{ending}"))
    for number in range(count):
        dice = random.Random(f"{seed} {ending} {number}")
        file = files[number % len(files)]
        text = file.read_bytes().decode()
        yield f"{seed} {number} {file.name}", mutated(text, dice), dice


def outcome(node: GenuineRuntimes, runtime: str, mode: str) -> str:
    """Edit, edit again and take back; return whether that was refused, which changes nothing."""
    before = node.files()
    refused = None
    try:
        converge(node, name=runtime, mode=mode)
    except NodeError as error:
        refused = error
    if refused:
        assert node.files() == before, refused
        return "refused"
    assert converge(node, name=runtime, mode=mode) == []
    converge(node, name=runtime, state="absent")
    assert node.files() == before
    return "edited"


def fuzz(make: Callable[..., GenuineRuntimes], suite: str, count: int, seed: str) -> None:
    seen: Counter[str] = Counter()
    node = make(suite)
    node.install_toolkit()
    node.makedirs(CONF_D)
    for name, text, dice in mutations("toml", count, seed):
        node.put(CONFIG, text)
        mode = dice.choice(["cdi", "runtime_class", "default_runtime"])
        try:
            seen[outcome(node, "containerd", mode)] += 1
        except Exception as error:
            raise AssertionError(f"{name} on {suite}, {mode}: {text!r}") from error
        node.remove("/var/lib/gpu-node")
        node.remove("/run/gpu-node")
    assert seen["refused"] > count // 10
    if suite != OLDEST:
        assert seen["edited"] > count // 10


@every_suite
def test_mutations_of_files_of_containerd(
    machine: Callable[..., GenuineRuntimes], suite: str
) -> None:
    fuzz(machine, suite, 12, "short")


@pytest.mark.endurance
@pytest.mark.parametrize("suite", [OLDEST, OLDER, NEWEST])
def test_a_thousand_mutations_of_files_of_containerd(
    machine: Callable[..., GenuineRuntimes], suite: str
) -> None:
    fuzz(machine, suite, 1000, "long")


def fuzz_docker(make: Callable[..., GenuineRuntimes], suite: str, count: int) -> None:
    node = make(suite)
    node.install_docker()
    node.install_toolkit()
    seen: Counter[str] = Counter()
    for name, text, _dice in mutations("json", count, "short"):
        node.put(DAEMON, text)
        try:
            seen[outcome(node, "docker", "runtime_class")] += 1
        except Exception as error:
            raise AssertionError(f"{name} on {suite}: {text!r}") from error
        node.remove("/var/lib/gpu-node")
        node.remove("/run/gpu-node")
    assert set(seen) == {"refused", "edited"}


@with_cdi
def test_mutations_of_files_of_docker(machine: Callable[..., GenuineRuntimes], suite: str) -> None:
    fuzz_docker(machine, suite, 30)


@pytest.mark.endurance
@pytest.mark.parametrize("suite", [OLDER, NEWEST])
def test_hundreds_of_mutations_of_files_of_docker(
    machine: Callable[..., GenuineRuntimes], suite: str
) -> None:
    fuzz_docker(machine, suite, 300)
