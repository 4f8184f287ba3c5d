# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The labels of a node whose driver is simulated, through a file and through a stand-in API."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes.daemon.running import GPU
from tests.fakes.kubernetes.standin_api import DROP
from tests.support.waiting import LIMIT, eventually, unchanged

if TYPE_CHECKING:
    from tests.fakes.daemon.labelling import Labeller, Start

COUNT, PRODUCT = "nvidia.com/gpu.count", "nvidia.com/gpu.product"
OURS, REFUSED = "gpu.node/labels", "gpu.node/device-plugin.config-refused"
CHOICE = "nvidia.com/device-plugin.config"
FAST = "flags: {gfd: {sleepInterval: 1s, noTimestamp: true}}\n"


def test_a_file_for_node_feature_discovery(labeller: Start) -> None:
    one = labeller(2)
    (one.node.sim.root / "machine").write_text("DGX H100\n")
    more = ("--label-output", "file", "--machine-type-file", "/machine")
    one.start("flags: {gfd: {sleepInterval: 1s}}\n", *more)
    eventually(one.file)
    found = one.file()
    assert (found[COUNT], found[PRODUCT]) == ("2", "NVIDIA-H100-80GB-HBM3")
    assert (found["nvidia.com/gpu.machine"], found["nvidia.com/gpu.mode"]) == (
        "DGX-H100",
        "compute",
    )
    written = one.output.stat()
    at = int(found["nvidia.com/gfd.timestamp"])
    assert int(one.node.config.stat().st_mtime) <= at <= written.st_mtime
    assert written.st_mode & 0o777 == 0o644
    # What is as it should be is not written again.
    unchanged(lambda: one.output.stat().st_ino, written.st_ino, one.looks, 2)
    one.output.unlink()
    eventually(one.file)
    assert one.end() == 0
    assert not one.output.exists()
    assert not one.api.requests


def test_once_leaves_the_file_and_tells_what_failed(labeller: Start) -> None:
    one = labeller(1)
    done = one.once("flags: {useNodeFeatureAPI: false, gfd: {oneshot: true, noTimestamp: true}}")
    assert done.returncode == 0, done.stderr
    assert one.file()[COUNT] == "1"
    assert "nvidia.com/gfd.timestamp" not in one.file()
    shown = one.once("", "--once", "--label-output", "file", "--output-file", "")
    assert f"{COUNT}=1" in shown.stdout.splitlines()
    one.node.sim.ctl("unload")
    done = one.once("", "--once", "--label-output", "file")
    assert done.returncode == 1
    assert "the NVIDIA driver is not loaded" in done.stderr


def test_a_driver_that_hangs_keeps_the_labels_and_holds_up_nothing(labeller: Start) -> None:
    one = labeller(2)
    one.start(FAST, "--label-output", "file", "--patience", "1")
    eventually(one.file)
    for _time in range(2):
        one.node.sim.ctl("clear-faults")
        eventually(lambda: one.state()["problem"] is None)
        one.node.sim.ctl("hang", function="nvmlDeviceGetMemoryInfo")
        eventually(lambda: "timed out" in (one.state()["problem"] or ""))
        assert one.file()[COUNT] == "2"
    assert one.end() == 0


def test_a_file_that_is_written_once_for_all_stays(labeller: Start) -> None:
    one = labeller(1)
    one.start("flags: {gfd: {sleepInterval: infinite}}", "--label-output", "file")
    eventually(one.file)
    assert one.end() == 0
    assert one.file()[COUNT] == "1"


def test_the_status_shows_what_was_labelled(labeller: Start) -> None:
    one = labeller(2)
    words = ("status", "--status-file", one.node.status_file, "--labels-status-file", one.status)

    def told() -> Any:
        return json.loads(one.node.cli(*words, "--json").stdout)["labels"]

    assert told() is None
    one.start(FAST, "--label-output", "file")
    eventually(lambda: one.state()["state"] == "labelled")
    assert (told()["output"], told()["problem"]) == ("file", None)
    assert told()["labels"] == one.file()
    one.node.start_daemon(FAST)
    eventually(lambda: one.node.status()["state"] == "serving")
    lines = one.node.cli(*words).stdout.splitlines()
    assert "labels: labelled (file)" in lines
    shown = lines[lines.index("LABELS") + 1 :]
    assert shown == sorted(f"{key}={text}" for key, text in one.file().items())

    one.node.sim.ctl("unload")
    eventually(lambda: told()["state"] == "failing")
    assert told()["labels"] == one.file()
    lines = one.node.cli(*words).stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("labels: "))
    assert line.startswith("labels: failing (file), ")
    assert line.endswith("the NVIDIA driver is not loaded")
    one.end()
    assert told() is None
    assert "LABELS" not in one.node.cli(*words).stdout


