# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Module streams of nvidia-driver: which one fits, and which one is chosen."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import InputError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.rpm import parse_enabled
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.facts import Streams
from ansible_collections.gpu.node.plugins.module_utils._driver.families.rhel import (
    stream_fits,
    stream_steps,
)


def streams(enabled: str = "") -> Streams:
    offered = {"570-open": "570", "580-open": "580", "580-dkms": "580"}
    offered.update({"latest-dkms": "580", "open-dkms": "580"})
    rows = {one: (("kmod", "noarch", f"3:{of}.1-1.el9"),) for one, of in offered.items()}
    return Streams(enabled, rows)


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
def test_a_stream_fits_its_branch_and_kind(stream: str, version: str, kind: str, fit: bool) -> None:
    assert stream_fits(stream, Version(version), kind) is fit


@pytest.mark.parametrize(
    ("version", "kind", "wanted"),
    [
        ("", "open", "open-dkms"),
        ("580", "open", "580-open"),
        ("580.1", "proprietary", "580-dkms"),
    ],
)
def test_exact_branch_comes_before_the_one_that_rolls(version: str, kind: str, wanted: str) -> None:
    (found,) = stream_steps(streams(), Version(version), kind)
    assert found.params == {"stream": wanted, "before": ""}


def test_unknown_branch_lists_the_streams() -> None:
    with pytest.raises(InputError, match=r"'999'.*stream.*open kernel modules: .*580-open"):
        stream_steps(streams(), Version("999"), "open")


def test_module_that_is_not_enabled() -> None:
    text = "[nvidia-driver]\nname=nvidia-driver\nstream=580-open\nstate={}\n"
    assert parse_enabled(text.format("enabled")) == "580-open"
    assert parse_enabled(text.format("disabled")) == ""
