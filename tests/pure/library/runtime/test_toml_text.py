# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Finding A11: tables in whatever order and notation are edited, and the edit is taken back."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
import tomlkit
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._runtime import edits
from ansible_collections.gpu.node.plugins.module_utils._runtime.machine import toml
from hypothesis import given
from hypothesis import strategies as st

CRI = ("plugins", "io.containerd.grpc.v1.cri")
HANDLER = (*CRI, "containerd", "runtimes", "nvidia")
CHANGES: list[edits.Change] = [
    ((*CRI, "enable_cdi"), True),
    ((*HANDLER, "runtime_type"), "io.containerd.runc.v2"),
    ((*HANDLER, "options", "BinaryName"), "/usr/bin/nvidia-container-runtime"),
    ((*CRI, "cdi_spec_dirs"), ["/etc/cdi", "/var/run/cdi"]),
]
T = 'plugins."io.containerd.grpc.v1.cri"'
LAYOUTS = {
    "an inline table": "version = 2\nplugins = {}\n",
    "an inline table, no last newline": "version = 2\nplugins = { a = { b = 1 } } # x",
    "inline tables in each other": f"[{T}.containerd]\nruntimes = {{ runc = {{ x = 1 }} }} # y\n",
    "an inline table with dots": f"[{T}]\ncontainerd = {{ runtimes.runc.x = 1 }}\n",
    "a child before its parent": f"[{T}.containerd.runtimes.runc.options]\na = 1\n"
    f"[{T}.containerd.runtimes.runc]\nb = 1\n",
    "parents last": f'[{T}.cni]\na = 1\n[{T}]\nb = 1\n[plugins]\n[{T}."registry"]\nc = 1\n',
    "mixed": "[plugins.rt.runc]\n[grpc]\n[plugins.rt]\n[plugins]\n[plugins.rt.runc.options]\n",
    "dots": 'plugins."io.containerd.grpc.v1.cri".sandbox_image = "x"\nversion = 2\n',
    "dots in a table": '[plugins]\n"io.containerd.grpc.v1.cri".containerd.runtimes.runc.x=1',
    "comments only": "# one\n\n# two\n",
    "windows": f"version = 2\r\n[plugins]\r\n\t[{T}]\r\n\t\tx = 1\r\n",
    "lists of tables after it": "[plugins]\n[[stream]]\na = 1\n[[stream]]\n",
    "strings over lines": f"[{T}]\nx = \"\"\"\n[plugins]\n\"\"\"\ny = '''\n# = ''' # = \n",
}


def same(text: str, changes: list[edits.Change]) -> None:
    """Edit a text and take that back; nothing else changes, and no line that had something goes."""
    before = tomllib.loads(text)
    after = toml.edit(text, changes)
    assert tomllib.loads(after) == edits.apply(before, changes, [])
    entries = edits.note(before, changes, [])
    back = toml.edit(after, *edits.revert(tomllib.loads(after), entries))
    assert tomllib.loads(back) == before
    for one in (after, back):
        comments = [line for line in text.splitlines() if line.lstrip().startswith("#")]
        assert [line for line in comments if line not in one.splitlines()] == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout_is_edited_and_given_back(layout: str) -> None:
    text = LAYOUTS[layout]
    same(text, CHANGES)
    if "\r\n" in text:
        assert "\n" not in toml.edit(text, CHANGES).replace("\r\n", "")


@pytest.mark.parametrize("text", ["[[plugins]]\n", "plugins = 3\n", "plugins = [{}]\n"])
def test_what_is_no_table_is_named(text: str) -> None:
    with pytest.raises(NodeError, match="plugins is not a table: enable_cdi must be set in it"):
        toml.edit(text, CHANGES)


def test_table_where_a_value_goes_is_named() -> None:
    with pytest.raises(NodeError, match="enable_cdi is a table: a value must be set there"):
        toml.edit(f"[{T}.enable_cdi]\n", CHANGES)


def test_new_tables_look_like_those_that_are_there() -> None:
    text = f"[plugins]\n  [{T}]\n    a = 1\n    [{T}.cni]\n      b = 2\n[last]\nx = 1\n"
    assert toml.edit(text, CHANGES) == (
        f"[plugins]\n  [{T}]\n    a = 1\n    enable_cdi = true\n"
        '    cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]\n'
        f"    [{T}.cni]\n      b = 2\n"
        f'    [{T}.containerd.runtimes.nvidia]\n      runtime_type = "io.containerd.runc.v2"\n'
        f"      [{T}.containerd.runtimes.nvidia.options]\n"
        '        BinaryName = "/usr/bin/nvidia-container-runtime"\n[last]\nx = 1\n'
    )


KEYS = st.sampled_from(["plugins", "io.containerd.grpc.v1.cri", "containerd", "a", "b c", "é"])
LEAVES = st.booleans() | st.integers(-9, 9) | st.text("xy #=[]{}\"'\\\n", max_size=5)


def inline(value: Any) -> Any:
    """Return a value as inline tables."""
    if not isinstance(value, Mapping):
        return value
    table = tomlkit.inline_table()
    for key, one in value.items():
        table[key] = inline(one)
    return table


def refused(data: Any, changes: list[edits.Change]) -> bool:
    """Return whether something else stands where a change needs a table or a value."""
    for path, _value in changes:
        around = [edits.find(data, path[:size])[0] for size in range(1, len(path))]
        if any(found and not isinstance(found[0], Mapping) for found in around):
            return True
    return False


@given(
    st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=4), max_leaves=12),
    st.sets(st.sampled_from(["plugins", "a", "b c"])),
    st.lists(st.sampled_from(range(len(CHANGES))), unique=True),
)
def test_any_layout_is_edited_and_given_back(
    data: Any, in_one_line: set[str], chosen: list[int]
) -> None:
    data = data if isinstance(data, Mapping) else {"plugins": data}
    text = tomlkit.dumps(
        {key: inline(one) if key in in_one_line else one for key, one in data.items()}
    )
    changes = [CHANGES[at] for at in chosen]
    if refused(data, changes):
        with pytest.raises(NodeError, match=r"is (not )?a table"):
            toml.edit(text, changes)
    else:
        same(text, changes)
