# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Files of ours: what is no regular file is never written over, and who else may write to one is seen."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.steps import Step
from ansible_collections.gpu.node.plugins.module_utils._machine import host as api
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host, Status
from ansible_collections.gpu.node.plugins.module_utils._machine.own_files import RECORDS, OwnFiles
from ansible_collections.gpu.node.plugins.module_utils._machine.writers import Hindrance

from tests.fakes.library.fakes import FakeHost

HOST = Host()
THERE: dict[str, tuple[Callable[[Path], object], str]] = {
    "link to a file": (
        lambda path: path.symlink_to("other"),
        "a link to other, .* remove the link",
    ),
    "link to nowhere": (lambda path: path.symlink_to("none"), "a link to none, .* remove the link"),
    "link to a device": (lambda path: path.symlink_to("/dev/null"), "a link to /dev/null"),
    "named pipe": (os.mkfifo, "a named pipe and no regular file.* move away"),
    "folder": (Path.mkdir, "a folder and no regular file.* move away"),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "other").write_text("somebody's")
    return tmp_path / "ours"


@pytest.mark.parametrize("what", THERE)
def test_nothing_is_written_over_what_is_no_regular_file(path: Path, what: str) -> None:
    make, told = THERE[what]
    make(path)
    before = path.lstat()
    with pytest.raises(NodeError, match=rf"(?s)ours can't be written: it is {told}"):
        HOST.write(str(path), "text", mode=0o644)
    assert path.lstat() == before
    assert sorted(os.listdir(path.parent)) == ["other", "ours"]
    assert (path.parent / "other").read_text() == "somebody's"
    with pytest.raises(NodeError, match=f"it is {told}"):
        OwnFiles(HOST, {str(path): 0o644}).steps()


@pytest.mark.parametrize("target", [os.devnull, "folder"])
def test_a_users_file_that_is_a_link_is_written_where_it_leads_to_a_regular_file(
    path: Path, target: str
) -> None:
    path.symlink_to("other")
    HOST.write(str(path), "ours")
    assert (path.parent / "other").read_text() == "ours"
    path.unlink()
    (path.parent / "folder").mkdir()
    path.symlink_to(target)
    with pytest.raises(NodeError, match="can't be written: it is a "):
        HOST.write(str(path), "ours")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_masked_unit_is_refused_with_the_way_out() -> None:
    unit = "/etc/systemd/system/gpu-mig.service"
    error = api.not_regular(unit, stat.S_IFLNK, os.devnull)
    assert "the unit is masked" in str(error)
    assert "run systemctl unmask gpu-mig.service, then run again" in str(error)


class Owned(Host):
    """A machine on which files have other owners."""

    def __init__(self, *, uid: int = 0, gid: int = 0) -> None:
        super().__init__()
        self.ids = uid, gid

    def itself(self, path: str) -> Status | None:
        found = super().itself(path)
        return found and found._replace(uid=self.ids[0], gid=self.ids[1])


@pytest.mark.parametrize(
    ("mode", "ids", "told"),
    [
        (0o644, (0, 0), ""),
        (0o666, (0, 0), "mode 0666, owner 0:0"),
        (0o000, (0, 0), "mode 0000, owner 0:0"),
        (0o4644, (0, 0), "mode 4644, owner 0:0"),
        (0o644, (65534, 0), "mode 0644, owner 65534:0"),
        (0o644, (0, 1000), "mode 0644, owner 0:1000"),
    ],
)
def test_owner_and_mode_of_a_file_of_ours_are_seen(
    path: Path, mode: int, ids: tuple[int, int], told: str
) -> None:
    path.write_text("text")
    path.chmod(mode)
    files = OwnFiles(Owned(uid=ids[0], gid=ids[1]), {str(path): 0o644, f"{path}.none": 0o644})
    steps = files.steps()
    assert [step.params["modes"] for step in steps] == ([{str(path): 0o644}] if told else [])
    assert told in "".join(step.summary for step in steps)


