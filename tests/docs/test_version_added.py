# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""antsibull-changelog lists a module as new in the release that its documentation names."""

from __future__ import annotations

import re

import yaml

from tests.support.paths import REPOSITORY

RELEASES = yaml.safe_load((REPOSITORY / "changelogs/changelog.yaml").read_text())["releases"]
LISTED = {
    module["name"]: release
    for release, told in RELEASES.items()
    for module in told.get("modules", ())
}
MODULES = sorted(one.stem for one in (REPOSITORY / "plugins/modules").glob("*.py"))


def added(name: str) -> str:
    """Return the version in which a module is new, as its documentation says."""
    text = (REPOSITORY / f"plugins/modules/{name}.py").read_text()
    found = re.search(r"^version_added: (\S+)$", text, re.MULTILINE)
    return found[1] if found else ""


def test_a_module_is_new_in_the_release_that_lists_it() -> None:
    assert {name: added(name) for name in LISTED} == LISTED
    waiting = {name: added(name) for name in MODULES if name not in LISTED}
    assert [name for name, version in waiting.items() if not version or version in RELEASES] == []
