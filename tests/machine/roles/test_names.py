# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What was renamed is still read by its old name, and the page of migration has it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from tests.support.paths import REPOSITORY

ROLES = REPOSITORY / "roles"
MIGRATION = (REPOSITORY / "docs/migration/README.md").read_text()
# The modules of fractions and report are not of their names, as they are for more than that.
OTHERS = ("common", "fractions", "node_labels", "report")
# The variables of the role common are those of the playbooks, for modules of several roles.
NAMES = sorted(one.name for one in ROLES.iterdir() if one.name not in OTHERS)


def module(name: str) -> dict[str, Any]:
    found = importlib.import_module(f"ansible_collections.gpu.node.plugins.modules.{name}")
    spec: dict[str, Any] = found.SPEC["argument_spec"]
    return spec


def deprecated() -> Iterator[tuple[str, str]]:
    """Return the old and the new name of what is still read by its old one."""
    for path in ROLES.glob("*/tasks/**/*.yml"):
        yield from re.findall(r"gpu\.node\.renamed\('(\w+)',\s*'(\w+)'\)", path.read_text())
    for role in NAMES:
        for name, spec in module(role).items():
            yield from ((one["name"], name) for one in spec.get("deprecated_aliases", ()))


@pytest.mark.parametrize(("before", "now"), [*deprecated()])
def test_page_has_what_was_renamed(before: str, now: str) -> None:
    rows = [line for line in MIGRATION.splitlines() if line.startswith("| ")]
    assert any(f"`{before}`" in line and f"`{now}`" in line for line in rows)


def test_old_names_are_still_read() -> None:
    done = ArgumentSpecValidator(module("container_runtime")).validate(
        {"runtime": "docker", "runtime_path": "/opt/x"}
    )
    assert not done.errors.messages
    assert done.validated_parameters["name"] == "docker"
    assert done.validated_parameters["handler_path"] == "/opt/x"
    said = str(done._deprecations)
    assert "'runtime' is deprecated" in said
    assert "'runtime_path' is deprecated" in said