def test_a_mode_is_given_back_to_files_and_folders(path: Path) -> None:
    path.mkdir(mode=0o777)
    path.chmod(0o777)
    own = path / "file"
    own.write_text("text")
    own.chmod(0o600)
    files = OwnFiles(Owned(), {str(own): 0o644}, (str(path), str(path / "none")))
    (step,) = files.steps()
    files.apply(step)
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(own.stat().st_mode)) == (0o755, 0o644)
    assert files.steps() == ()


def test_folders_have_their_mode_whatever_the_mask_is(path: Path) -> None:
    before = os.umask(0o077)
    try:
        HOST.write(str(path / "more/file"), "text", mode=0o644)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path / "more", path / "more/file")]
    assert modes == [0o755, 0o755, 0o644]


def test_a_file_that_was_replaced_keeps_its_attributes(path: Path) -> None:
    path.write_text("old")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no attributes of users")
    HOST.write(str(path), "new")
    assert os.getxattr(path, "user.note") == b"kept"


@pytest.mark.parametrize(
    ("name", "mode", "ids", "is_open"),
    [
        ("lib/a.py", 0o644, (0, 0), False),
        ("lib/a.py", 0o664, (0, 0), False),
        ("lib/a.py", 0o646, (0, 0), True),
        ("lib/a.py", 0o664, (0, 1000), True),
        ("lib/a.py", 0o644, (1000, 0), True),
        ("lib", 0o755, (0, 0), False),
        ("lib", 0o757, (0, 0), True),
        ("lib/__pycache__", 0o777, (0, 0), True),
        ("lib/link", 0o777, (0, 0), False),
    ],
)
def test_what_not_only_root_can_write_to_is_seen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    mode: int,
    ids: tuple[int, int],
    is_open: bool,
) -> None:
    (tmp_path / "lib/__pycache__").mkdir(parents=True)
    (tmp_path / "lib/__pycache__/a.pyc").touch()
    (tmp_path / "lib/a.py").write_text("text")
    (tmp_path / "lib/link").symlink_to("a.py")

    def status(path: str) -> os.stat_result:
        found = list(os.stat(path, follow_symlinks=False))
        here = path == str(tmp_path / name)
        if here:
            found[stat.ST_MODE] = stat.S_IFMT(found[stat.ST_MODE]) | mode
        found[stat.ST_UID], found[stat.ST_GID] = ids if here else (0, 0)
        return os.stat_result(found)

    monkeypatch.setattr(api.os, "lstat", status)
    found = HOST.sizes(str(tmp_path / "lib"))
    files = {str(tmp_path / "lib" / one) for one in ("a.py", "link")}
    opened = {str(tmp_path / name)} if is_open else set()
    assert found.keys() == files | opened
    assert {path for path, one in found.items() if one.is_open} == opened
    assert found[str(tmp_path / "lib/a.py")].size == 4


@pytest.mark.parametrize("folder", ["/etc/systemd/system", "/etc/gpu-node", "/run/cdi"])
def test_a_folder_of_others_that_not_only_root_can_write_to_is_named(folder: str) -> None:
    host = FakeHost({f"{folder}/other": ""})
    modes = {"/etc/systemd/system/a.service": 0o644, "/etc/gpu-node/a": 0o644}
    files = OwnFiles(host, modes, shared=("/run/cdi",))  # type: ignore[arg-type]
    assert files.warnings() == ()
    host.statuses[folder] = Status(stat.S_IFDIR | 0o777, 0)
    (said,) = files.warnings()
    assert said.startswith(f"not only root can write to {folder}, and whoever can is root soon. ")
    assert said.endswith(f"chown root:root {folder} && chmod 0755 {folder}")
    assert files._replace(folders=(folder,)).exposed() == ()  # of ours: a step gives it back


