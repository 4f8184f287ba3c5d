# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What an operator clears: requests to a daemon that runs, and the file of one that does not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from gpu_plugin._shared._base.errors import NodeError
from gpu_plugin.driver.health import Health
from gpu_plugin.driver.memory import MOST, REQUESTS, ClearRequests, HealthFile
from gpu_plugin.tools.files import StateUnusable

from tests.fakes.daemon.gpu_builders import inventory, view


def kept(folder: Path) -> HealthFile:
    """A file with faults of two GPUs."""
    health, file = Health(), HealthFile(folder / "health.json", Path("/"))
    now = inventory(view(0), view(1, "1g.10gb"))
    health.judge(now, 1)
    health.xid("GPU-0", 48)
    health.xid("GPU-1", 199, 7, 0)
    health.judge(now, 1)
    file.write(health, [7, 8], {"GPU-0": "0", "GPU-1": "1"})
    return file


def test_a_request_is_taken_once(tmp_path: Path) -> None:
    requests = ClearRequests(tmp_path)
    assert requests.take() == []
    paths = [requests.ask(uuid) for uuid in ("GPU-1", "GPU-0", "GPU-1")]
    assert requests.take() == ["GPU-0", "GPU-1"]
    assert not any(path.exists() for path in paths)
    assert requests.take() == []
    assert (tmp_path / REQUESTS).stat().st_mode & 0o777 == 0o700


def test_what_is_in_a_request_is_not_looked_at(tmp_path: Path) -> None:
    requests = ClearRequests(tmp_path)
    os.mkfifo(requests.ask("GPU-0").with_name("GPU-1"))
    (tmp_path / REQUESTS / "GPU-2").symlink_to("/dev/zero")
    assert requests.take() == ["GPU-0", "GPU-1", "GPU-2"]
    assert Path("/dev/zero").exists()


def test_a_name_that_is_no_uuid_is_removed_with_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (".hidden", "GPU 0", "x" * 65, "GPU-0\n", "\x1b[2J", "ü"):
        requests = ClearRequests(tmp_path)
        path = requests.ask("GPU-0").with_name(name)
        path.touch()
        assert requests.take() == ["GPU-0"], name
        said = capsys.readouterr().err
        assert "not the UUID of a GPU" in said, name
        assert said.count("\n") == 1, name
        assert "\x1b" not in said, name
        assert not path.exists(), name


def test_a_flood_of_requests_holds_up_nothing(tmp_path: Path) -> None:
    requests = ClearRequests(tmp_path)
    for number in range(3 * MOST):
        requests.ask(f"GPU-{number:03d}")
    assert [len(requests.take()) for _round in range(4)] == [MOST, MOST, MOST, 0]


def test_an_empty_folder_in_a_requests_place_is_one_too(tmp_path: Path) -> None:
    requests = ClearRequests(tmp_path)
    requests.ask("GPU-0")
    (tmp_path / REQUESTS / "GPU-1").mkdir()
    assert requests.take() == ["GPU-0", "GPU-1"]


def test_a_folder_that_others_may_write_is_not_obeyed(tmp_path: Path) -> None:
    requests = ClearRequests(tmp_path)
    path = requests.ask("GPU-0")
    for mode in (0o777, 0o770, 0o707):
        path.parent.chmod(mode)
        with pytest.raises(NodeError, match="others than root may write there"):
            requests.take()
        assert path.exists(), oct(mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder away")
def test_a_folder_of_somebody_else_is_not_obeyed(tmp_path: Path) -> None:
    requests = ClearRequests(tmp_path)
    os.chown(requests.ask("GPU-0").parent, 12345, 12345)
    with pytest.raises(NodeError, match="is not obeyed"):
        requests.take()


def test_a_link_in_the_folders_place_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "GPU-0").touch()
    (tmp_path / REQUESTS).symlink_to(other)
    with pytest.raises(OSError, match=r"Not a directory|symbolic link"):
        ClearRequests(tmp_path).take()
    assert (other / "GPU-0").exists()


def test_a_gpu_is_cleared_in_the_file_and_the_others_stay(tmp_path: Path) -> None:
    file = kept(tmp_path)
    before = json.loads((tmp_path / "health.json").read_text())
    assert file.clear(Health(), "GPU-1") == ["XID 199, which the list does not have"]
    after = json.loads((tmp_path / "health.json").read_text())
    assert [one["place"][0] for one in after["health"]["faults"]] == ["GPU-0"]
    assert {**after, "health": 0} == {**before, "health": 0}
    assert after["health"]["faults"] == before["health"]["faults"][:1]
    health = Health()
    indices = file.known(health)
    assert list(health.faults()) == [("GPU-0", None, None)]
    assert indices == {"GPU-0": "0", "GPU-1": "1"}


def test_a_file_stays_as_it_is_where_there_is_nothing_to_clear(tmp_path: Path) -> None:
    file = kept(tmp_path)
    before = (tmp_path / "health.json").stat()
    assert file.clear(Health(), "GPU-7") == []
    after = (tmp_path / "health.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_no_file_and_one_of_another_boot_know_nothing(tmp_path: Path) -> None:
    assert HealthFile(tmp_path / "health.json", Path("/")).clear(Health(), "GPU-0") == []
    kept(tmp_path)
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("another\n")
    assert HealthFile(tmp_path / "health.json", tmp_path).clear(Health(), "GPU-0") == []


def test_a_damaged_file_is_named_and_stays(tmp_path: Path) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    other = f'{{"version": 1, "boot": "{boot}", "health": 1}}'
    path = tmp_path / "health.json"
    for text in ("", "[]", '{"version": 1}', '{"version": 2}', other):
        path.write_text(text)
        file = HealthFile(path, Path("/"))
        with pytest.raises(StateUnusable, match=r"health\.json can't be used"):
            file.known(Health())
        with pytest.raises(StateUnusable, match=r"health\.json can't be used"):
            file.clear(Health(), "x")
        assert path.read_text() == text


def test_what_can_not_be_written_in_one_place_is_remembered_by_the_other(tmp_path: Path) -> None:
    run, beside = tmp_path / "run/health.json", tmp_path / "lib/health.json"
    before = Health()
    HealthFile(run, Path("/"), beside).write(before, "load", {"GPU-0": "0"})
    run.parent.chmod(0o700)
    run.rename(run.with_name("kept"))
    run.mkdir()  # so that it can't be replaced
    before.xid("GPU-0", 48, None, None)
    with pytest.raises(OSError, match="directory"):
        HealthFile(run, Path("/"), beside).write(before, "load")
    run.rmdir()
    run.with_name("kept").rename(run)  # as of before the fault
    after = Health()
    HealthFile(run, Path("/"), beside).read(after, "load", None)
    assert [place[0] for place in after.faults()] == ["GPU-0"]
    assert HealthFile(run, Path("/"), beside).clear(Health(), "GPU-0") != []
    for path in (run, beside):
        forgotten = Health()
        HealthFile(path, Path("/")).read(forgotten, "load", None)
        assert forgotten.faults() == {}
