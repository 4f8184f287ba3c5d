# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""On a node: make an image of some of the node's own programs and give it to an engine under a name.

Arguments: the name, and ctr, docker or podman; ctr is containerd.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PROGRAMS = ("env", "find", "sh", "sleep")
GUESTS = ("nvidia-smi",)  # come from outside, and need libraries of the image
OCI = "application/vnd.oci.image"


def fill(root: Path) -> None:
    """Copy programs with the libraries that they need, and nothing of the driver."""
    for folder in ("bin", "lib", "lib64"):
        (root / "usr" / folder).mkdir(parents=True)
        (root / folder).symlink_to(f"usr/{folder}")
    for program in PROGRAMS:
        path = os.path.realpath(shutil.which(program) or "")
        shutil.copy(path, root / "usr/bin" / program)
        copy_libraries(path, root)
    for program in filter(None, map(shutil.which, GUESTS)):
        copy_libraries(os.path.realpath(program), root)


def copy_libraries(program: str, root: Path) -> None:
    """Copy the libraries that a program is linked with."""
    told = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for library in re.findall(r"/\S+", told):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def layer(root: Path) -> bytes:
    """Return a folder as an archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(root, arcname=".")
    return out.getvalue()


def local() -> list[str]:
    """Return the option for which ctr works without the transfer service, where it has one."""
    words = ["ctr", "images", "import", "--help"]
    told = subprocess.run(words, check=True, capture_output=True, text=True)
    return ["--local"] if "--local" in told.stdout else []


def archive(root: Path, name: str) -> bytes:
    """Return an OCI archive with one layer."""
    content_data = layer(root)
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def put(data: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {
            "mediaType": f"{OCI}.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(data),
        }

    content = put(content_data, "layer.v1.tar")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = {
        "architecture": machine,
        "os": "linux",
        "config": {"Cmd": ["/usr/bin/sleep", "infinity"], "Env": ["PATH=/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [content["digest"]]},
    }
    about = put(json.dumps(config).encode(), "config.v1+json")
    manifest = {"schemaVersion": 2, "config": about, "layers": [content]}
    entry = put(json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {"io.containerd.image.name": name}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


with tempfile.TemporaryDirectory() as folder:
    fill(Path(folder) / "root")
    tree, name, engine = Path(folder) / "root", sys.argv[1], (*sys.argv[2:], "ctr")[0]
    data = archive(tree, name) if engine == "ctr" else layer(tree)
    words = {
        "ctr": ["ctr", "--namespace", "k8s.io", "images", "import", *local(), "-"],
        "docker": ["docker", "import", "-", name],
        # A node's own files are an overlay already, and podman makes none on top of it.
        "podman": ["podman", "--storage-driver=vfs", "import", "--quiet", "-", name],
    }[engine]
    subprocess.run(words, input=data, check=True, stdout=subprocess.DEVNULL)
