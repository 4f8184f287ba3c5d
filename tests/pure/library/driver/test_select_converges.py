# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""From any node, the driver's plans lead to the wanted one, and back."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.apt import upstream
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import State
from ansible_collections.gpu.node.plugins.module_utils._driver.desired import Desired
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import DriverState
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.modules import Modules
from ansible_collections.gpu.node.plugins.module_utils._driver.record import Record
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.packages.driver_nodes import (
    DESIRED,
    FULL,
    KERNEL,
    MAIN,
    NEW,
    OFFERED,
    OLD,
    OPTIONS,
    RUNNING,
    USER_SPACE,
    WANTED,
    after,
    asked,
    changed,
    fresh,
    node,
    package,
    plan_of,
    with_options,
    with_removal,
)

PACKAGES = st.dictionaries(
    st.sampled_from([*WANTED, KERNEL["proprietary"], "vim"]),
    st.one_of(
        st.builds(package, st.sampled_from([NEW, OLD]), held=st.booleans()),
        st.builds(package, st.sampled_from([NEW, OLD]), st.just(State.UNPACKED)),
        st.builds(
            package, st.sampled_from([NEW, OLD]), st.just(State.HALF_INSTALLED), torn=st.just(True)
        ),
    ),
)
NODES = st.builds(
    node,
    packages=PACKAGES,
    policies=st.sampled_from([OFFERED, {}]),
    sources=st.sampled_from([(FULL,), (MAIN,)]),
    interrupted=st.booleans(),
    driver=st.sampled_from([None, (upstream(NEW), "open"), (upstream(OLD), "proprietary")]),
    nouveau=st.booleans(),
    modules=st.builds(
        Modules,
        nouveau=st.booleans(),
        blacklisted=st.booleans(),
        images=st.sampled_from([(), ("6.12.1",)]),
        options=st.sampled_from([{}, {"nvidia.NVreg_ResmanDebugLevel": "0"}]),
    ),
    gpus=st.sampled_from([(), (("0000:18:00.0", "ampere"),), (("0000:18:00.0", "volta"),)]),
    service=st.sampled_from([{}, RUNNING, {"UnitFileState": "disabled"}]),
    record=st.builds(
        Record,
        packages=st.frozensets(st.sampled_from(WANTED)),
        holds=st.frozensets(st.sampled_from(WANTED)),
    ),
)
REFUSALS = (
    "do not run on|set manage_sources to|must change, but is on hold"
    "|would have to give way to the"
    "|version: .* is not valid|no version of the driver in common"
)
WISHES = st.builds(
    asked,
    version=st.sampled_from(["", "535", "550.163.01", NEW]),
    kernel_modules=st.sampled_from(["auto", "open", "proprietary"]),
    components=st.sampled_from([USER_SPACE, ("libcuda1", "nvidia-persistenced")]),
    hold=st.booleans(),
    load=st.booleans(),
    persistence=st.booleans(),
    manage_sources=st.booleans(),
    reload=st.sampled_from(["never", "when_idle"]),
    module_options=st.sampled_from([(), OPTIONS]),
)


def converge(observed: DriverState, desired: Desired) -> tuple[DriverState, list[str], str]:
    """Do what the module does; return the node, what was done to it, and why it was refused."""
    done: list[str] = []
    for _round in range(5):
        try:
            found = plan_of(observed, desired)
        except NodeError as error:
            return observed, done, str(error)
        for step in found.steps:
            observed = after(observed, step)
            done.append(step.action)
        if not found.more:
            return observed, done, ""
        if desired.state == "absent" and not observed.software.unfinished:
            observed = with_removal(observed)
    raise AssertionError(f"there is always more to do: {done}")


@given(NODES, WISHES)
def test_plan_that_was_carried_out_leaves_nothing_to_do(
    observed: DriverState, desired: Desired
) -> None:
    reached, done, refusal = converge(observed, desired)
    if refusal:
        assert re.search(REFUSALS, refusal)
        assert set(done) <= {"repair", "sources", "refresh"}
        return
    left = plan_of(reached, desired)
    assert left.steps == ()
    if desired.kernel.reload == "when_idle" and not reached.loaded.nouveau:
        assert left.reboot_required == ()
    for name, package_ in observed.software.packages.items():
        if package_.held and name not in observed.history.record.holds:
            assert reached.software.packages[name] == package_._replace(
                state=State.INSTALLED, held=True
            )


@given(
    st.sets(st.sampled_from(WANTED)),
    st.sampled_from([(FULL,), (MAIN,)]),
    st.sampled_from([{}, RUNNING]),
)
def test_absent_after_present_is_the_node_that_was(
    have: set[str], sources: tuple[Any, ...], service: dict[str, str]
) -> None:
    service = service if "nvidia-persistenced" in have else {}
    start = fresh(packages={name: package() for name in have}, sources=sources, service=service)
    start = changed(start, modules=Modules(nouveau=True, images=("6.12.1",)))
    there, done, _refusal = converge(start, DESIRED)
    assert {"load", "modprobe"} <= set(done)
    gone, _done, _refusal = converge(with_removal(there), with_options(DESIRED, state="absent"))
    before = changed(
        start,
        policies=gone.software.policies,
        refreshed=gone.history.refreshed,
        driver=gone.loaded.driver,
        undone=gone.history.undone,
    )
    assert gone == before
