# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The tarball in a bare environment of each ansible-core: it installs, and all that it has is documented."""

from __future__ import annotations

import json
import re

import pytest

from tests.machine.release.conftest import Installed
from tests.support.paths import REPOSITORY

KINDS = {"module": "modules", "filter": "filter", "lookup": "lookup", "callback": "callback"}
# ansible-core 2.20 and later say so of a test plugin of their own, whatever collections there are.
NOT_OURS = re.compile(r"_protomatter")


def listed(there: Installed, kind: str) -> list[str]:
    """Return the names that ansible-doc lists."""
    return sorted(json.loads(there.run("ansible-doc", "-t", kind, "-l", "-j", "gpu.node").stdout))


def files(folder: str) -> list[str]:
    """Return the names of the plugins in a folder, or of the roles."""
    found = (REPOSITORY / folder).glob("*.py" if folder != "roles" else "*/meta/argument_specs.yml")
    stems = (one.stem if folder != "roles" else one.parents[1].name for one in found)
    return sorted(f"gpu.node.{one}" for one in stems if one != "__init__")


def test_the_tarball_installs_and_says_nothing_but_that(installed: Installed) -> None:
    assert "was installed successfully" in installed.said
    assert "WARNING" not in installed.said
    assert "ERROR" not in installed.said


@pytest.mark.long
def test_everything_is_documented_under_each_core(installed: Installed) -> None:
    kinds = {**{kind: f"plugins/{folder}" for kind, folder in KINDS.items()}, "role": "roles"}
    for kind, folder in kinds.items():
        names = listed(installed, kind)
        assert names == files(folder), kind
        shown = installed.run("ansible-doc", "-t", kind, *names)
        said = [one for one in shown.stderr.splitlines() if one and not NOT_OURS.search(one)]
        assert said == []
        assert shown.stdout.count("\n") > 10 * len(names)


def test_every_playbook_is_found_by_its_name(installed: Installed) -> None:
    books = sorted(one.stem for one in (REPOSITORY / "playbooks").glob("*.yml"))
    (installed.home / "inventory").write_text("[gpu_nodes]\nnode ansible_connection=local\n")
    names = [f"gpu.node.{book}" for book in books]
    said = installed.run("ansible-playbook", "-i", "inventory", "--syntax-check", *names)
    found = re.findall(r"playbook: \S+/gpu/node/playbooks/(\w+)\.yml", said.stdout)
    assert found == books
    assert "WARNING" not in said.stderr
