# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Module streams of nvidia-driver, through the genuine dnf, in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._capability.driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._core.driver.rhel.streams import (
    MODULE_FILE,
    Streams,
    parse_enabled,
    stream_fits,
    stream_step,
)
from ansible_collections.gpu.node.plugins.module_utils._core.errors import InputError

from tests.fakes.packages.debian import capability, converge
from tests.fakes.packages.rpm_nodes import SYSTEMS, RpmNode, missing, with_streams

genuine = pytest.mark.skipif(bool(missing("dnf")), reason=missing("dnf") or "-")
NEWEST = "580.95.05"


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_streams(tmp_path_factory.mktemp("streams"))


@pytest.fixture
def node(repo: Path, tmp_path: Path) -> RpmNode:
    return RpmNode(tmp_path, repo, SYSTEMS["dnf"])


def enabled(node: RpmNode) -> str:
    return parse_enabled(node.read(MODULE_FILE) or "")


@genuine
def test_stream_is_enabled_changed_with_the_driver_and_reset(node: RpmNode) -> None:
    left = converge(node)
    assert (left.steps, left.warnings) == ((), ())
    assert enabled(node) == "580-open"
    assert node.installed()["kmod-nvidia-open-dkms"] == NEWEST
    node.ran.clear()
    assert converge(node).steps == ()
    assert not [words for words in node.ran if "module" in words]
    converge(node, version="570", kernel_modules="proprietary")
    assert enabled(node) == "570-dkms"
    assert node.installed()["kmod-nvidia-latest-dkms"] == "570.195.03"
    assert "kmod-nvidia-open-dkms" not in node.installed()
    converge(node, state="absent")
    assert (enabled(node), node.installed()) == ("", {})
    assert RECORD not in node.files


@genuine
def test_stream_that_somebody_enabled_stays_where_it_fits_and_comes_back(node: RpmNode) -> None:
    assert node._genuine(("dnf", "-y", "module", "enable", "nvidia-driver:570-open")).rc == 0
    converge(node)
    assert enabled(node) == "570-open"
    assert node.installed()["nvidia-driver-cuda"] == "570.195.03"
    converge(node, version="580")
    assert enabled(node) == "580-open"
    converge(node, state="absent")
    assert enabled(node) == "570-open"


@genuine
def test_unknown_branch_lists_the_streams(node: RpmNode) -> None:
    one = capability(node, version="999")
    with pytest.raises(InputError, match=r"'999'.*stream.*open kernel modules: .*580-open"):
        one.plan(one.observe())
    assert enabled(node) == ""


@pytest.mark.parametrize(
    ("stream", "version", "kind", "fit"),
    [
        ("580-open", "", "open", True),
        ("580-open", "", "proprietary", False),
        ("580-open", "580.95.05", "open", True),
        ("580-open", "570", "open", False),
        ("open-dkms", "570", "open", True),
        ("latest-dkms", "", "proprietary", True),
        ("latest-dkms", "", "open", False),
        ("580", "580", "open", False),
        ("", "", "open", False),
    ],
)
def test_streams_that_fit(stream: str, version: str, kind: str, fit: bool) -> None:
    assert stream_fits(stream, version, kind) is fit


@pytest.mark.parametrize(
    ("version", "kind", "wanted"),
    [
        ("", "open", "open-dkms"),
        ("580", "open", "580-open"),
        ("580.1", "proprietary", "580-dkms"),
    ],
)
def test_exact_branch_comes_before_the_one_that_rolls(version: str, kind: str, wanted: str) -> None:
    offered = {"570-open": "570", "580-open": "580", "580-dkms": "580"}
    offered.update({"latest-dkms": "580", "open-dkms": "580"})
    rows = {one: (("kmod", "noarch", f"3:{of}.1-1.el9"),) for one, of in offered.items()}
    found = stream_step(Streams("", rows), version, kind)
    assert found is not None
    assert found.params == {"stream": wanted, "before": ""}


def test_module_that_is_not_enabled() -> None:
    assert (
        parse_enabled("[nvidia-driver]\nname=nvidia-driver\nstream=580-open\nstate=disabled\n")
        == ""
    )
