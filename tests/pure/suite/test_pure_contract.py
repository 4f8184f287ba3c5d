# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which modules the contract holds to what they say of themselves."""

from __future__ import annotations

import pytest

from tests.support.contracts import is_pure


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("gpu_plugin.mps.verdict", True),
        ("gpu_plugin.model", True),
        ("gpu_plugin.model.yet_to_come", True),  # by its package
        ("gpu_plugin.mps.state", False),
        ("gpu_cluster.hami.cel", True),
        ("gpu_cluster.webhook.server", False),
        ("os", False),
    ],
)
def test_a_module_is_pure_by_its_own_word_or_its_packages(module: str, said: bool) -> None:
    assert is_pure(module) is said
