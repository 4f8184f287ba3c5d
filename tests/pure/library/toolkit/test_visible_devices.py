# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The toolkit's configuration is read as TOML: two keys of the top level say which strategies give pods their GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.visible_devices import (
    TOOLKIT_CONFIG,
    warning,
)

VARIABLE = "accept-nvidia-visible-devices-envvar-when-unprivileged"
MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts"
TABLE = '[nvidia-container-runtime.modes.cdi]\ndefault-kind = "nvidia.com/gpu"\n'
BOTH = f"{VARIABLE} = false\n{MOUNTS} = true\n"
TAKEN, WITHOUT, UNREAD = "NVIDIA_VISIBLE_DEVICES of its image", "get no GPU", "is not valid TOML"


@pytest.mark.attack("envvar-takes-gpus")
@pytest.mark.parametrize(
    ("text", "envvar", "mounts"),
    [
        (BOTH, WITHOUT, ""),
        (f'"{VARIABLE}" = false\n"{MOUNTS}" = true\n', WITHOUT, ""),
        (f"{BOTH}{TABLE}", WITHOUT, ""),
        # NVIDIA's runtime has these keys at the top level alone.
        (f"{TABLE}# added at the end by a configuration tool\n{BOTH}", TAKEN, TAKEN),
        (f'[nvidia-container-runtime]\nnote = """\n{VARIABLE} = false\n"""\n', TAKEN, TAKEN),
        (f"#{VARIABLE} = false\n#{MOUNTS} = true\n", TAKEN, TAKEN),
        (None, TAKEN, TAKEN),
        # What is not there is as NVIDIA's runtime has it by default: true, and false.
        (f"{MOUNTS} = true\n", TAKEN, TAKEN),
        (f"{VARIABLE} = false\n", WITHOUT, WITHOUT),
        (f"{VARIABLE} = false\n{MOUNTS} = false\n", WITHOUT, WITHOUT),
        (f"{VARIABLE} = false\n{VARIABLE} = true\n", UNREAD, UNREAD),
    ],
)
def test_keys_of_the_toolkit_count_where_its_runtime_reads_them(
    text: str | None, envvar: str, mounts: str
) -> None:
    for strategy, expected in (("envvar", envvar), ("volume-mounts", mounts)):
        found = warning([strategy], text)
        assert (expected in found) if expected else not found, strategy
        assert not found or f"deviceListStrategy {strategy}: " in found
        assert not found or TOOLKIT_CONFIG in found
    assert warning(["cdi-cri"], text) == ""


@pytest.mark.attack("envvar-takes-gpus")
def test_a_second_strategy_that_reaches_containers_gives_them_their_gpus() -> None:
    text = f"{VARIABLE} = false\n"
    assert warning(["volume-mounts", "cdi-cri"], text) == ""
    assert warning(["volume-mounts", "envvar"], f"{text}{MOUNTS} = true\n") == ""
    assert WITHOUT in warning(["volume-mounts", "envvar"], text)
