# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The driver from a .run file: a stand-in for it is really run, in a folder."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import RECORD
from ansible_collections.gpu.node.plugins.module_utils._driver.machine import sources
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.kernel import SECURE_BOOT
from ansible_collections.gpu.node.plugins.module_utils._driver.machine.sources import COPY, LOG
from ansible_collections.gpu.node.plugins.module_utils._driver.module_options.in_force import (
    MODPROBE_FILE,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.sources.runfile import (
    TRACES,
    UNINSTALLER,
    parse_traces,
)
from ansible_collections.gpu.node.plugins.module_utils._machine.download import bring
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host

from tests.fakes.library.fakes import DRIVER, GPU, LOADED, FakeHost
from tests.fakes.packages.driver_runs import capability, converge
from tests.support.paths import FAKES

STANDIN = FAKES / "packages/standin_runfile.sh"
VERSION, OLDER = "580.95.05", "550.163.01"
REAL = (COPY, LOG, TRACES, UNINSTALLER)


class RunfileNode(FakeHost):
    """A node without a package manager that is known; the installer is really run, below ``root``."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(
            {
                "/etc/os-release": "ID=nixos\n",
                "/proc/sys/kernel/osrelease": "6.12.1\n",
                "/lib/modules/6.12.1/build": "",
                f"{GPU}/vendor": "0x10de\n",
                f"{GPU}/device": "0x2330\n",
                f"{GPU}/class": "0x030200\n",
            }
        )
        self.root, self.local = root, Host()
        self.commands = {
            ("sh",): self._run_below,
            (UNINSTALLER,): self._run_below,
            ("modprobe",): self._modprobe,
            ("systemctl",): "",
            **{(name,): "" for name in ("gcc", "make", "dkms")},
        }
        monkeypatch.setattr(
            sources,
            "bring",
            lambda location, target, digest: bring(location, f"{root}{target}", digest),
        )

    def _run_below(self, words: tuple[str, ...]) -> Completed:
        for path in ("/sys/module/nouveau/x", DRIVER):
            there = self.root / path[1:]
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_text("") if path in self.files else there.unlink(missing_ok=True)
        (self.root / "sys/module/nouveau").rmdir()
        argv = [f"{self.root}{one}" if one in REAL else one for one in words]
        return self.local.run(argv, check=False, env={"STANDIN_ROOT": str(self.root)})

    def read(self, path: str) -> str | None:
        return self.local.read(f"{self.root}{path}") if path in REAL else super().read(path)

    def exists(self, path: str) -> bool:
        return self.local.exists(f"{self.root}{path}") if path in REAL else super().exists(path)

    def remove(self, path: str) -> bool:
        return self.local.remove(f"{self.root}{path}") if path in REAL else super().remove(path)

    def _modprobe(self, _words: tuple[str, ...]) -> Completed:
        version = parse_traces(self.read(TRACES) or "")
        self.files[DRIVER] = LOADED.format(version)
        self.files[f"/lib/firmware/nvidia/{version}/gsp_ga10x.bin"] = ""
        return Completed(0, "", "")

    @property
    def arguments(self) -> list[str]:
        """Return what the installer was last given."""
        return (self.root / "arguments").read_text().split()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunfileNode:
    return RunfileNode(tmp_path / "node", monkeypatch)


def file(folder: Path, version: str = VERSION) -> dict[str, Any]:
    path = folder / f"NVIDIA-Linux-x86_64-{version}.run"
    path.write_text(STANDIN.read_text().replace("@VERSION@", version))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    runfile = {"location": str(path), "sha256": digest.upper()}
    return {"source": "runfile", "version": version, "runfile": runfile}


@pytest.fixture
def wanted(tmp_path: Path, node: RunfileNode) -> dict[str, Any]:
    found = file(tmp_path)
    node.files[found["runfile"]["location"]] = ""
    return found


def test_driver_comes_stays_and_goes(node: RunfileNode, wanted: dict[str, Any]) -> None:
    left = converge(node, **wanted)
    assert (left.steps, left.reboot_required) == ((), ())
    assert node.arguments == [
        "--silent",
        "--no-x-check",
        "--no-opengl-files",
        "--no-check-for-alternate-installs",
        "--kernel-module-type=open",
        "--dkms",
    ]
    one = capability(node, **wanted)
    state = one.observe()
    assert one.result(state, left)["installed_version"] == VERSION
    assert not node.exists(COPY)
    node.ran.clear()
    assert converge(node, **wanted).steps == ()
    assert not [words for words in node.ran if words[0] in ("sh", "modprobe")]
    gone = converge(node, state="absent")
    assert "still loaded" in gone.reboot_required[0]
    assert [node.exists(path) for path in (TRACES, UNINSTALLER)] == [False, False]
    assert RECORD not in node.files


def test_upgrade_under_a_running_driver_unloads_nothing(
    node: RunfileNode, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    older = file(tmp_path, OLDER)
    node.files[older["runfile"]["location"]] = ""
    converge(node, **older)
    assert "--kernel-module-build-directory=kernel-open" in node.arguments
    left = converge(node, **wanted)
    assert "--allow-installation-with-running-driver" in node.arguments
    assert f"version {OLDER} of the driver is loaded" in left.reboot_required[0]
    assert not [words for words in node.ran if words[0] == "rmmod"]


def test_change_of_module_type_installs_again(node: RunfileNode, wanted: dict[str, Any]) -> None:
    converge(node, **wanted)
    converge(node, kernel_modules="proprietary", **wanted)
    assert "--kernel-module-type=proprietary" in node.arguments


def test_nouveau_goes_before_the_installer_is_run(
    node: RunfileNode, wanted: dict[str, Any]
) -> None:
    node.files["/sys/module/nouveau/x"] = ""
    node.files["/lib/modules/6.12.1/kernel/drivers/gpu/drm/nouveau/nouveau.ko"] = ""
    left = converge(node, **wanted)
    assert left.reboot_required == ("the nouveau driver holds the GPUs",)
    assert "blacklist nouveau" in node.files[MODPROBE_FILE]
    assert not (node.root / "arguments").exists()
    del node.files["/sys/module/nouveau/x"]
    assert converge(node, **wanted).reboot_required == ()
    assert node.exists(UNINSTALLER)


def test_failure_ends_with_the_log_and_the_next_run_finishes(
    node: RunfileNode, wanted: dict[str, Any]
) -> None:
    node.root.mkdir()
    (node.root / "broken").touch()
    with pytest.raises(NodeError, match=r"(?s)status 1.*the end of .*Unable to build the kernel"):
        converge(node, **wanted)
    assert not node.exists(COPY)
    (node.root / "broken").unlink()
    assert converge(node, **wanted).steps == ()
    assert "nvidia-smi" in {path.name for path in (node.root / "usr/bin").iterdir()}


def test_file_with_another_checksum_is_not_run(node: RunfileNode, wanted: dict[str, Any]) -> None:
    wanted["runfile"]["sha256"] = "0" * 64
    with pytest.raises(NodeError, match=r"not the file that is meant: its SHA-256 is [0-9a-f]{64}"):
        converge(node, **wanted)
    assert RECORD not in node.files
    assert not node.exists(COPY)


def test_file_comes_through_http(node: RunfileNode, tmp_path: Path, wanted: dict[str, Any]) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    name = Path(wanted["runfile"]["location"]).name
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wanted["runfile"]["location"] = f"http://127.0.0.1:{server.server_port}/{name}"
        assert converge(node, **wanted).steps == ()
        wanted["runfile"]["location"] += "x"
        with pytest.raises(NodeError, match=r"cannot bring http.*404"):
            converge(node, kernel_modules="proprietary", **wanted)
        server.shutdown()


def test_another_version_in_the_file_than_asked_for(
    node: RunfileNode, wanted: dict[str, Any]
) -> None:
    wanted["version"] = "580.82.07"
    with pytest.raises(NodeError, match=rf"brought version {VERSION}, not 580\.82\.07"):
        converge(node, **wanted)


def test_installation_of_somebody_else_is_left_alone(
    node: RunfileNode, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    converge(node, **wanted)
    del node.files[RECORD]
    assert converge(node, **wanted).steps == ()
    older = file(tmp_path, OLDER)
    with pytest.raises(
        NodeError, match=f"version {VERSION} from NVIDIA's installer is on the node"
    ):
        converge(node, **older)
    assert converge(node, state="absent").steps == ()
    assert node.exists(UNINSTALLER)


def test_installation_of_somebody_else_is_replaced_where_it_is_asked_for(
    node: RunfileNode, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    older = file(tmp_path, OLDER)
    node.files[older["runfile"]["location"]] = ""
    converge(node, **older)
    del node.files[RECORD]
    one = capability(node, check_mode=True, adopt=True, **wanted)
    adopt, install = (step.summary for step in one.plan(one.observe()).steps[:2])
    assert f"take over the driver {OLDER} from NVIDIA's installer" in adopt
    assert f"install {VERSION}" in install
    assert converge(node, adopt=True, **wanted).steps == ()
    assert converge(node, state="absent").steps == ()
    assert node.exists(UNINSTALLER)  # there was a driver before


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("/lib/modules/6.12.1/build", r"headers of the running kernel 6\.12\.1"),
        ("make", "the node has no make"),
        ("gcc", "the node has no C compiler"),
    ],
)
def test_what_the_installer_needs_is_told_before(
    node: RunfileNode, wanted: dict[str, Any], gone: str, words: str
) -> None:
    node.files.pop(gone, None)
    node.commands.pop((gone,), None)
    with pytest.raises(NodeError, match=words):
        converge(node, **wanted)
    assert RECORD not in node.files


def test_secure_boot_needs_dkms_and_its_key(node: RunfileNode, wanted: dict[str, Any]) -> None:
    node.files[SECURE_BOOT] = "\x06\0\0\0\x01"
    with pytest.raises(NodeError, match="Secure Boot is on: DKMS has no key"):
        converge(node, **wanted)
    del node.commands["dkms",]
    with pytest.raises(NodeError, match="Secure Boot is on: without DKMS"):
        converge(node, **wanted)


def test_check_mode_runs_nothing(node: RunfileNode, wanted: dict[str, Any]) -> None:
    one = capability(node, check_mode=True, **wanted)
    found = one.plan(one.observe())
    assert found.steps[0].action == "runfile"
    assert found.after["runfile"] == f"{VERSION} open"
    assert not node.root.exists()
