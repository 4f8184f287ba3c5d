# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What is recorded of a host names files that root writes again, so only those that are set here are believed."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.live import NUMA_FILE
from ansible_collections.gpu.node.plugins.module_utils._host.state import HostRecord, dump, parse


def record(*names: str) -> str:
    return json.dumps({**json.loads(dump(HostRecord())), "values": dict.fromkeys(names, "0")})


def test_a_value_that_is_set_here_is_read_again() -> None:
    assert parse(record(NUMA_FILE)).values == {NUMA_FILE: "0"}


@pytest.mark.attack("record-names-another-file")
@pytest.mark.parametrize(
    "name", ["/etc/passwd", f"{NUMA_FILE}/../../../etc/passwd", f"{NUMA_FILE}\n", ""]
)
def test_a_record_that_names_another_file_is_refused(name: str) -> None:
    with pytest.raises(NodeError, match="is not one that is set here"):
        parse(record(NUMA_FILE, name))
