# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Packages of others that need the driver, stand in its way or are on hold, on a played Debian."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError

from tests.fakes.packages.driver_runs import capability, converge
from tests.fakes.played.debian.debian_archive import PlayedDebian, archive
from tests.fakes.played.debs import Deb

OLD, NEW = "535.261.03", "550.163.01"


def other(name: str, version: str = "1", **fields: str) -> Deb:
    """Return a package of somebody else's."""
    return Deb(name, version, tuple(fields.items()), component="main", suite="noble")


def test_what_others_came_to_need_stays_and_the_driver_is_not_removed_under_them(
    done: PlayedDebian,
) -> None:
    more = (other("zfs-dkms", Depends="dkms"), other("pytorch", Depends="libcuda1"))
    done.archive((*archive(done.kernel, NEW, OLD), *more))
    one = capability(done, state="absent")
    plan = one.plan(one.observe())
    done.apt("install", "pytorch", "zfs-dkms")  # meanwhile
    before = done.installed()
    with pytest.raises(NodeError, match=r"would take pytorch, zfs-dkms along; nothing was removed"):
        one.apply(plan.steps[-1])
    with pytest.raises(NodeError, match=r"^libcuda1 cannot be removed: pytorch, zfs-dkms, which"):
        converge(done, state="absent")
    assert done.installed() == before
    done.apt("purge", "pytorch")
    converge(done, state="absent")
    assert {"dkms", "zfs-dkms"} <= set(done.installed())
    assert not [name for name in done.installed() if "nvidia" in name or "cuda" in name]


def test_driver_that_would_remove_packages_of_others_is_refused_with_their_names(
    done: PlayedDebian,
) -> None:
    names = ("nvidia-container-toolkit", "vim", "xserver-xorg-video-nvidia")
    more = [other(one, Breaks=f"libcuda1 (>= {NEW})") for one in names]
    done.archive((*archive(done.kernel, NEW, OLD), *more))
    converge(done, version="535")
    done.apt("install", *names)
    before, held = done.installed(), done.held()
    words = f"would remove {', '.join(names)}; nothing was changed"
    with pytest.raises(NodeError, match=words):
        converge(done, version="550")
    assert (done.installed(), done.held()) == (before, held)


def test_package_that_is_held_back_before_it_is_there_is_not_installed(done: PlayedDebian) -> None:
    needs = (("Depends", "nvidia-helper"),)
    offered = [
        dataclasses.replace(one, fields=needs) if one.name == "libcuda1" else one
        for one in archive(done.kernel, OLD)
    ]
    done.archive((*archive(done.kernel, NEW), *offered, other("nvidia-helper")))
    done.run(["apt-mark", "hold", "nvidia-helper"])
    before = done.installed()
    with pytest.raises(NodeError, match="while nvidia-helper is on hold; nothing was changed"):
        converge(done, version="535")
    assert done.installed() == before
