# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The program that makes device nodes, run by the machine's own shell on a /proc and a /dev in a folder."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._core.device_nodes import TEXT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
DEVICES = "Character devices:\n  1 mem\n195 nvidia\n235 nvidia-caps\n{}\nBlock devices:\n  8 sd\n"
UVM = "511 nvidia-uvm\n"
PARAMS = """\
ResmanDebugLevel: 4294967295
ModifyDeviceFiles: {}
DeviceFileUID: {}
DeviceFileGID: {}
DeviceFileMode: {}
"""
CAPABILITY = "DeviceFileMinor: {}\nDeviceFileMode: {}\nDeviceFileModify: 1\n"
MODPROBE = """#!/bin/sh
echo "$*" >>"{0}/ran"
[ -e "{0}/broken" ] && echo "modprobe: FATAL: Module $1 not found" >&2 && exit 1
sed -i 's/^Block/{1}\\nBlock/' "{0}/proc/devices"
"""
CONTROL = {"nvidiactl": (195, 255), "nvidia-uvm": (511, 0), "nvidia-uvm-tools": (511, 1)}
GPUS = {"nvidia0": (195, 0), "nvidia1": (195, 1)}
CAPS = {"nvidia-caps/nvidia-cap1": (235, 1), "nvidia-caps/nvidia-cap2": (235, 2)}


