# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The played machine itself: a fresh node comes up, stays, and goes back, in each stage that has no fault."""

from __future__ import annotations

from tests.fakes.packages.driver_runs import converge, planned
from tests.fakes.played.ubuntu import ubuntu_archive as archive
from tests.fakes.played.ubuntu.played_ubuntu import Machines
from tests.fakes.played.ubuntu.ubuntu_archive import K85, K86, OLD

PREBUILT = f"linux-modules-nvidia-580-server-open-{K85}"


def test_fresh_node_gets_prebuilt_modules_and_goes_back(ubuntu: Machines) -> None:
    node = ubuntu(archive.A, K85)
    before = node.installed()
    left = converge(node)
    assert (left.steps, left.reboot_required) == ((), ())
    assert (node.loaded(), node.works()) == (f"{OLD} open", True)
    assert PREBUILT in node.held()
    node.ran.clear()
    assert planned(node, check_mode=False).steps == ()
    assert {words[0] for words in node.ran} == {
        # Nothing is simulated or fetched.
        *("/bin/sh", "apt-cache", "dpkg-query", "ldconfig", "systemctl", "nvidia-smi"),
    }
    node.unattended()
    assert node.boot() == K85
    assert node.works()
    converge(node, state="absent")
    assert (node.installed(), node.held()) == (before, set())


def test_kernel_without_prebuilt_modules_gets_them_from_dkms_and_keeps_those(
    ubuntu: Machines,
) -> None:
    node = ubuntu(archive.C, K85)
    converge(node)
    assert (node.loaded(), node.works()) == (f"{archive.NEW} open", True)
    assert node.modules(K86) == [f"{archive.NEW} open"]
    node.archive((*archive.C, *archive.prebuilt(K85, archive.NEW)))
    assert converge(node).steps == ()
    assert PREBUILT not in node.installed()


def test_module_type_that_is_asked_for_takes_the_place_of_the_other_for_all_kernels(
    ubuntu: Machines,
) -> None:
    both = (*archive.A, *archive.kernel(K86), *archive.prebuilt(K86, OLD))
    node = ubuntu.driven(both, K85)
    opened = {PREBUILT, PREBUILT.replace(K85, K86)}
    assert opened <= node.held()
    assert converge(node, kernel_modules="proprietary").steps == ()
    assert not opened & set(node.installed())
    for kernel in (K85, K86):
        node.boot(kernel)
        assert (node.loaded(), node.works()) == (f"{OLD} proprietary", True)
