# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The steps that take the driver back, and only what was added."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import (
    Package,
    State,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.families import rhel, suse
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.names import (
    Names,
    Offer,
    Requirements,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record

from tests.fakes.packages.driver_nodes import (
    DEBIAN,
    KERNEL,
    WANTED,
    actions,
    changed,
    converged,
    node,
    package,
    planned,
    with_removal,
)

RHEL, SUSE = rhel.RHEL.names(Offer(), Requirements()), suse.SUSE.names(Offer(), Requirements())
MODULES = KERNEL["open"]
LOADED = "the driver is still loaded, though its packages are gone"


@pytest.mark.parametrize("names", [DEBIAN, RHEL, SUSE], ids=["apt", "dnf", "zypper"])
@pytest.mark.parametrize("there", [{}, dict.fromkeys(WANTED, package())], ids=["none", "packages"])
def test_absent_leaves_alone_what_the_module_did_not_add(
    names: Names, there: dict[str, Package]
) -> None:
    # Without packages, as a container with the driver leaves the node.
    observed = converged(record=Record(), names=names, packages=there, libraries=("1.2.3",))
    found = planned(observed, state="absent")
    assert (found.steps, found.reboot_required) == ((), ())


def test_driver_that_was_only_kept_at_its_version_needs_no_reboot_when_it_is_released() -> None:
    record = Record(holds=frozenset(WANTED), service=True)
    found = planned(with_removal(converged(record=record)), state="absent")
    assert [step.action for step in found.steps] == ["hold", "remove"]
    assert found.reboot_required == ()


def test_removal_of_this_run_says_that_the_driver_is_still_loaded() -> None:
    removed = Record(packages=frozenset(WANTED))
    observed = node(driver=("550.163.01", "open"), undone=removed)
    assert planned(observed, state="absent").reboot_required == (LOADED,)


def test_absent_takes_back_what_was_added() -> None:
    record = Record(
        packages=frozenset({"nvidia-smi", "dkms", MODULES}),
        requested=frozenset({"nvidia-smi"}),
        holds=frozenset({"nvidia-smi"}),
        sources=True,
    )
    gone = ("dkms", MODULES, "nvidia-smi")
    found = planned(with_removal(converged(record=record), packages=gone), state="absent")
    (hold, remove) = found.steps
    assert hold.params == {"hold": [], "release": ["nvidia-smi"]}
    assert remove.params["packages"] == gone
    assert remove.params["service"] is False
    assert (
        remove.summary == "remove the 3 packages that were added (nvidia-smi) and the sources file"
    )
    assert "nvidia-smi" not in found.after["packages"]
    assert "nvidia-smi" not in found.after["held"]
    assert found.reboot_required == (LOADED,)


def test_absent_disables_the_service_that_was_only_enabled() -> None:
    observed = converged(record=Record(service=True))
    found = planned(with_removal(observed), state="absent")
    (remove,) = found.steps
    expected = {"packages": (), "service": True, "kernels": (), "fabric": False}
    assert expected.items() <= remove.params.items()
    assert found.after["persistence"] is False


def test_absent_refuses_what_others_need() -> None:
    observed = with_removal(converged(), packages=(), needed=("libcuda1",), users=("pytorch",))
    with pytest.raises(NodeError, match=r"^libcuda1 cannot be removed: pytorch.*purge pytorch"):
        actions(observed, state="absent")


def test_absent_keeps_dependencies_that_others_need() -> None:
    record = Record(packages=frozenset({"nvidia-smi", "dkms"}), requested=frozenset({"nvidia-smi"}))
    observed = with_removal(
        converged(record=record), packages=("nvidia-smi",), needed=("dkms",), users=("zfs-dkms",)
    )
    found = planned(observed, state="absent")
    assert [step.params["packages"] for step in found.steps] == [("nvidia-smi",)]


@pytest.mark.parametrize("check_mode", [True, False])
def test_absent_repairs_nothing_first(check_mode: bool) -> None:
    broken = {"vim": Package("9", "vim", State.HALF_CONFIGURED)}
    have = converged(interrupted=True)
    observed = changed(have, packages={**have.software.packages, **broken})
    found = planned(observed, state="absent", check_mode=check_mode)
    assert [step.action for step in found.steps] == ["hold", "remove"]
    assert found.steps[-1].params["packages"] == tuple(sorted(WANTED))
