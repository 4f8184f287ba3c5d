# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which versions of the NVIDIA container toolkit are safe to use."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base import toolkit as toolkit_version


@pytest.mark.parametrize(
    ("text", "version", "safe"),
    [
        ("NVIDIA CDI Hook version 1.17.8\ncommit: abc", (1, 17, 8), False),
        ("NVIDIA Container Toolkit CLI version 1.20.0-rc.1", (1, 20, 0, -1), True),
        ("v1.20.0", (1, 20, 0), True),
        ("1.19.0-1", (1, 19, 0), False),
        ("1.19.1-1", (1, 19, 1), True),
        ("1.19.1~rc.2-1", (1, 19, 1, -1), False),
        ("1.19.1-0.1.rc.1", (1, 19, 1, -1), False),
        ("2.0.0-1", (2, 0, 0), True),
        ("", None, False),
    ],
)
def test_a_version_is_safe_from_the_last_fix_on(
    text: str, version: tuple[int, ...] | None, safe: bool
) -> None:
    assert toolkit_version.number(text) == version
    assert toolkit_version.is_safe(text) is safe


def test_a_version_is_described_as_people_write_it() -> None:
    assert toolkit_version.described("runtime version v1.18.2\n") == "1.18.2"
    assert toolkit_version.described("broken") == "unknown"
