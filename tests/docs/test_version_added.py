# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""antsibull-changelog lists a module as new in the release that its documentation names."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.paths import REPOSITORY

RELEASES = yaml.safe_load((REPOSITORY / "changelogs/changelog.yaml").read_text())["releases"]
LISTED = {
    module["name"]: release
    for release, told in RELEASES.items()
    for module in told.get("modules", ())
}
MODULES = sorted(one.stem for one in (REPOSITORY / "plugins/modules").glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_new_in_the_release_that_lists_it(name: str) -> None:
    text = (REPOSITORY / f"plugins/modules/{name}.py").read_text()
    found = re.search(r"^version_added: (\S+)$", text, re.MULTILINE)
    assert found
    if name in LISTED:
        assert found[1] == LISTED[name]
    else:
        assert found[1] not in RELEASES  # it waits for the next one
