# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Which file a device is from, as podman's own CDI library resolves it: for the node's devices and for ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.cdi import specification as cdi
from gpu_plugin.cdi.files import CdiFile

from tests.support.waiting import LIMIT, eventually

# /etc/cdi and /run/cdi are those of a folder, in a mount namespace of its own.
ASK = """\
set -e
cd "$0"
mkdir -p /etc/cdi /run/cdi rootfs
mount --bind etc/cdi /etc/cdi
mount --bind var/run/cdi /run/cdi
own="--root $PWD/root --runroot $PWD/runroot"
for device; do
    one=$(podman $own create --network none --device "$device" --rootfs "$PWD/rootfs" /bin/true)
    podman $own init "$one" 2>&1 | grep -q "unresolvable CDI devices $device" && from=nobody || from=
    config=$(find root runroot -name config.json)
    [ -n "$from" ] || from=$(grep -ho 'FROM=[a-z]*' $config)
    echo "$device $from"
    podman $own rm --force "$one" > /dev/null 2>&1
done
"""
FILES = {
    "etc/cdi/a.json": ("a", "0", "1", "4"),
    "etc/cdi/b.json": ("b", "1", "2"),
    "etc/cdi/d.json": ("d", "5"),
    "var/run/cdi/c.json": ("c", "1", "3"),
    "var/run/cdi/e.json": ("e", "5", "4"),
}
FROM = {"0": "FROM=a", "1": "nobody", "2": "FROM=b", "3": "FROM=c", "4": "FROM=e", "5": "FROM=e"}


def resolved(folder: Path, kind: str) -> dict[str, str]:
    """Return by name where podman takes a device from."""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ASK, str(folder)]
    words += [f"{kind}={name}" for name in FROM]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    done = subprocess.run(
        words, env=env, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=folder
    )
    if done.returncode:
        pytest.skip(f"podman can't be asked here: {done.stderr[-300:]}")
    pairs = [line.split(" ") for line in done.stdout.splitlines()]
    return {name.partition("=")[2]: source for name, source in pairs}


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path that podman does not find too long."""
    folder = Path(tempfile.mkdtemp(prefix="p-"))
    yield folder
    # podman cleans up in a process of its own
    eventually(lambda: (shutil.rmtree(folder, ignore_errors=True), not folder.exists())[-1])


def test_devices_are_taken_from_where_podman_takes_them(short: Path) -> None:
    if shutil.which("podman") is None or os.geteuid() != 0:
        pytest.skip("no podman, or not root")
    for path, (source, *names) in FILES.items():
        edits = {"env": [f"FROM={source}"]}
        devices = [{"name": one, "containerEdits": {"env": [f"D{one}=1"]}} for one in names]
        spec = {"cdiVersion": "0.5.0", "kind": cdi.SOURCE_KIND, "devices": devices}
        file = short / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({**spec, "containerEdits": edits}))
    kept = CdiFile(short)
    kept.refresh()
    assert kept.names == {name for name, source in FROM.items() if source != "nobody"}
    assert resolved(short, cdi.SOURCE_KIND) == FROM
    assert resolved(short, cdi.KIND) == FROM
