# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Root filesystems of the two glibc families, each with nothing but the C library and a program that loads others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from nvsim import genuine

TRIPLET = "usr/lib/x86_64-linux-gnu"
LOADER = "ld-linux-x86-64.so.2"
PROGRAM = """\
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names)
{
    int failed = 0;
    for (int at = 1; at < count; at++)
        if (!dlopen(names[at], RTLD_NOW)) {
            puts(dlerror());
            failed = 1;
        }
    return failed;
}
"""


def debian(folder: Path) -> Path:
    """Return a root whose loader looks in the multiarch folder and not in lib64."""
    return _image(
        folder / "debian", Path("/") / TRIPLET / "libc.so.6", TRIPLET, Path("/lib64") / LOADER
    )


def rpm(folder: Path) -> Path:
    """Return a root whose loader looks in lib64 and not in the multiarch folder.

    The RPM distributions build glibc for these folders; this one is Debian's build for them.
    """
    loader = genuine.lib64_glibc()
    return _image(folder / "rpm", loader.parent / "libc.so.6", "usr/lib64", loader)


def library(path: Path) -> None:
    """Write a shared library that can be loaded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _compile(path, "int loaded;", "-shared", "-nostdlib")


def _image(root: Path, libc: Path, folder: str, loader: Path) -> Path:
    for one in (folder, "usr/lib64", "usr/bin", "proc"):
        (root / one).mkdir(parents=True, exist_ok=True)
    for link in ("lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    shutil.copy(libc, root / folder / "libc.so.6")
    shutil.copy(loader, root / "usr/lib64" / LOADER)
    _compile(root / "usr/bin/load", PROGRAM)
    return root


def _compile(path: Path, text: str, *options: str) -> None:
    words = ["gcc", "-x", "c", "-", *options, "-o", str(path)]
    subprocess.run(words, input=text, text=True, check=True, capture_output=True)
