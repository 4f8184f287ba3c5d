# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The product's container images, on Debian by debootstrap: nothing is pulled, and no index is asked.

Each name holds a digest of what the image is made from, and those of the product belong to a run.
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from .image import building, digest, mirror
from .paths import REPOSITORY
from .podman import podman, tag

SUITE, PYTHON = "trixie", "3.13"
PACKAGES = ("ca-certificates", "python3", "python3-venv")
CONTAINERFILE = REPOSITORY / "files/gpu_plugin/Containerfile"
SOURCES = ("files/gpu_cluster", "files/gpu_plugin", "plugins/module_utils")


def base() -> str:
    """Make Debian with Python unless it is there, and return its name."""
    name = f"localhost/gpunode-container-base:{digest([], SUITE, mirror(), *PACKAGES)}"
    if podman("images", "--quiet", name):
        return name
    with building() as folder:
        if podman("images", "--quiet", name):
            return name  # made while we waited
        root = folder / "root"
        words = ("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}")
        subprocess.run([*words, SUITE, root, mirror()], check=True, capture_output=True)
        for left in ("var/cache/apt/archives", "var/lib/apt/lists"):
            subprocess.run(["rm", "-rf", root / left], check=True)
        archive = folder / "root.tar"
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        podman("import", "--quiet", str(archive), name)
    return name


def plugin(wheels: list[Path], target: str = "") -> str:
    """Build the Containerfile, or one of its targets, from wheels alone, and return the image's name."""
    on = base()
    name = f"localhost/gpunode-plugin{target and '-'}{target}:{tag()}{_made_of(on, wheels)}"
    if podman("images", "--quiet", name):
        return name
    with building():
        if not podman("images", "--quiet", name):
            _build(on, name, wheels, target)
    return name


def _build(on: str, name: str, wheels: list[Path], target: str) -> None:
    volumes = [f"--volume={one}:/wheels{at}:ro" for at, one in enumerate(wheels)]
    places = " ".join(f"/wheels{at}" for at in range(len(wheels)))
    arguments = (f"BASE={on}", "PIP_NO_INDEX=1", f"PIP_FIND_LINKS={places}")
    podman(
        *("build", "--quiet", "--layers=false", "--force-rm", "--network=none", "--tag", name),
        *("--file", str(CONTAINERFILE), *volumes),
        *(word for one in arguments for word in ("--build-arg", one)),
        *(("--target", target) if target else ()),
        str(REPOSITORY),
    )


def _made_of(base_image: str, wheels: list[Path]) -> str:
    files = [path for one in SOURCES for path in (REPOSITORY / one).rglob("*") if path.is_file()]
    files = [path for path in files if "__pycache__" not in path.parts]
    names = [path.name for folder in wheels for path in sorted(folder.glob("*.whl"))]
    return digest(files, base_image, *names)


def save(name: str, path: Path) -> str:
    """Write an image as an archive in OCI's layout, and return its SHA-256."""
    podman("save", "--quiet", "--format", "oci-archive", "--output", str(path), name)
    return hashlib.sha256(path.read_bytes()).hexdigest()
