# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The mounts of HAMi-core, made as a container runtime makes them: the genuine loader takes the library in.

The library here only says that it was loaded: what HAMi-core itself does is its own affair.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from gpu_plugin.dra.enforcement.hami_core import HamiCore
from gpu_plugin.dra.values import Edits, Share

from tests.fakes.mps.mps_running import ROOTS_ALONE
from tests.support.folder import elsewhere

GPU = "GPU-00000000-0000-0000-0000-000000000000"
LIBRARY = """
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) {
  const char *limit = getenv("CUDA_DEVICE_MEMORY_LIMIT_0");
  const char *cache = getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
  int made = cache && open(cache, O_RDWR | O_CREAT, 0666) >= 0;
  int locked = open("/tmp/vgpulock/lock", O_RDWR | O_CREAT, 0666) >= 0;
  fprintf(stderr, "loaded: %s %d %d\\n", limit ? limit : "no limit", made, locked);
}
"""
PROGRAM = "int main(void) { return 0; }"
# What is below is the container's: nothing of this reaches the machine.
CONTAINER = """
set -e
mkdir "$1/etc"; cp /etc/ld.so.cache "$1/etc"; mount --bind "$1/etc" /etc
mount -t tmpfs tmp /tmp; mount -t tmpfs local /usr/local
while read -r kind options outside inside; do
  mkdir -p "$(dirname "$inside")"
  if [ "$kind" = tmpfs ]; then mkdir -p "$inside"; mount -t tmpfs -o "$options" tmpfs "$inside"; continue; fi
  if [ -d "$outside" ]; then mkdir -p "$inside"; else touch "$inside"; fi
  mount --bind "$outside" "$inside"
done
shift
exec "$@"
"""


@pytest.fixture
def place() -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("gcc") is None:
        pytest.skip("it takes root and a compiler")
    found = elsewhere(ROOTS_ALONE, "h-")
    found.chmod(0o755)
    build(LIBRARY, found / "libvgpu.so", "-shared", "-fPIC")
    build(PROGRAM, found / "dynamic")
    build(PROGRAM, found / "static", "-static")
    yield found
    shutil.rmtree(found)


def build(source: str, to: Path, *flags: str) -> None:
    command = ["gcc", "-x", "c", *flags, "-o", str(to), "-"]
    subprocess.run(command, input=source, text=True, check=True)
    to.chmod(0o755)


def prepared(place: Path) -> Edits:
    hami = HamiCore(str(place / "libvgpu.so"), place / "run", scaled=False)
    return hami.prepare([Share("c1", GPU, 0, 3000 << 20, 30)])


def run(place: Path, edits: Edits, *command: str, **env: str) -> str:
    """Run a program with the mounts and variables of a claim; return what it says on its error output."""
    mounts = ((one.type or "bind", ",".join(one.options), one) for one in edits.mounts)
    lines = "".join(f"{kind} {how} {m.host_path} {m.container_path}\n" for kind, how, m in mounts)
    box = Path(tempfile.mkdtemp(prefix="box-", dir=place))
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", CONTAINER, "sh", box]
    done = subprocess.run(
        [*map(str, words), *command],
        input=lines,
        env={"PATH": os.environ["PATH"], **edits.env, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_each_process_that_is_linked_dynamically_loads_it(place: Path) -> None:
    edits = prepared(place)
    assert "loaded: 3000m 1 1\n" in run(place, edits, str(place / "dynamic"))


def test_a_program_that_is_linked_statically_escapes(place: Path) -> None:
    """Said in the page, since nothing that is mounted can change it."""
    edits = prepared(place)
    assert "loaded:" not in run(place, edits, str(place / "static"))
    assert "loaded:" in run(place, edits, str(place / "dynamic"))


def test_a_process_that_drops_its_variables_escapes(place: Path) -> None:
    told = run(place, prepared(place), "env", "-i", str(place / "dynamic"))
    assert "loaded: no limit 0 1\n" in told
