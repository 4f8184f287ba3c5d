# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Evidence reaches the controller whole, under a name that no node chooses, or not at all."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.plays.plays import Play, play
from tests.runner.tiers import long_but_first

__all__ = ["play"]
DATA = b"evidence"
UUID = "GPU-e8f601d1-77c8-55bd-9276-681ef5fb455f"


def fetched(play: Play, **changes: Any) -> tuple[str, list[Path]]:
    """Return what a run says that fetches an archive, and what is in the folder on the controller then."""
    archive = play.folder / "archive.tar.gz"
    if not archive.exists():
        archive.write_bytes(DATA)
    options = {
        "path": str(archive),
        "sha256": hashlib.sha256(DATA).hexdigest(),
        "size": len(DATA),
        "folder": str(play.folder / "evidence/n1"),
        "gpu": UUID,
        "stage": "before",
        **changes,
    }
    said = play.run([{"name": "Fetch it", "gpu.node.fetch_evidence": options}])
    return said, sorted((play.folder / "evidence").rglob("*.*"))


def test_an_archive_gets_a_name_of_the_controllers_and_is_the_users_alone(play: Play) -> None:
    _said, (archive,) = fetched(play)
    assert archive.name.startswith(f"{UUID}.before.20")
    assert archive.read_bytes() == DATA
    assert archive.stat().st_mode & 0o777 == 0o600
    assert archive.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.attack("controller-of-a-taken-node")
@pytest.mark.parametrize(
    ("change", "said"),
    long_but_first(
        [
            ({"gpu": "../../host_vars/evil"}, "gpu: '../../host_vars/evil' is not valid"),
            ({"gpu": ".bashrc"}, "gpu: '.bashrc' is not valid"),
            ({"sha256": "0" * 63}, "sha256: "),
            (
                {"size": 1 << 40},
                "size: 1099511627776 is not valid: expected at most 268435456 bytes",
            ),
            ({"size": 0}, "size: 0 is not valid"),
            ({"path": "/nowhere"}, "it can't be fetched: "),
        ]
    ),
)
def test_what_a_node_answers_becomes_no_path(play: Play, change: dict[str, Any], said: str) -> None:
    text, files = fetched(play, **change)
    assert f"evidence of n1: {said}" in text
    assert files == []


@pytest.mark.attack("controller-of-a-taken-node")
def test_an_archive_of_another_digest_is_not_kept(play: Play) -> None:
    (play.folder / "archive.tar.gz").write_bytes(b"{{ lookup('pipe', 'id') }}")
    text, files = fetched(play)
    assert "evidence of n1: the file has the SHA-256" in text
    assert files == []


@pytest.mark.attack("controller-of-a-taken-node")
def test_an_archive_that_is_larger_than_was_answered_fills_no_disk(play: Play) -> None:
    archive = play.folder / "archive.tar.gz"
    archive.touch()
    os.truncate(archive, 300 << 20)
    text, files = fetched(play)
    assert "evidence of n1: it can't be fetched: " in text
    assert files == []
