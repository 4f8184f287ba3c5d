# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Evidence of a GPU's fault, gathered by NVIDIA's genuine nvidia-smi and nvidia-bug-report.sh."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._repair.case import (
    RepairCase,
    RepairCases,
    dump_cases,
)
from ansible_collections.gpu.node.plugins.module_utils._repair.signs import Action, Attempt
from ansible_collections.gpu.node.plugins.modules import gpu_evidence

from tests.machine.library.repair.conftest import NOW, Scene
from tests.support import helper_process
from tests.support.waiting import eventually

XID = "2027-01-15T07:59:00.000001+00:00 n1 kernel: NVRM: Xid (PCI:0000:18:00): 79, pid=7, GPU has fallen off the bus."
SECRET = "2027-01-15T07:59:01.000001+00:00 n1 kernel: Command line: root=/dev/sda1 api_token=s3cret"
JOURNAL = f"cat <<'E'\n{XID}\n{SECRET}\nE"


def missing(answer: dict[str, object]) -> dict[str, str]:
    return {one["part"]: one["reason"] for one in answer["missing"]}  # type: ignore[attr-defined]


def notes(answer: dict[str, object]) -> dict[str, str]:
    return {one["name"]: one["note"] for one in answer["contents"]}  # type: ignore[attr-defined]


def uuid(scene: Scene, gpu: int = 0) -> str:
    found: str = scene.sim.ctl("status")["gpus"][gpu]["uuid"]
    return found


def give_case(scene: Scene, gpu: int = 0, **more: object) -> RepairCase:
    case = RepairCase(
        "1651023000000",
        "0000:18:00.0",
        Action.REPLACE,
        ("row remapping failed, token=s3cret",),
        NOW - 3600,
        attempts=(Attempt(Action.RESET, NOW - 1800, "the GPU did not come back"),),
    )._replace(**more)
    path = scene.tmp / "lib/repair.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(dump_cases(RepairCases(None, {uuid(scene, gpu): case})))
    return case


