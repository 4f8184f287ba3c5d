# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What containerd's configuration must say."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.containerd import (
    check_version,
    describe,
    lookup,
    needed,
    parse_version,
    section,
)
from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from hypothesis import given
from hypothesis import strategies as st

CRI = ("plugins", "io.containerd.grpc.v1.cri")
DIRS = ["/etc/cdi", "/var/run/cdi"]


def effective(**values: Any) -> dict[str, Any]:
    return {"plugins": {"io.containerd.grpc.v1.cri": values}}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6", (1, 7, 24)),
        ("containerd github.com/containerd/containerd/v2 v2.1.4 75cb2b7193e4e4", (2, 1, 4)),
        ("containerd containerd.io 1.6.33 d2d58213f83a351ca8f528a95fbd145f5654e957", (1, 6, 33)),
    ],
)
def test_version_is_read_from_every_packager(text: str, version: tuple[int, ...]) -> None:
    assert parse_version(text) == version


def test_version_that_is_not_told_is_an_error() -> None:
    with pytest.raises(NodeError, match="did not tell its version: no output"):
        parse_version("")


def test_containerd_without_cdi_is_refused() -> None:
    with pytest.raises(NodeError, match=r"containerd 1\.6\.20 .* came with containerd 1\.7"):
        check_version((1, 6, 20))
    check_version((1, 7, 0))


@pytest.mark.parametrize(
    ("config", "version", "name"),
    [
        ({}, (1, 7, 24), "io.containerd.grpc.v1.cri"),
        ({}, (2, 1, 4), "io.containerd.cri.v1.runtime"),
        ({"version": 2}, (2, 1, 4), "io.containerd.grpc.v1.cri"),
        ({"version": 3}, (2, 1, 4), "io.containerd.cri.v1.runtime"),
    ],
)
def test_section_follows_the_files_own_format(
    config: dict[str, Any], version: tuple[int, ...], name: str
) -> None:
    assert section(config, version) == ("plugins", name)


@pytest.mark.parametrize("config", [{"version": 1}, {"root": "/x"}, {"version": "2"}])
def test_formats_of_old_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(NodeError, match="expected 2, 3 or 4"):
        section(config, (1, 7, 24))


def test_only_what_lacks_is_changed() -> None:
    assert needed(effective(enable_cdi=True, cdi_spec_dirs=DIRS), CRI, DIRS) == []
    assert needed(effective(enable_cdi=True, cdi_spec_dirs=["/opt/cdi"]), CRI, DIRS) == [
        ((*CRI, "cdi_spec_dirs"), ["/opt/cdi", *DIRS])
    ]
    assert needed({}, CRI, DIRS) == [
        ((*CRI, "enable_cdi"), True),
        ((*CRI, "cdi_spec_dirs"), DIRS),
    ]
    assert describe(needed({}, CRI, DIRS)) == (
        "enable_cdi = true, cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']"
    )


@given(
    st.booleans() | st.none() | st.integers(0, 1),
    st.lists(st.sampled_from([*DIRS, "/a", "/b"]), unique=True),
)
def test_changes_made_leave_nothing_to_change(enabled: Any, dirs: list[str]) -> None:
    before = {"enable_cdi": enabled, "cdi_spec_dirs": dirs}
    after = dict(before)
    for path, value in needed(effective(**before), CRI, DIRS):
        after[path[-1]] = value
    assert needed(effective(**after), CRI, DIRS) == []
    assert [one for one in after["cdi_spec_dirs"] if one in dirs] == dirs


def test_lookup_of_what_is_not_there() -> None:
    assert lookup({"a": {"b": 1}}, ("a", "b")) == 1
    assert lookup({"a": {"b": 1}}, ("a", "b", "c")) is None
    assert lookup({}, ("a",)) is None
