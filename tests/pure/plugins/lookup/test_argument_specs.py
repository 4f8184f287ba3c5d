# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The specs of roles are read once for a task, which counts on a controller of hundreds of nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible_collections.gpu.node.plugins.lookup import argument_specs

REPOSITORY = Path(argument_specs.ROLES).resolve().parent


def test_each_role_gives_what_its_file_has() -> None:
    found = argument_specs.LookupModule().run([])
    files = sorted(REPOSITORY.glob("roles/*/meta/argument_specs.yml"))
    assert found == [yaml.safe_load(one.read_text()) for one in files]
    (mig,) = argument_specs.LookupModule().run(["mig"])
    assert "mig_config" in mig["argument_specs"]["main"]["options"]


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one/meta/argument_specs.yml"
    path.parent.mkdir(parents=True)
    path.write_text("argument_specs: {main: {options: {a: {type: str}}}}")
    monkeypatch.setattr(argument_specs, "ROLES", str(tmp_path))
    lookup = argument_specs.LookupModule()
    first = lookup.run([])
    path.write_text("argument_specs: {}")
    assert lookup.run([]) == lookup.run(["one"]) == first
    assert first[0]["argument_specs"]["main"]["options"] == {"a": {"type": "str"}}


def test_a_role_that_is_not_there_is_named() -> None:
    with pytest.raises(
        AnsibleLookupError, match="'drivr' is not valid: expected the name of a role"
    ):
        argument_specs.LookupModule().run(["drivr"])
