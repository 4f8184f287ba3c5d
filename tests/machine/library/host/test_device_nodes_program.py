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
from ansible_collections.gpu.node.plugins.module_utils._driver.kernel.device_nodes import TEXT

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


class DriverTree:
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
def tree(tmp_path: Path) -> Iterator[DriverTree]:
    yield DriverTree(tmp_path)
    shutil.rmtree(tmp_path / "dev")


def test_all_nodes_are_made_with_the_drivers_numbers(tree: DriverTree) -> None:
    names = {**CONTROL, **GPUS, **CAPS}
    assert tree.run("check").split() == sorted(f"/dev/{one}" for one in names)
    assert tree.nodes() == {}
    tree.run("make")
    assert tree.nodes() == names
    assert (tree.root / "ran").read_text() == "nvidia-uvm\n"
    modes = {one: stat.S_IMODE((tree.root / "dev" / one).stat().st_mode) for one in names}
    caps = dict(zip(CAPS, (0o400, 0o444), strict=True))
    assert modes == {**dict.fromkeys((*CONTROL, *GPUS), 0o666), **caps}
    before = {one: (tree.root / "dev" / one).stat() for one in names}
    assert tree.run("check") == ""
    tree.run("make")
    assert {one: (tree.root / "dev" / one).stat() for one in names} == before
    assert (tree.root / "ran").read_text() == "nvidia-uvm\n"


def test_owner_and_mode_are_those_of_the_drivers_options(tree: DriverTree) -> None:
    tree.params(gid=44, mode=0o660)
    tree.run("make")
    for name in (*CONTROL, *GPUS):
        found = (tree.root / "dev" / name).stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, 44, 0o660), name


def test_nodes_are_left_to_others_where_the_driver_is_told_so(tree: DriverTree) -> None:
    tree.params(modify=0)
    tree.run("make")
    assert tree.nodes() == CAPS  # each of these has an option of its own
    assert tree.run("check") == ""


def test_node_of_a_number_that_is_over_is_replaced(tree: DriverTree) -> None:
    tree.run("make")
    path = tree.root / "dev/nvidia-uvm"
    path.unlink()
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(509, 0))
    assert tree.run("check") == "/dev/nvidia-uvm\n"
    tree.run("make")
    assert tree.nodes() == {**CONTROL, **GPUS, **CAPS}


def test_mode_that_somebody_has_given_a_node_stays(tree: DriverTree) -> None:
    tree.run("make")
    (tree.root / "dev/nvidia0").chmod(0o600)
    tree.run("make")
    assert stat.S_IMODE((tree.root / "dev/nvidia0").stat().st_mode) == 0o600


def test_modeset_has_its_node_where_that_module_is_loaded(tree: DriverTree) -> None:
    tree.put("sys/module/nvidia_modeset/initstate", "live\n")
    tree.run("make")
    assert tree.nodes()["nvidia-modeset"] == (195, 254)


def test_nothing_is_made_where_nvidia_uvm_cannot_be_loaded(tree: DriverTree) -> None:
    tree.put("broken", "")
    assert "FATAL: Module nvidia-uvm not found" in tree.run("make", rc=1)
    assert tree.nodes() == {}


def test_nothing_is_missing_where_no_driver_is_loaded(tree: DriverTree) -> None:
    shutil.rmtree(tree.root / "proc/driver")
    assert tree.run("check") == ""


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


# Patience is over at once, or never in the time of a test; every other nap takes no time.
OVER, NOT_OVER = "#!/bin/sh\n", "#!/bin/sh\n[ $1 != 9 ]\n"


def boot(tree: DriverTree, systemctl: str, patience: str = NOT_OVER, rc: int = 0) -> None:
    programs = {"systemd-notify": STARTED, "systemctl": systemctl, "sleep": patience}
    for name, text in programs.items():
        tree.put(f"bin/{name}", text.format(tree.root))
        (tree.root / "bin" / name).chmod(0o755)
    tree.put("device-nodes", TEXT)
    path = f"{tree.root}/bin:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PATIENCE": "9"}
    words = ["/bin/sh", str(tree.root / "device-nodes"), "boot", str(tree.root)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=env)
    assert done.returncode == rc, done.stderr


def test_boot_tells_once_the_nodes_are_there(tree: DriverTree) -> None:
    boot(tree, NO_JOB)
    assert tree.nodes() == {**CONTROL, **GPUS, **CAPS}
    assert (tree.root / "told").read_text() == "started\n"


def test_boot_waits_for_dkms_that_builds(tree: DriverTree) -> None:
    tree.put("broken", "")
    boot(tree, DKMS)
    assert tree.nodes() == {**CONTROL, **GPUS, **CAPS}


def test_boot_fails_where_nothing_builds_the_module(tree: DriverTree) -> None:
    tree.put("broken", "")
    boot(tree, NO_JOB, rc=1)
    assert tree.nodes() == {}
    assert (tree.root / "told").read_text() == "started\n"  # nobody waits for more


def test_boot_tells_after_a_while_while_the_driver_hangs(tree: DriverTree) -> None:
    """Here modprobe ends only once systemd has been told."""
    hangs = f'#!/bin/sh\nwhile [ ! -e "{tree.root}/told" ]; do :; done\nexit 1\n'
    tree.put("bin/modprobe", hangs)
    boot(tree, NO_JOB, patience=OVER, rc=1)
    assert (tree.root / "told").read_text() == "started\n" * 2


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_program_is_plain_enough_for_every_shell(tree: DriverTree, shell: str) -> None:
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


# As RHEL 8 and Debian 13 print it.
VERSION = '#!/bin/sh\n[ "$1" != --version ] || printf "systemd {}\\n+PAM +AUDIT\\n"\n'
OLD, NEW = "239 (239-82.el8_10.5)", "257 (257.9-1~deb13u1)"


def links(tree: DriverTree) -> dict[str, str]:
    """Return what /dev/char has, each with the node that it leads to."""
    folder = tree.root / "dev/char"
    return {
        path.name: os.path.relpath(path.resolve(), tree.root / "dev") for path in folder.glob("*")
    }


@pytest.mark.parametrize("version", [OLD, NEW])
def test_old_systemd_finds_the_nodes_by_their_numbers(tree: DriverTree, version: str) -> None:
    """Without a link, runc leaves a device out of a scope's DeviceAllow, which a daemon-reload applies again."""
    tree.put("bin/systemctl", VERSION.format(version))
    (tree.root / "bin/systemctl").chmod(0o755)
    tree.run("make")
    nodes = {**CONTROL, **GPUS, **CAPS}
    assert tree.nodes() == nodes
    found = {f"{major}:{minor}": name for name, (major, minor) in nodes.items()}
    assert links(tree) == (found if version == OLD else {})
    assert tree.run("check") == ""


def test_link_that_is_missing_is_made_beside_its_node(tree: DriverTree) -> None:
    """As for a capability of MIG, whose node the driver makes without a link."""
    tree.run("make")
    tree.put("bin/systemctl", VERSION.format(OLD))
    (tree.root / "bin/systemctl").chmod(0o755)
    inode = (tree.root / "dev/nvidia0").stat().st_ino
    assert "/dev/char/195:0" in tree.run("check").split()
    tree.run("make")
    assert links(tree)["195:0"] == "nvidia0"
    assert links(tree)["235:1"] == "nvidia-caps/nvidia-cap1"
    assert (tree.root / "dev/nvidia0").stat().st_ino == inode
    assert tree.run("check") == ""