def test_a_record_that_an_earlier_run_has_kept_is_missed() -> None:
    host = FakeHost()
    files = OwnFiles(host, record="/var/lib/gpu-node/mig.json")  # type: ignore[arg-type]
    files.note(was_there=False)
    assert (files.forgotten(), host.files) == ((), {})

    host.files[files.record] = "{}"
    files.note(was_there=False)
    assert files.forgotten() == ()
    del host.files[files.record]
    (said,) = files.forgotten()
    assert said.startswith(f"{files.record} is not there, and {RECORDS} shows that an earlier run ")

    other = files._replace(record="/var/lib/gpu-node/settings.json")
    assert other.forgotten() == ()
    files.note(was_there=False)  # a change meanwhile forgets nothing
    assert files.forgotten() == (said,)


def test_a_record_that_was_removed_is_not_missed() -> None:
    host = FakeHost()
    files = OwnFiles(host, record="/var/lib/gpu-node/mig.json")  # type: ignore[arg-type]
    other = files._replace(record="/var/lib/gpu-node/settings.json")
    for one in (files, other):
        host.files[one.record] = "{}"
        one.note(was_there=False)
    for one in (files, other):
        del host.files[one.record]
        one.note(was_there=True)
        assert one.forgotten() == ()
    assert host.files == {}


def test_a_link_in_the_place_of_a_folder_is_refused_with_the_mount_that_does_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "disk").mkdir()
    (link := tmp_path / "ours").symlink_to(tmp_path / "disk")
    with pytest.raises(NodeError, match="can't be written: it is a link to ") as refused:
        OwnFiles(HOST, {}, (str(link),)).steps()
    assert f"mount --bind {tmp_path}/disk {link}, with a line in /etc/fstab" in refused.value.hint


def test_a_step_that_writes_a_file_which_nobody_can_replace_is_refused() -> None:
    host = FakeHost({"/etc/gpu-node/a": "", "/etc/gpu-node/b": ""})
    host.hindrances["/etc/gpu-node/a"] = Hindrance("it is immutable", "chattr -i /etc/gpu-node/a")
    own = OwnFiles(host, {"/etc/gpu-node/a": 0o644, "/etc/gpu-node/b": 0o644})  # type: ignore[arg-type]
    own.check([Step("write", "write /etc/gpu-node/b")])
    with pytest.raises(NodeError, match="/etc/gpu-node/a can't be written") as refused:
        own.check([Step("write", "write /etc/gpu-node/a")])
    assert refused.value.hint == "chattr -i /etc/gpu-node/a, then run again"


class LaterHost(Host):
    """A machine of whose files all were changed long ago, but for some."""

    def __init__(self, *recent: str) -> None:
        super().__init__()
        self.recent = recent

    def itself(self, path: str) -> Status | None:
        status = super().itself(path)
        return status if status is None or path in self.recent else status._replace(ctime=0.0)


def test_what_a_killed_write_has_left_beside_a_file_of_ours_is_removed(tmp_path: Path) -> None:
    ours = tmp_path / "config.yaml"
    ours.write_text("")
    ours.chmod(0o644)
    (left := tmp_path / ".config.yaml.a1b2c3d4").write_text("half")
    (now := tmp_path / ".config.yaml.zzzzzzzz").write_text("being written")
    (tmp_path / ".config.yaml.link0000").symlink_to(ours)
    for name in (".other.yaml.a1b2c3d4", ".config.yaml.swp", "config.yaml.a1b2c3d4"):
        (tmp_path / name).write_text("somebody's")
    own = OwnFiles(LaterHost(str(now)), {str(ours): 0o644})
    (step,) = own.steps()
    assert (step.action, step.params["paths"]) == ("sweep", (str(left),))
    before = set(os.listdir(tmp_path))
    own.apply(step)
    assert before - set(os.listdir(tmp_path)) == {left.name}
    assert own.steps() == ()
