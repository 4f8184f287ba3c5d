# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What an error quotes of a package manager that has said much."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed
from ansible_collections.gpu.node.plugins.module_utils._machine.packages.api import tail

ARCHIVES = [f"/tmp/apt-dpkg-install-vWXcQ6/{number:02}-one_1_amd64.deb" for number in range(35)]
DPKG = [
    "dpkg: error processing archive {0} (--unpack):",
    " cannot access archive '{0}': No such file or directory",
]


def test_cause_is_quoted_before_the_packages_that_it_stopped() -> None:
    said = [line.format(one) for one in ARCHIVES for line in DPKG]
    said += ["Errors were encountered while processing:", *(f" {one}" for one in ARCHIVES)]
    said.append("E: Sub-process /usr/bin/dpkg returned an error code (1)")
    quoted = tail(Completed(100, "Reading package lists...\n", "\n".join(said))).split("\n")
    assert quoted[:2] == [line.format(ARCHIVES[0]) for line in DPKG]
    assert quoted[-1] == said[-1]
    assert len(quoted) <= 21


@pytest.mark.parametrize("err", ["E: it is the end", "W: a warning\nE: it is the end"])
def test_what_led_to_an_error_at_the_end_stays(err: str) -> None:
    quoted = tail(Completed(100, "The following packages have unmet dependencies:\n one", err))
    assert quoted.startswith("The following packages have unmet dependencies:")
    assert quoted.endswith(err)
