# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Parameters of the kernel are read as its next_arg() reads them, and written so that it does."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.text.kernel_parameters import (
    Parameter,
    parse,
    split,
    write,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("ro quiet", [("ro", None), ("quiet", None)]),
        ("root=UUID=1-2 a=", [("root", "UUID=1-2"), ("a", "")]),
        ('"a=1" "b=0"', [("a", "1"), ("b", "0")]),
        ('a="1"', [("a", "1")]),
        ('a="x=1; y=2" b=1', [("a", "x=1; y=2"), ("b", "1")]),
        ('"a=x=1; y=2" b', [("a", "x=1; y=2"), ("b", None)]),
        (
            "nvidia-drm.modeset=1 intel-iommu=on",
            [("nvidia_drm.modeset", "1"), ("intel_iommu", "on")],
        ),
        ("a=b-c", [("a", "b-c")]),
        ('\t a=1 \n b="2', [("a", "1"), ("b", "2")]),
        ("", []),
    ],
)
def test_double_quotes_protect_blanks_and_a_dash_is_an_underscore(
    text: str, parameters: list[tuple[str, str | None]]
) -> None:
    assert parse(text) == tuple(Parameter(*parameter) for parameter in parameters)


def test_splitting_keeps_what_is_written() -> None:
    written = ("ro", 'dyndbg="file a  b +p"', '"init-args=x y"')
    assert split(" ".join(written)) == written


@given(
    st.text(st.sampled_from("ab_."), min_size=1),
    st.text(st.sampled_from('ab=;, -+0x"'), min_size=1),
)
def test_what_is_written_is_read_again(name: str, value: str) -> None:
    if '"' in value:
        with pytest.raises(ValueError, match="double quote"):
            write(name, value)
    else:
        assert parse(f"ro {write(name, value)} quiet")[1:-1] == (Parameter(name, value),)


@given(st.text())
def test_any_text_is_split_without_losing_anything_but_blanks(text: str) -> None:
    assert "".join("".join(split(text)).split()) == "".join(text.split())
