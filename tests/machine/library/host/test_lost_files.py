# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Genuine dpkg and rpm name the package of a file that is gone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cdi.machine.specify import lost_files
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host

LIBRARY, FIRMWARE = "/usr/lib64/libcuda.so.1", "/usr/lib/firmware/gsp.bin"
SPEC = """\
Name: nvidia-driver-cuda-libs
Version: 1
Release: 1
Summary: test
License: none
BuildArch: noarch
%description
test
%install
mkdir -p %{buildroot}/usr/lib64 %{buildroot}/lib/firmware
touch %{buildroot}/usr/lib64/libcuda.so.1 %{buildroot}/lib/firmware/gsp.bin
%files
/usr/lib64/libcuda.so.1
/lib/firmware/gsp.bin
"""


class Without(Host):
    """A machine on which files are gone, with the package managers that are named."""

    def __init__(self, managers: Sequence[str], gone: Sequence[str], root: str = "") -> None:
        super().__init__()
        self.managers, self.gone, self.root = managers, gone, root

    def exists(self, path: str) -> bool:
        return path not in self.gone

    def which(self, name: str) -> str | None:
        known = name in self.managers or name in ("rpm", "dpkg-query")
        return shutil.which(name) or name if known else None

    def run(self, argv: Sequence[str], **how: Any) -> Completed:
        rooted = [argv[0], "--root", self.root] if self.root else [argv[0]]
        return super().run([*rooted, *argv[1:]], **how)


def specification(*paths: str) -> str:
    mounts = [{"hostPath": path, "containerPath": path} for path in paths]
    return json.dumps({"devices": [], "containerEdits": {"mounts": mounts}})


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="needs dpkg")
def test_dpkg_names_the_package() -> None:
    ours, nobodys = "/usr/bin/dpkg-query", "/usr/lib/libcuda.so.1.of-nobody"
    host = Without(["apt-get", "dnf"], [ours, nobodys])
    refused = lost_files(host, specification(ours, nobodys), specification())
    assert refused is not None
    assert str(refused).startswith(f"files of installed packages are gone: {ours} (dpkg): ")
    assert refused.hint == "apt-get install --reinstall dpkg, then run again"
    assert lost_files(host, specification(nobodys), specification()) is None


@pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("rpm") and shutil.which("rpmbuild")),
    reason="needs root and rpm",
)
def test_rpm_names_the_package_by_either_path_of_merged_folders(tmp_path: Path) -> None:
    (tmp_path / "libs.spec").write_text(SPEC)
    root = str(tmp_path / "root")
    build = ["rpmbuild", "-bb", f"--define=_topdir {tmp_path}", "--define=__os_install_post %{nil}"]
    built = tmp_path / "RPMS/noarch/nvidia-driver-cuda-libs-1-1.noarch.rpm"
    for argv in (
        [*build, str(tmp_path / "libs.spec")],
        ["rpm", "--root", root, "--initdb"],
        ["rpm", "--root", root, "-i", str(built)],
    ):
        subprocess.run(argv, check=True, capture_output=True)
    shutil.rmtree(f"{root}/usr/lib64")
    host = Without(["dnf"], [LIBRARY, FIRMWARE], root)
    refused = lost_files(host, specification(LIBRARY, FIRMWARE), specification())
    assert refused is not None
    named = f"{FIRMWARE} (nvidia-driver-cuda-libs), {LIBRARY} (nvidia-driver-cuda-libs)"
    assert str(refused).startswith(f"files of installed packages are gone: {named}: ")
    assert refused.hint == "dnf reinstall nvidia-driver-cuda-libs, then run again"


class Diverting(Without):
    """A machine whose dpkg-query answers that a library was diverted."""

    def __init__(self, by: str) -> None:
        super().__init__(["apt-get"], [LIBRARY])
        self.told = f"{by} from: {LIBRARY}\n{by} to: {LIBRARY}.distrib\nlibcuda1: {LIBRARY}\n"

    def run(self, argv: Sequence[str], **how: Any) -> Completed:
        return Completed(0, self.told if "-S" in argv else "ii  libcuda1\n", "")


@pytest.mark.parametrize(
    ("by", "next_step"),
    [
        (
            "local diversion",
            f"dpkg-divert has moved it: dpkg-divert --rename --remove {LIBRARY}, then run again",
        ),
        ("diversion by glx", "apt-get install --reinstall libcuda1, then run again"),
    ],
)
def test_a_file_that_somebody_diverted_is_given_back_by_dpkg_divert(
    by: str, next_step: str
) -> None:
    refusal = lost_files(Diverting(by), specification(LIBRARY), specification(FIRMWARE))
    assert refusal is not None
    assert refusal.message == f"files of installed packages are gone: {LIBRARY} (libcuda1)"
    assert refusal.hint == next_step
