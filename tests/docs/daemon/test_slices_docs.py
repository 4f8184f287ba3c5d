# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the pages of the DRA driver show of its configuration and its slices is what is read and published."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import yaml
from gpu_plugin.config.allocation import KEYS
from gpu_plugin.config.configuration import parse
from gpu_plugin.slices import build
from gpu_plugin.slices.taints import KEYS as TAINTS
from gpu_plugin.slices.taints import UNENFORCED

from tests.fakes.daemon.gpu_builders import inventory, view
from tests.support.paths import REPOSITORY

FOLDER = REPOSITORY / "docs/fractions"
PAGE, SLICES = ((FOLDER / f"{name}.md").read_text() for name in ("driver", "slices"))


def block(page: str, begin: str) -> Any:
    """Return the example of a page that begins so."""
    (text,) = re.findall(rf"```yaml\n({re.escape(begin)}.*?)```", page, re.DOTALL)
    return yaml.safe_load(text)


def test_the_devices_on_the_page_are_those_that_are_published() -> None:
    gpu = replace(view(0), brand=14, pcie_root="pci0000:16")
    now = replace(inventory(gpu), cuda_version="12.4")
    _counters, parts = build(now, parse("gpuNode: {allocation: dra}"), {}, {}, node="node-1")
    whole, share = parts["devices"]
    shown: list[dict[str, Any]] = block(SLICES, "- name: gpu-0 ")
    assert shown[0] == whole
    common = {**whole["attributes"], **shown[1]["attributes"]}
    assert {**shown[1], "attributes": common} == share


def test_the_configuration_on_the_page_is_a_good_one() -> None:
    dra = parse(yaml.safe_dump(block(PAGE, "gpuNode:"))).dra
    assert (dra.allocation, len(dra.devices)) == ("both", 3)
    assert [key for key in KEYS if f"| `{key}` |" not in PAGE] == []


def test_each_taint_is_on_the_page() -> None:
    keys = {"xid", UNENFORCED, *TAINTS.values()}
    assert [key for key in sorted(keys) if f"`gpu.node/{key}`" not in PAGE] == []
