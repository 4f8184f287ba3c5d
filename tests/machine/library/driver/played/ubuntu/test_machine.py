# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The played machine itself: a fresh node comes up, stays, and goes back, in each stage that has no fault."""

from __future__ import annotations

from collections.abc import Callable

from tests.fakes.packages.debian import converge
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Ubuntu
from tests.fakes.played.ubuntu.ubuntu_archive import K85, K86, OLD


def test_fresh_node_gets_prebuilt_modules_and_goes_back(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu(archive.A, K85)
    before = node.installed()
    left = converge(node)
    assert (left.steps, left.reboot_required) == ((), ())
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert f"linux-modules-nvidia-580-server-open-{K85}" in node.held()
    node.unattended()
    assert node.boot() == K85
    assert node.works()
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())


def test_kernel_without_prebuilt_modules_gets_them_from_dkms(ubuntu: Callable[..., Ubuntu]) -> None:
    node = ubuntu(archive.C, K85)
    converge(node)
    assert (node.loaded(), node.works()) == (f"{archive.NEW} open", True)
    assert node.modules(K86) == [f"{archive.NEW} open"]