@pytest.mark.long
def test_the_nodes_labels_follow_the_gpus(labeller: Start) -> None:
    one = labeller(1)
    one.api.set(example_com__theirs="stays")
    one.start("flags: {migStrategy: mixed, gfd: {sleepInterval: 1s, noTimestamp: true}}")
    before = one.wait(gpu_count="1", mig_strategy="mixed")
    assert before["example.com/theirs"] == "stays"
    assert set(one.api.own("annotations")[OURS].split(",")) == set(before) - {"example.com/theirs"}
    one.node.layout(0, "1g.10gb", "1g.10gb")
    found = one.wait(**{"mig-1g_10gb_count": "2", "gpu_replicas": "0"})
    assert found["nvidia.com/mig-1g.10gb.multiprocessors"] == "16"
    assert found["nvidia.com/mig-1g.10gb.slices.gi"] == "1"
    one.node.layout(0)
    eventually(lambda: one.api.own() == before)  # the instances go first, and then the mode
    patches = one.api.counted("PATCH")
    unchanged(lambda: one.api.counted("PATCH"), patches, one.looks, 2)  # no change is no request
    one.api.set(nvidia_com__gpu_count="7", nvidia_com__gpu_family=None)
    one.wait(gpu_count="1", gpu_family="hopper")
    assert one.state()["state"] == "labelled"
    assert one.end() == 0
    assert one.api.own()[COUNT] == "1"  # the GPUs are still there


@pytest.mark.long
def test_a_configuration_changes_labels_while_it_runs(labeller: Start) -> None:
    one = labeller(1)
    one.start(FAST)
    one.wait(gpu_replicas="1")
    sharing = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
    one.node.config.write_text(FAST + sharing)
    one.wait(
        gpu_replicas="4",
        gpu_product="NVIDIA-H100-80GB-HBM3-SHARED",
        **{"gpu_sharing-strategy": "time-slicing"},
    )
    one.node.config.write_text("flags: [")
    eventually(lambda: "not valid YAML" in (one.state()["problem"] or ""))
    assert one.api.own()["nvidia.com/gpu.replicas"] == "4"
    one.node.config.write_text(FAST)
    one.wait(gpu_replicas="1", gpu_product="NVIDIA-H100-80GB-HBM3")


def test_another_output_needs_a_new_process_of_which_systemd_sees_no_end(labeller: Start) -> None:
    """What has said that it ends is killed a while later, also where another program has taken its place."""
    one = labeller(1)
    one.start(FAST)
    one.wait(gpu_count="1")
    one.node.config.write_text(FAST.replace("flags: {", "flags: {useNodeFeatureAPI: false, "))
    eventually(one.file)
    assert "restarting" in one.node.logged()
    assert "STOPPING=1" not in one.node.notifications()
    assert one.end() == 0
    eventually(lambda: "STOPPING=1" in one.node.notifications())


@pytest.mark.long
def test_a_driver_and_an_api_that_come_late_go_and_come_back(labeller: Start) -> None:
    one = labeller(1, driver=None)
    one.api.stop()
    one.start(FAST)
    eventually(lambda: "READY=1" in one.node.notifications())
    eventually(lambda: one.state()["state"] == "waiting")
    one.node.sim.ctl("load", version="550.163.01", flavour="open")
    one.api.start()
    one.wait(gpu_count="1")
    eventually(lambda: one.state()["problem"] is None)
    one.node.sim.ctl("unload")  # it is not held
    eventually(lambda: "driver is not loaded" in (one.state()["problem"] or ""))
    assert one.api.own()[COUNT] == "1"
    one.node.sim.ctl("load", version="550.163.01", flavour="open")
    eventually(lambda: one.state()["problem"] is None)
    one.api.faults.extend([("PATCH", 500), ("PATCH", DROP), ("PATCH", 409)])
    one.api.set(nvidia_com__gpu_count="7")
    one.wait(gpu_count="1")
    assert not one.api.faults
    assert one.node.logged().count("driver: trying again") == 2  # one line a change
    assert "WATCHDOG=1" in one.node.notifications()


def test_a_fabric_and_a_virtual_gpu(labeller: Start) -> None:
    one = labeller(2)
    cluster = "5c9bd44e-0e2f-4a4b-9a5d-0c8d4f6b7a10"
    for gpu in ("0", "1"):
        one.node.sim.ctl("fabric", gpu=gpu, cluster=cluster, clique=3)
    bus = one.node.sim.root / "sys/bus/pci/devices"
    for place in bus.iterdir():
        (place / "config").write_bytes(bytes(256))
    done = one.once("", "--once", "--no-timestamp")
    assert done.returncode == 0, done.stderr
    found = one.api.own()
    assert found["nvidia.com/gpu.clique"] == f"{cluster}.3"
    assert found["nvidia.com/vgpu.present"] == "false"


@pytest.mark.long
def test_labels_of_the_users_own_and_back(labeller: Start) -> None:
    one = labeller(1)
    one.api.set(example_com__theirs="stays")
    handler = "gpu.node/runtime-handler=nvidia"
    assert one.once("", "--once", "--extra", handler).returncode == 0
    assert one.api.own()["gpu.node/runtime-handler"] == "nvidia"
    assert one.once("", "--once").returncode == 0
    assert "gpu.node/runtime-handler" not in one.api.own()
    assert one.once("", "--remove").returncode == 0
    assert one.api.own() == {"example.com/theirs": "stays"}
    assert one.api.own("annotations") == {}
    assert one.once("", "--once", "--extra", "x.k8s.io/a=1").returncode == 1


