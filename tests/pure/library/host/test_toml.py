# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Edits of TOML files keep everything else."""

from __future__ import annotations

import tomllib

import pytest
import tomlkit
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._runtime import toml_text
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import toml
from hypothesis import given
from hypothesis import strategies as st

DEBIAN = """\
version = 2

# ours, do not touch
[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"  # Debian's
"""
CHANGE = (("plugins", "io.containerd.grpc.v1.cri", "enable_cdi"), True)
KEYS = st.text("abcdef-", min_size=1, max_size=5)
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.text("xyz #", max_size=5),
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=3) | st.lists(st.integers(0, 9), max_size=3)
    ),
    max_leaves=8,
)


def test_comments_and_other_keys_survive() -> None:
    after = toml.edit(DEBIAN, [CHANGE])
    assert [line for line in DEBIAN.splitlines() if line not in after.splitlines()] == []
    assert tomllib.loads(after)["plugins"]["io.containerd.grpc.v1.cri"]["enable_cdi"] is True
    assert toml.edit(after, [CHANGE]) == after


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_file_keeps_what_it_has(data: dict[str, object]) -> None:
    text = tomlkit.dumps(data)
    after = toml.edit(text, [(("zz", "new.key", "on"), True)])
    parsed = tomllib.loads(after)
    assert parsed.pop("zz") == {"new.key": {"on": True}}
    assert parsed == tomllib.loads(text)
    assert toml.edit(after, [(("zz", "new.key", "on"), True)]) == after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('bin_dir = "/usr/lib/cni"', ""),
        ('"/usr/lib/cni"', '"/opt/cni"'),
        ("version = 2\n", "version = 2\nmore = 1\n"),
        ("enable_cdi = true", ""),
    ],
    ids=["lost", "changed", "added", "not made"],
)
def test_edit_that_does_not_come_out_as_asked_is_refused(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    right = toml.edit(DEBIAN, [CHANGE])
    wrong = right.replace(old, new)
    assert wrong != right
    monkeypatch.setattr(toml_text, "edit", lambda *_given: wrong)
    with pytest.raises(NodeError, match=r"can't be edited safely.*the file was left as it is"):
        toml.edit(DEBIAN, [CHANGE])


def test_damaged_file_names_the_place() -> None:
    with pytest.raises(NodeError, match=r"/x\.toml is not valid TOML.*line 2"):
        toml.parse("a = 1\nb = = 2\n", "/x.toml")