def test_one_archive_has_what_a_vendor_asks_for_and_is_root_s_alone(scene: Scene) -> None:
    scene.host.install("journalctl", JOURNAL)
    scene.sim.ctl("rows", gpu="0", correctable=3, uncorrectable=2)
    give_case(scene)
    answer = scene.evidence(gpus=["0"], bug_report="safe")
    assert answer["changed"]
    path = Path(answer["path"])
    assert (
        path.name
        == f"20270115T070000Z-{uuid(scene)}.before.{path.name.split('.')[2]}.20270115T080100Z.tar.gz"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(scene.folder.stat().st_mode) == 0o700
    assert hashlib.sha256(path.read_bytes()).hexdigest() == answer["sha256"]
    files = scene.read(answer)
    assert next(iter(files)) == "manifest.json"
    assert set(files) == {"manifest.json", "summary.txt", *notes(answer)}
    assert set(missing(answer)) == {"dcgm-health.json", "dcgm-diag.json"}
    told = json.loads(files["manifest.json"])
    (gpu,) = told["gpus"]
    assert gpu["answers"] is True
    for key, value in {
        "serial": "1651023000000",
        "vbios": "96.00.74.00.01",
        "board_part_number": "695-2G520-0200-000",
        "inforom_image": "G520.0200.00.05",
        "inforom_ecc": "7.16",
        "remapped_rows_uncorrectable": "2",
    }.items():
        assert gpu["facts"][key] == value
        assert value in files["summary.txt"].decode()
    assert gpu["case"]["attempts"][0]["result"] == "the GPU did not come back"
    assert b"Serial Number                         : 1651023000000" in files["nvidia-smi.txt"]
    assert XID in files["kernel.log"].decode()
    report = gzip.decompress(files["nvidia-bug-report-safe.log.gz"]).decode()
    assert "Start of NVIDIA bug report log file" in report
    assert "End of NVIDIA bug report log file" in report


def test_no_credential_is_in_an_archive_or_in_the_answer(scene: Scene) -> None:
    scene.host.install("journalctl", JOURNAL)
    scene.host.install("dcgmi", """echo '{"token": "s3cret", "version": "4.6"}'""")
    scene.host.install("lspci", "echo 'registry: https://me:s3cret@registry.example.com'")
    give_case(scene)
    answer = scene.evidence(bug_report="safe")
    files = scene.read(answer)
    files["report"] = gzip.decompress(files["nvidia-bug-report-safe.log.gz"])
    assert b"registry.example.com" in files["report"]
    assert "dcgm-diag.json" in files
    assert not [name for name, data in files.items() if b"s3cret" in data]
    assert "s3cret" not in json.dumps(answer)


def test_a_second_run_in_the_same_boot_makes_nothing_unless_asked(scene: Scene) -> None:
    would = scene.evidence(check=True)
    assert would["changed"]
    assert not scene.folder.exists()
    first = scene.evidence()
    before = sorted(os.listdir(scene.folder))
    second = scene.evidence()
    assert not second["changed"]
    assert sorted(os.listdir(scene.folder)) == before
    same = ("path", "sha256", "made", "contents", "missing")
    assert [second[key] for key in same] == [first[key] for key in same]
    forced = scene.evidence(force=True)
    assert forced["changed"]
    assert forced["path"] != first["path"]
    assert Path(first["path"]).exists()
    assert scene.evidence()["path"] == forced["path"]
    assert scene.evidence(stage="after")["changed"]


def test_where_the_clock_was_set_back_the_new_archive_is_the_one_that_is_told(scene: Scene) -> None:
    first = scene.evidence()
    scene.at -= 86400
    second = scene.evidence(force=True)
    assert second["made"] < first["made"]
    assert os.path.exists(second["path"])


def test_of_many_archives_the_oldest_go(scene: Scene) -> None:
    paths = [scene.evidence(case=f"c{one}", keep=2)["path"] for one in range(4)]
    assert [os.path.exists(one) for one in paths] == [False, False, True, True]


def test_a_lost_gpu_is_told_and_the_others_are_asked(scene: Scene) -> None:
    scene.sim.ctl("lose", gpu="1")
    answer = scene.evidence()
    assert "nvidia-smi-1.xml" in notes(answer)
    files = scene.read(answer)
    assert b"GPU is lost" in files["nvidia-smi.txt"]
    assert uuid(scene).encode() in files["nvidia-smi-0.xml"]
    told = {one["pci"]: one for one in json.loads(files["manifest.json"])["gpus"]}
    assert [told[at]["answers"] for at in sorted(told)] == [True, False]
    assert told["0000:18:00.0"]["facts"]["serial"] == "1651023000000"


def test_a_vendor_gets_what_was_known_before_the_gpu_died(scene: Scene) -> None:
    before = scene.evidence(gpus=["0"])
    other = scene.evidence(gpus=["1"])
    give_case(scene, serial="")
    scene.sim.ctl("die", gpu="0")
    scene.sim.ctl("reset", gpu="0")
    answer = scene.evidence(gpus=[uuid(scene)], stage="rma")
    files = scene.read(answer)
    names = [os.path.basename(one["path"]) for one in (before, other)]
    assert [f"earlier/{one}" in files for one in names] == [True, False]
    assert files[f"earlier/{names[0]}"] == Path(before["path"]).read_bytes()
    (gpu,) = json.loads(files["manifest.json"])["gpus"]
    assert gpu["answers"] is False
    assert gpu["as_of"] == before["made"]
    assert gpu["facts"]["serial"] == "1651023000000"
    assert gpu["facts"]["vbios"] == "96.00.74.00.01"
    assert gpu["case"]["verdict"] == "replace"


def test_a_bug_report_that_hangs_is_killed_and_what_it_wrote_is_kept(scene: Scene) -> None:
    scene.hang("lspci")
    answer = scene.evidence(bug_report="full", bug_report_timeout=5)
    assert notes(answer)["nvidia-bug-report-safe.log.gz"].startswith(
        "it had not ended after 5 seconds and was killed"
    )
    assert missing(answer)["nvidia-bug-report.log.gz"] == (
        "it is not tried after safe mode: it had not ended after 5 seconds and was killed"
    )
    report = gzip.decompress(scene.read(answer)["nvidia-bug-report-safe.log.gz"]).decode()
    assert "Start of NVIDIA bug report log file" in report
    assert "End of NVIDIA bug report log file" not in report
    eventually(scene.hung_are_gone)


def test_a_bug_report_in_full_is_made_behind_that_in_safe_mode(scene: Scene) -> None:
    answer = scene.evidence(bug_report="full")
    files = scene.read(answer)
    safe, full = (
        gzip.decompress(files[name]).decode()
        for name in ("nvidia-bug-report-safe.log.gz", "nvidia-bug-report.log.gz")
    )
    assert "--safe-mode" in safe
    assert "--extra-system-data" in full
    assert "Attached GPUs" in full


def test_a_driver_that_hangs_is_told_and_the_log_is_kept_all_the_same(scene: Scene) -> None:
    scene.host.install("journalctl", JOURNAL)
    smi = scene.host.programs / "nvidia-smi"
    smi.rename(smi.with_name("genuine"))
    scene.hang("nvidia-smi", f'{smi.with_name("genuine")} "$@"')
    scene.sim.ctl("hang", function="nvmlDeviceGetName")
    answer = scene.evidence()
    late = "it had not ended after 60 seconds and was killed"
    told = {**notes(answer), **missing(answer)}  # what it wrote until then is there
    for name in ("nvidia-smi.txt", "nvidia-smi-0.xml", "nvidia-smi-1.xml"):
        assert told[name] == late
    assert len(scene.pids()) == 2
    assert XID in scene.read(answer)["kernel.log"].decode()
    eventually(scene.hung_are_gone)


def test_without_a_journal_the_kernel_s_own_buffer_is_read(scene: Scene) -> None:
    scene.host.install("journalctl", "echo 'No journal files were found.' >&2; exit 1")
    scene.host.install("dmesg", f"echo '{XID}'")
    assert XID in scene.read(scene.evidence())["kernel.log"].decode()
    scene.host.install(
        "dmesg", "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1"
    )
    answer = scene.evidence(force=True)
    assert missing(answer)["kernel.log"] == (
        "journalctl: it ended with status 1: No journal files were found.; "
        "dmesg: it ended with status 1: dmesg: read kernel buffer failed: Operation not permitted"
    )


def test_a_host_engine_that_is_not_there_is_told(scene: Scene) -> None:
    said = "Error: unable to establish a connection to the specified host: localhost"
    scene.host.install("dcgmi", f"echo '{said}'; exit 255")
    answer = scene.evidence()
    assert missing(answer)["dcgm-diag.json"] == f"it ended with status 255: {said}"
    scene.host.install("dcgmi", "echo '{\"DCGM Diagnostic\": {}}'; exit 205")
    answer = scene.evidence(force=True)
    assert notes(answer)["dcgm-diag.json"].startswith("it ended with status 205")
    assert "dcgm-diag.json" not in missing(scene.evidence(dcgm=False, force=True))


def test_a_damaged_file_of_cases_is_told_and_stops_nothing(scene: Scene) -> None:
    give_case(scene)
    (scene.tmp / "lib/repair.json").write_text("{")
    answer = scene.evidence()
    assert "repair.json is damaged" in missing(answer)["the history of repairs"]
    assert "repair.json is damaged" in scene.warnings[0]


def test_a_run_that_was_killed_leaves_nothing_half_done(scene: Scene) -> None:
    scene.hang("journalctl")
    asked = {
        "path": str(scene.folder),
        "bug_report": "never",
        "_ansible_remote_tmp": str(scene.tmp),
    }
    given = scene.tmp / "given.json"
    given.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": asked}))
    words = [sys.executable, "-m", gpu_evidence.__name__, str(given)]
    python = os.environ["ANSIBLE_COLLECTIONS_PATH"]
    run = helper_process.start(
        words, env={**scene.host.environment(), "PYTHONPATH": python}, ready=helper_process.executed
    )
    eventually(scene.pids)
    run.kill()
    for pid in scene.pids():
        helper_process.kill(int(pid))  # it is nobody's any more
    assert [one for one in os.listdir(scene.folder) if one.startswith(".making-")]
    scene.host.install("journalctl", JOURNAL)
    answer = scene.evidence()
    assert answer["changed"]
    left = [one for one in os.listdir(scene.folder) if one != ".lock"]
    assert left == [os.path.basename(answer["path"])]


def test_a_folder_that_others_may_write_to_is_refused(scene: Scene) -> None:
    scene.folder.mkdir()
    scene.folder.chmod(0o777)
    answer = scene.evidence()
    assert answer["failed"]
    assert answer["msg"].startswith(f"gpu_evidence: path: '{scene.folder}' is not valid: expected")
    scene.folder.rmdir()
    (scene.tmp / "elsewhere").mkdir()
    scene.folder.symlink_to(scene.tmp / "elsewhere")
    assert scene.evidence()["failed"]
    assert os.listdir(scene.tmp / "elsewhere") == []


@pytest.mark.attack("folder-of-a-user-above")
def test_a_folder_that_is_not_there_yet_below_one_of_a_user_is_refused(scene: Scene) -> None:
    theirs = scene.folder.parent / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    answer = scene.evidence(path=str(theirs / "evidence"))
    assert answer["failed"]
    assert f"{theirs} belongs to user 65534" in answer["msg"]
    assert list(theirs.iterdir()) == []


def test_where_there_is_no_room_the_parts_are_told_and_nothing_is_left(scene: Scene) -> None:
    scene.folder.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "small", str(scene.folder)]
    subprocess.run(mount, check=True)
    try:
        for program in ("journalctl", "dmesg"):
            scene.host.install(program, "seq 1 100000")
        answer = scene.evidence()
        assert missing(answer)["kernel.log"].endswith("No space left on device")
        assert "nvidia-smi.txt" in notes(answer)
        with pytest.raises(OSError, match="No space left"):
            (scene.folder / "ballast").write_bytes(b"x" * (1 << 20))
        answer = scene.evidence(force=True)
        assert answer["failed"]
        assert answer["cause"] == "No space left on device"
        left = sorted(one for one in os.listdir(scene.folder) if one.startswith("."))
        assert left == [".lock"]
    finally:
        subprocess.run(["umount", str(scene.folder)], check=True)


@pytest.mark.parametrize("name", ["2", "GPU-x"])
def test_a_gpu_that_is_not_there_is_refused_before_anything_is_made(
    scene: Scene, name: str
) -> None:
    answer = scene.evidence(gpus=[name])
    assert answer["failed"]
    assert uuid(scene) in answer["msg"]
    assert not scene.folder.exists()


def test_record_of_load_tests_is_in_the_archive(scene: Scene) -> None:
    without = scene.evidence(gpus=["0"], force=True)
    assert not {"acceptance.json", "gate.json"} & {*scene.read(without), *missing(without)}
    (scene.tmp / "lib").mkdir(exist_ok=True)
    (scene.tmp / "lib/acceptance.json").write_text('{"gpus": {}}')
    (scene.tmp / "lib/gate.json").mkdir()
    answer = scene.evidence(gpus=["0"], force=True)
    assert scene.read(answer)["acceptance.json"] == b'{"gpus": {}}'
    assert "gate.json" in missing(answer)
