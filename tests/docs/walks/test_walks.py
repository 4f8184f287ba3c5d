# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The page of the walks has each file that a tracer sees, and what the tracer takes for a value's way."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from gpu_plugin._shared._base.dra.checkpoint import Device, PreparedClaim
from gpu_plugin._shared._base.dra.names import pool_name
from gpu_plugin._shared._base.text.shown import cut
from gpu_plugin.dra.prepare.apply import Checkpoint

from tests.docs.walks import page
from tests.docs.walks.tracer import HANDED_ON, MADE, Tracer, Walk
from tests.support.paths import REPOSITORY

SHOWN = "plugins/module_utils/_base/text/shown.py"
UID = "0f1e2d3c-aaaa-bbbb-cccc-0123456789ab"
DEVICES = (Device("r", "p", "gpu-0", "GPU-0", 0),)
HELD = PreparedClaim(UID, "default", "c", "prepared", DEVICES, (), "cgroup")


def walk(do: Callable[[], object], mark: str = "5150") -> Walk:
    tracer = Tracer(mark)
    with tracer.following():
        do()
    return tracer.walk


def stops(found: Walk) -> dict[str, tuple[str, str]]:
    return {file.rpartition("/")[2]: (one.function, one.how) for file, one in found.stops.items()}


def test_the_page_has_the_walks_as_a_tracer_sees_them() -> None:
    """In a process of its own: what others have begun, imported and cached is no part of an errand."""
    words = [sys.executable, "-m", "tests.docs.walks.page", "--show"]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert page.page().splitlines() == done.stdout.splitlines(), "run make docs-tables"


def test_who_calls_with_the_value_hands_it_on() -> None:
    assert f"`main` {HANDED_ON}" in page.page(), "the parameters are an attribute of Ansible's"


def test_a_file_is_on_the_walk_by_what_its_function_is_handed() -> None:
    found = walk(lambda: cut("it is 5150"))
    assert found.stops.keys() == {SHOWN}, "links to the library are followed"
    assert stops(found) == {"shown.py": ("cut", "takes `text`")}
    assert (found.calls, found.moves, found.functions) == (1, 0, {(SHOWN, "cut")})


def test_what_only_runs_is_not_on_the_walk() -> None:
    found = walk(lambda: cut("it is 5151"))
    assert (found.running, found.stops, found.calls) == ({SHOWN}, {}, 0)


@pytest.mark.parametrize("value", [HELD, {"held": (HELD,)}, {UID: 1}, [UID.encode()]])
def test_an_object_that_carries_the_value_is_followed(value: object) -> None:
    assert Tracer(UID).carries(value)


@pytest.mark.parametrize(("amount", "same"), [(5150, True), (51500, False)])
def test_a_number_is_the_value_as_a_whole(amount: int, same: bool) -> None:
    assert Tracer("5150").carries({"memory": amount}) == same


def test_a_service_that_keeps_the_value_is_on_the_walk_once_it_gives_it_out() -> None:
    service = Checkpoint.__new__(Checkpoint)
    service._lock, service._claims = threading.Lock(), {UID: HELD}
    assert not Tracer(UID).carries(service)
    found = walk(lambda: service.shares("cgroup"), UID)
    assert stops(found) == {
        "apply.py": ("Checkpoint.shares", MADE),
        "plan.py": ("shares", "takes `held`"),
    }


def test_what_returns_the_value_makes_it() -> None:
    found = walk(lambda: pool_name("n"), "gpu.node/n")
    assert stops(found) == {"names.py": ("pool_name", MADE)}