@pytest.mark.long
def test_a_node_feature_object_that_goes_comes_again(labeller: Start) -> None:
    one = labeller(1)
    one.api.user = one.api.admin  # as an account with the rights of our manifest
    config, where = (
        f"{FAST.replace('flags: {', 'flags: {useNodeFeatureAPI: true, ')}",
        "--namespace=gpus",
    )
    one.start(config, where)
    (made,) = eventually(lambda: list(one.api.features.values()))
    assert made["spec"]["labels"][COUNT] == "1"
    assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    for path in one.api.features:
        del one.api.objects[path]
    eventually(lambda: one.api.features)
    assert one.api.own() == {}
    assert one.end() == 0
    assert one.once(config, "--remove", where).returncode == 0
    assert not one.api.features


@pytest.fixture
def choosing(labeller: Start) -> Labeller:
    """A node with the configurations default, many and bad."""
    one = labeller(1)
    folder = one.node.folder / "configs"
    folder.mkdir()
    (folder / "default").write_text(FAST)
    (folder / "many").write_text(
        f"{FAST}sharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: 5}}]}}}}\n"
    )
    (folder / "bad").write_text("flagz: {}\n")
    return one


def linked(one: Labeller) -> str:
    return one.node.config.resolve().name


def choose(one: Labeller, name: str | None) -> None:
    one.api.merge({"metadata": {"labels": {CHOICE: name}}})


def begin(one: Labeller, *more: object) -> None:
    folder = one.node.folder / "configs"
    words = one.words("--config-file-srcdir", folder, *more)
    one.node.config.symlink_to(folder / "default")
    one.process = one.node.python("-m", "gpu_plugin", *words)


def test_a_label_chooses_the_plugins_configuration(choosing: Labeller) -> None:
    one = choosing
    begin(one)
    one.wait(gpu_replicas="1")
    choose(one, "many")
    one.wait(gpu_replicas="5")
    assert linked(one) == "many"
    choose(one, None)
    one.wait(gpu_replicas="1")
    assert linked(one) == "default"


@pytest.mark.parametrize(
    ("name", "words"),
    [("bad", "unknown key flagz"), ("none-such", "no configuration 'none-such'")],
)
def test_a_choice_that_is_no_use_changes_nothing(choosing: Labeller, name: str, words: str) -> None:
    one = choosing
    begin(one)
    choose(one, "many")
    one.wait(gpu_replicas="5")
    choose(one, name)
    eventually(lambda: words in one.api.own("annotations").get(REFUSED, ""))
    assert linked(one) == "many"
    (one.node.folder / "configs" / name).write_text(FAST)
    eventually(lambda: REFUSED not in one.api.own("annotations"))
    assert linked(one) == name
    one.wait(gpu_replicas="1")


def test_the_plugin_follows_the_choice(choosing: Labeller) -> None:
    one = choosing
    begin(one)
    one.node.start_kubelet()
    one.node.run_daemon("-m", "gpu_plugin")
    one.node.wait(GPU, 1)
    choose(one, "many")
    one.node.wait(GPU, 5)


def test_labels_off_and_nothing_to_choose_is_an_error(labeller: Start) -> None:
    done = labeller(1).once("", "--label-output", "off")
    assert done.returncode == 1
    assert "there is nothing to do" in done.stderr


def test_sighup_looks_at_once(labeller: Start) -> None:
    one = labeller(1)
    one.start("flags: {migStrategy: mixed, gfd: {sleepInterval: 1h, noTimestamp: true}}")
    one.wait(gpu_count="1")
    one.node.layout(0, "1g.10gb")
    assert one.process is not None
    one.process.send_signal(signal.SIGHUP)
    one.wait(**{"mig-1g_10gb_count": "1"})


def test_the_environment_says_the_same_as_the_flags(labeller: Start, tmp_path: Path) -> None:
    one = labeller(1)
    names = {
        "GPU_LABELS_OUTPUT": "file",
        "GFD_OUTPUT_FILE": str(tmp_path / "out"),
        "GFD_ONESHOT": "1",
    }
    names |= {"GPU_LABELS_EXTRA": "a/b=c", "GFD_MIG_STRATEGY": "single", "NODE_NAME": "x"}
    names |= {"GPU_PLUGIN_HOST_ROOT": str(one.node.sim.root), "CONFIG_FILE": str(one.node.config)}
    one.node.config.write_text("flags: {migStrategy: mixed}")
    status = ("--status-file", one.status)
    process = one.node.python("-m", "gpu_plugin", "labels", *status, **names)
    assert process.wait(LIMIT) == 0, one.node.logged()
    lines = (tmp_path / "out").read_text().splitlines()
    assert {"a/b=c", "nvidia.com/mig.strategy=single"} <= set(lines)
