# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The names of packages in the RHEL family."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.driver.names import Offer, Wanted
from ansible_collections.gpu.node.plugins.module_utils._core.driver.rhel.packages import (
    rhel_packages,
)


@pytest.mark.parametrize(
    ("kernel", "found"),
    [
        ("5.14.0-570.12.1.el9_6.x86_64", "kernel-devel-5.14.0-570.12.1.el9_6.x86_64"),
        ("5.14.0-570.el9.aarch64+64k", "kernel-64k-devel-5.14.0-570.el9.aarch64"),
        ("5.15.0-310.185.4.el9uek.x86_64", "kernel-uek-devel-5.15.0-310.185.4.el9uek.x86_64"),
        ("6.1.141-155.222.amzn2023.x86_64", "kernel-devel-6.1.141-155.222.amzn2023.x86_64"),
        ("6.12.37-61.105.amzn2023.x86_64", "kernel6.12-devel-6.12.37-61.105.amzn2023.x86_64"),
    ],
)
def test_headers_are_those_of_the_kernels_variant(kernel: str, found: str) -> None:
    assert rhel_packages(Offer(), Wanted(kernel=kernel)).headers.format(kernel) == found
