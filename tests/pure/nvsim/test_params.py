# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a simulated driver shows of its options is what the collection knows of them."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._driver.branches import Version
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.declared import (
    covers,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.in_force import (
    parse_params,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.known import TABLE
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.values import alike
from nvsim.node.params import shown


def test_a_driver_of_580_shows_the_options_of_580_with_their_defaults() -> None:
    found = parse_params(shown({}))
    assert [name for name in found if not covers(TABLE[name].branches, Version("580.142"))] == []
    known = {name: one for name, one in TABLE.items() if one.default and name in found}
    other = [
        name for name, one in known.items() if found[name] and not alike(one.default, found[name])
    ]
    assert other == []
    assert len(known) > 30


@pytest.mark.parametrize(("given", "shows"), [("0", "0"), ("0x1", "1"), ("-1", "4294967295")])
def test_what_it_was_loaded_with_is_shown_without_a_sign(given: str, shows: str) -> None:
    name = "NVreg_RestrictProfilingToAdminUsers"
    assert parse_params(shown({name: given}))[f"nvidia.{name}"] == shows


@pytest.mark.parametrize("bad", ["0o660", "much", "4294967295", "1;2"])
def test_a_number_that_the_kernel_can_not_read_keeps_it_from_being_loaded(bad: str) -> None:
    with pytest.raises(ValueError, match=bad):
        shown({"NVreg_DeviceFileMode": bad})
