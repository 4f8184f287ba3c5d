# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which packages the driver takes, and in which version."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError, NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.apt import (
    parse_policy,
    upstream,
)
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import Policy
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import (
    UnknownVersion,
    module_type,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import DriverState
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.components import (
    check as check_components,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.packages.versions import Choice
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.packages.driver_nodes import (
    KERNEL,
    MATCHED,
    NEW,
    OFFERED,
    OLD,
    USER_SPACE,
    WANTED,
    asked,
    family_of,
    node,
    package,
    recording,
)

BOOKWORM = node(codename="bookworm", policies=parse_policy(recording("policy-bookworm")))
TRIXIE = node(policies=parse_policy(recording("policy-trixie")))


def choice(observed: DriverState, kind: str = "open", **desired: Any) -> Choice:
    return family_of(observed).choose(observed, asked(**desired), kind)


@pytest.mark.parametrize(
    ("wanted", "architecture", "found"),
    [
        ("auto", "volta", "proprietary"),
        ("auto", "turing", "open"),
        ("auto", "hopper", "open"),
        ("auto", "blackwell", "open"),
        ("auto", "", "open"),
        ("proprietary", "hopper", "proprietary"),
        ("proprietary", "pascal", "proprietary"),
        ("open", "blackwell", "open"),
    ],
)
def test_module_type_follows_the_architecture(wanted: str, architecture: str, found: str) -> None:
    assert module_type(wanted, [("0000:18:00.0", architecture)]) == found


def test_node_without_a_gpu_gets_the_open_modules() -> None:
    assert module_type("auto", []) == "open"


@pytest.mark.parametrize(
    ("wanted", "architecture"), [("open", "pascal"), ("proprietary", "blackwell")]
)
def test_module_type_that_does_not_run_names_gpu_and_rule(wanted: str, architecture: str) -> None:
    with pytest.raises(
        NodeError, match=f"{wanted} kernel modules do not run on the {architecture} GPU 0000:18"
    ):
        module_type(wanted, [("0000:18:00.0", architecture)])


@pytest.mark.parametrize("order", [1, -1])
def test_gpus_that_need_different_module_types_are_refused(order: int) -> None:
    gpus = [("0000:18:00.0", "volta"), ("0000:29:00.0", "hopper"), ("0000:3a:00.0", "blackwell")]
    with pytest.raises(NodeError, match="take one of the GPUs out"):
        module_type("auto", gpus[::order])


@pytest.mark.parametrize(
    ("components", "words"),
    [
        (["nvidia-persistenced", "nvidia smi"], "names of Debian packages"),
        (["nvidia-persistenced", "nvidia-smi=550"], "names of Debian packages"),
        (["nvidia-persistenced", "--yes"], "names of Debian packages"),
        (["nvidia-persistenced", "nvidia-kernel-dkms"], "kernel_modules chooses them"),
        (["nvidia-smi"], "persistence to be false"),
    ],
)
def test_components_that_cannot_be_meant(components: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_components(node(), components, persistence=True)


def test_components_that_can_be_meant() -> None:
    check_components(node(), USER_SPACE, persistence=True)
    check_components(node(), ["libcuda1"], persistence=False)


def test_trixie_has_one_version_of_everything() -> None:
    found = choice(TRIXIE)
    assert found.version == "550.163.01"
    assert found.unknown == ()
    assert set(found.targets) == set(WANTED)
    assert found.targets["nvidia-persistenced"] == "550.163.01-1"
    assert found.pins == {
        "src:nvidia-graphics-drivers": "550.163.01-2",
        "src:nvidia-open-gpu-kernel-modules": "550.163.01-2",
    }


def test_bookworm_has_the_open_modules_in_an_older_version_only() -> None:
    found = choice(BOOKWORM)
    assert found.version == "535.261.03"
    assert {found.targets[name] for name in MATCHED & set(found.targets)} == {"535.261.03-1"}
    assert found.targets["nvidia-persistenced"] == "535.171.04-1~deb12u1"


def test_bookworm_has_the_proprietary_modules_in_the_newest_version() -> None:
    found = choice(BOOKWORM, "proprietary")
    assert found.version == "535.309.01"
    assert found.pins == {"src:nvidia-graphics-drivers": "535.309.01-0+deb12u1"}


@pytest.mark.parametrize("wanted", ["535", "535.261", "535.261.03", "535.261.03-1"])
def test_version_may_be_a_branch_a_version_or_a_package_version(wanted: str) -> None:
    assert choice(node(), version=wanted).version == "535.261.03"


def test_branch_is_not_a_mere_beginning() -> None:
    with pytest.raises(UnknownVersion):
        choice(node(), version="53")


def test_unknown_version_lists_what_is_offered() -> None:
    with pytest.raises(InputError, match=r"'999' is not valid.*550\.163\.01, 535\.261\.03"):
        choice(node(), version="999")


def test_a_version_that_is_not_offered_comes_with_where_others_are() -> None:
    with pytest.raises(
        UnknownVersion, match=r"Next step: .* nvidia_driver_source: repository with"
    ):
        choice(node(), version="580")
    with pytest.raises(UnknownVersion, match="Next step: choose one of these, or a repository"):
        choice(node(), version="580", source="repository")


def test_what_is_installed_stays_when_it_fits() -> None:
    have = node(packages={KERNEL["open"]: package(OLD)})
    assert choice(have).version == upstream(OLD)
    assert choice(have, version="550").version == upstream(NEW)


def test_no_newer_version_than_apt_would_take() -> None:
    backports = node(policies={**OFFERED, KERNEL["open"]: Policy(OLD, (NEW, OLD))})
    assert choice(backports).version == upstream(OLD)
    assert choice(backports, version="550").version == upstream(NEW)


def test_nothing_in_common_names_every_package() -> None:
    torn = {**OFFERED, KERNEL["open"]: Policy(NEW, (NEW,)), "libcuda1": Policy(OLD, (OLD,))}
    with pytest.raises(NodeError, match=r"no version .* in common.*libcuda1: 535\.261\.03"):
        choice(node(policies=torn))


def test_package_that_is_not_offered_is_unknown() -> None:
    found = choice(node(), components=(*USER_SPACE, "nvidia-smmi"))
    assert found.unknown == ("nvidia-smmi",)
    assert found.version is None


def test_component_of_the_driver_gets_its_version_and_any_other_its_own() -> None:
    policies = {
        **OFFERED,
        "libnvidia-encode1": Policy(NEW, (NEW, OLD)),
        "datacenter-gpu-manager": Policy("3.3.9-1", ("3.3.9-1",)),
    }
    components = (*USER_SPACE, "libnvidia-encode1", "datacenter-gpu-manager")
    found = choice(node(policies=policies), components=components, version="535")
    assert found.targets["libnvidia-encode1"] == OLD
    assert found.targets["datacenter-gpu-manager"] == "3.3.9-1"


def test_firmware_comes_where_a_gpu_or_the_module_type_needs_it() -> None:
    volta = node(gpus=(("0000:18:00.0", "volta"),))
    assert "firmware-nvidia-gsp" not in choice(volta, "proprietary").targets
    assert "firmware-nvidia-gsp" in choice(node(), "proprietary").targets
    assert "firmware-nvidia-gsp" in choice(node(gpus=()), "open").targets


@given(
    st.fixed_dictionaries(
        {name: st.lists(st.sampled_from([NEW, OLD, "560.1-1"]), unique=True) for name in WANTED}
    ),
    st.dictionaries(st.sampled_from(WANTED), st.sampled_from([NEW, OLD])),
    st.sampled_from(["", "535", "550", NEW]),
)
def test_all_packages_get_one_version_that_is_offered(
    offers: dict[str, list[str]], installed: dict[str, str], wanted: str
) -> None:
    policies = {
        name: Policy(versions[0], tuple(versions)) for name, versions in offers.items() if versions
    }
    packages = {name: package(version) for name, version in installed.items()}
    observed = node(policies=policies, packages=packages)
    unknown = tuple(sorted(name for name in WANTED if not observed.software.versions(name)))
    common = set.intersection(
        *({upstream(one) for one in observed.software.versions(n)} for n in MATCHED & set(WANTED))
    )
    fitting = {one for one in common if one.startswith(wanted.split("-")[0])}
    if not unknown and not fitting:
        with pytest.raises(NodeError, match=r"in common|expected a version that the sources have"):
            choice(observed, version=wanted)
        return
    found = choice(observed, version=wanted)
    assert found.unknown == unknown
    if not unknown:
        assert found.version in fitting
        for name, version in found.targets.items():
            assert version in observed.software.versions(name)
            assert name not in MATCHED or upstream(str(version)) == found.version
