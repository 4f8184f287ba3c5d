# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A process's state in a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from gpu_plugin.tools.files import VERSION, StateFile, StateUnusable, read, stamp, started

from tests.fakes.host.old_times import rewrite_with_old_time


def test_what_is_written_is_read_with_the_process_that_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "new/state.json"
    file = StateFile(path, mode=0o600, durable=True)
    assert file.write({"is": "well"})
    assert not file.write({"is": "well"})
    stamp = {"version": VERSION, "pid": os.getpid(), "began": started(os.getpid())}
    assert read(path, (VERSION,)) == {**stamp, "is": "well"}
    assert path.stat().st_mode & 0o777 == 0o600
    file.remove()
    assert read(path) is None


def test_a_file_that_somebody_removes_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    file = StateFile(path)
    file.write({"is": "well"})
    path.unlink()
    assert file.write({"is": "well"})
    assert read(path)
    assert not file.write({"is": "well"})


def test_what_is_no_state_is_refused(tmp_path: Path) -> None:
    for text, why in (
        ("", "can't be used"),
        ("[]", "it is no JSON object"),
        ("{}", "version None is not 1"),
        ('{"version": 2}', "version 2 is not 1"),
        ('{"version": "' + "x" * 1000, "can't be used"),
    ):
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(StateUnusable, match=why):
            read(tmp_path / "state.json", (VERSION,))
        with pytest.raises(StateUnusable):
            read(tmp_path, (VERSION,))


def test_a_file_may_have_any_version_where_none_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"pid": 1}))
    assert read(tmp_path / "state.json") == {"pid": 1}


def test_a_file_that_has_its_old_time_and_size_again_has_another_stamp(tmp_path: Path) -> None:
    (path := tmp_path / "file").write_text("one")
    before = stamp(path)
    rewrite_with_old_time(path, "two")
    assert stamp(path) != before