class Machine:
    """A folder with what the driver shows of two GPUs, and a modprobe that loads nvidia-uvm."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("proc/devices", DEVICES.format(""))
        self.params()
        self.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX\n")
        for number in (0, 1):
            text = f"Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-1\nDevice Minor: \t {number}\n"
            self.put(f"proc/driver/nvidia/gpus/0000:1{number}:00.0/information", text)
        for number, (name, mode) in enumerate((("config", 256), ("monitor", 292)), 1):
            text = CAPABILITY.format(number, mode)
            self.put(f"proc/driver/nvidia/capabilities/mig/{name}", text)
        self.put("bin/modprobe", MODPROBE.format(root, UVM.strip()))
        (root / "bin/modprobe").chmod(0o755)
        (root / "dev").mkdir()

    def put(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def params(self, modify: int = 1, uid: int = 0, gid: int = 0, mode: int = 0o666) -> None:
        self.put("proc/driver/nvidia/params", PARAMS.format(modify, uid, gid, mode))

    def run(self, verb: str, rc: int = 0) -> str:
        """Run the program and return what it prints."""
        env = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        words = ["/bin/sh", "-c", TEXT, "device-nodes", verb, str(self.root)]
        done = subprocess.run(words, check=False, capture_output=True, text=True, env=env)
        assert done.returncode == rc, done.stderr
        return done.stdout if rc == 0 else done.stderr

    def nodes(self) -> dict[str, tuple[int, int]]:
        """Return major and minor of each device node."""
        found = {}
        for path in (self.root / "dev").rglob("nvidia*"):
            if path.is_char_device():
                number = path.stat().st_rdev
                found[str(path.relative_to(self.root / "dev"))] = os.major(number), os.minor(number)
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    yield Machine(tmp_path)
    shutil.rmtree(tmp_path / "dev")


def test_all_nodes_are_made_with_the_drivers_numbers(machine: Machine) -> None:
    names = {**CONTROL, **GPUS, **CAPS}
    assert machine.run("check").split() == sorted(f"/dev/{one}" for one in names)
    assert machine.nodes() == {}
    machine.run("make")
    assert machine.nodes() == names
    assert (machine.root / "ran").read_text() == "nvidia-uvm\n"
    modes = {one: stat.S_IMODE((machine.root / "dev" / one).stat().st_mode) for one in names}
    caps = dict(zip(CAPS, (0o400, 0o444), strict=True))
    assert modes == {**dict.fromkeys((*CONTROL, *GPUS), 0o666), **caps}
    before = {one: (machine.root / "dev" / one).stat() for one in names}
    assert machine.run("check") == ""
    machine.run("make")
    assert {one: (machine.root / "dev" / one).stat() for one in names} == before
    assert (machine.root / "ran").read_text() == "nvidia-uvm\n"


def test_owner_and_mode_are_those_of_the_drivers_options(machine: Machine) -> None:
    machine.params(gid=44, mode=0o660)
    machine.run("make")
    for name in (*CONTROL, *GPUS):
        found = (machine.root / "dev" / name).stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, 44, 0o660), name


def test_nodes_are_left_to_others_where_the_driver_is_told_so(machine: Machine) -> None:
    machine.params(modify=0)
    machine.run("make")
    assert machine.nodes() == CAPS  # each of these has an option of its own
    assert machine.run("check") == ""


def test_node_of_a_number_that_is_over_is_replaced(machine: Machine) -> None:
    machine.run("make")
    path = machine.root / "dev/nvidia-uvm"
    path.unlink()
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(509, 0))
    assert machine.run("check") == "/dev/nvidia-uvm\n"
    machine.run("make")
    assert machine.nodes() == {**CONTROL, **GPUS, **CAPS}


def test_mode_that_somebody_has_given_a_node_stays(machine: Machine) -> None:
    machine.run("make")
    (machine.root / "dev/nvidia0").chmod(0o600)
    machine.run("make")
    assert stat.S_IMODE((machine.root / "dev/nvidia0").stat().st_mode) == 0o600


def test_modeset_has_its_node_where_that_module_is_loaded(machine: Machine) -> None:
    machine.put("sys/module/nvidia_modeset/initstate", "live\n")
    machine.run("make")
    assert machine.nodes()["nvidia-modeset"] == (195, 254)


def test_nothing_is_made_where_nvidia_uvm_cannot_be_loaded(machine: Machine) -> None:
    machine.put("broken", "")
    assert "FATAL: Module nvidia-uvm not found" in machine.run("make", rc=1)
    assert machine.nodes() == {}


def test_nothing_is_missing_where_no_driver_is_loaded(machine: Machine) -> None:
    shutil.rmtree(machine.root / "proc/driver")
    assert machine.run("check") == ""


STARTED = """#!/bin/sh
echo started >>"{0}/told"
"""
# DKMS builds until it has been asked for twice, and the module is there then.
DKMS = """#!/bin/sh
echo "$*" >>"{0}/asked"
[ "$(wc -l <"{0}/asked")" -ge 2 ] && rm -f "{0}/broken"
echo 42
"""
NO_JOB = "#!/bin/sh\necho 0\n"


def boot(machine: Machine, systemctl: str, patience: float, rc: int = 0) -> None:
    programs = {"systemd-notify": STARTED, "systemctl": systemctl, "sleep": "#!/bin/sh\n"}
    if patience:
        programs["sleep"] = f"#!/bin/sh\n[ $1 = 9 ] || exit 0\nexec {shutil.which('sleep')} 9\n"
    for name, text in programs.items():
        machine.put(f"bin/{name}", text.format(machine.root))
        (machine.root / "bin" / name).chmod(0o755)
    machine.put("device-nodes", TEXT)
    path = f"{machine.root}/bin:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PATIENCE": "9"}
    words = ["/bin/sh", str(machine.root / "device-nodes"), "boot", str(machine.root)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=env)
    assert done.returncode == rc, done.stderr


def test_boot_tells_once_the_nodes_are_there(machine: Machine) -> None:
    boot(machine, NO_JOB, patience=9)
    assert machine.nodes() == {**CONTROL, **GPUS, **CAPS}
    assert (machine.root / "told").read_text() == "started\n"


def test_boot_waits_for_dkms_that_builds(machine: Machine) -> None:
    machine.put("broken", "")
    boot(machine, DKMS, patience=9)
    assert machine.nodes() == {**CONTROL, **GPUS, **CAPS}


def test_boot_fails_where_nothing_builds_the_module(machine: Machine) -> None:
    machine.put("broken", "")
    boot(machine, NO_JOB, patience=9, rc=1)
    assert machine.nodes() == {}
    assert (machine.root / "told").read_text() == "started\n"  # nobody waits for more


def test_boot_tells_after_a_while_while_the_driver_hangs(machine: Machine) -> None:
    """modprobe ends only once systemd has been told."""
    hangs = f'#!/bin/sh\nwhile [ ! -e "{machine.root}/told" ]; do :; done\nexit 1\n'
    machine.put("bin/modprobe", hangs)
    boot(machine, NO_JOB, patience=0, rc=1)
    assert (machine.root / "told").read_text() == "started\n" * 2


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_program_is_plain_enough_for_every_shell(machine: Machine, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    words = [shell, *(["sh"] if shell == "busybox" else []), "-n", "-c", TEXT]
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_program_passes_shellcheck(tmp_path: Path) -> None:
    path = tmp_path / "device-nodes"
    path.write_text(TEXT)
    done = subprocess.run(["shellcheck", str(path)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
