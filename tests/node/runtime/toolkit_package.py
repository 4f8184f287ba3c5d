# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A signed repository with a package that stands in for the base of the NVIDIA container toolkit.

It has the files, the unit and the postinst that the toolkit's public sources and documentation show: the
postinst enables and starts a service that writes /var/run/cdi/nvidia.yaml. The program knows whole
GPUs only.
"""

from __future__ import annotations

import base64
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

from tests.fakes.packages.pgp_keys import Key

NAME = "nvidia-container-toolkit-base"
UNIT = "nvidia-cdi-refresh"
WRITTEN = "/var/run/cdi/nvidia.yaml"
CTK = """\
#!/usr/bin/python3
import json, re, subprocess, sys
if sys.argv[1:] == ["--version"]:
    print("NVIDIA Container Toolkit CLI version {version}")
    sys.exit()
assert sys.argv[1:3] == ["cdi", "generate"], sys.argv
listing = subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True).stdout
def edits(*numbers):
    return {{"deviceNodes": [{{"path": f"/dev/nvidia{{one}}"}} for one in numbers]}}
found = re.findall(r"^GPU (\\d+): .*UUID: (\\S+)\\)", listing, re.M)
devices = [{{"name": name, "containerEdits": edits(one[0])}} for one in found for name in one]
devices.append({{"name": "all", "containerEdits": edits(*(one[0] for one in found))}})
hook = {{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook",
        "args": ["nvidia-cdi-hook", "disable-device-node-modification"]}}
text = json.dumps({{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": devices,
    "containerEdits": {{"env": ["NVIDIA_VISIBLE_DEVICES=void"], "hooks": [hook], **edits("ctl")}}}})
output = [one for one in sys.argv if one.startswith("--output=")]
print(text, file=open(output[0][9:], "w") if output else sys.stdout)
"""
HOOK = "#!/bin/sh\necho 'NVIDIA CDI Hook version {version}'\n"
SERVICE = f"""\
[Unit]
Description=a second writer of specifications
[Service]
Type=oneshot
ExecStart=/bin/mkdir -p /var/run/cdi
ExecStart=/usr/bin/nvidia-ctk cdi generate --output={WRITTEN}
[Install]
WantedBy=multi-user.target
"""
POSTINST = f"""\
#!/bin/sh
systemctl daemon-reload
systemctl enable --now {UNIT}.service || true
"""
PRERM = f"#!/bin/sh\nsystemctl disable --now {UNIT}.service || true\n"


def build(folder: Path, key: Key, *versions: str) -> str:
    """Return a flat repository with these versions, as a tar archive in base64."""
    repo = folder / "repo"
    repo.mkdir(parents=True)
    index = ""
    for version in versions:
        index += _package(folder, repo, version)
    (repo / "Packages").write_text(index)
    digest = hashlib.sha256(index.encode()).hexdigest()
    release = repo / "Release"
    release.write_text(
        f"Origin: test\nDate: Sat, 01 Aug 2026 00:00:00 UTC\nSHA256:\n {digest} {len(index)} Packages\n"
    )
    key.gpg(["--clearsign", "--output", str(repo / "InRelease"), str(release)])
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(repo, ".")
    return base64.b64encode(data.getvalue()).decode()


def _package(folder: Path, repo: Path, version: str) -> str:
    tree = folder / f"tree-{version}"
    control = f"Package: {NAME}\nVersion: {version}-1\nArchitecture: all\nMaintainer: t <t@t>\n"
    control += "Description: stands in for the toolkit\n"
    files = {
        "DEBIAN/control": control,
        "DEBIAN/postinst": POSTINST,
        "DEBIAN/prerm": PRERM,
        "usr/bin/nvidia-ctk": CTK.format(version=version),
        "usr/bin/nvidia-cdi-hook": HOOK.format(version=version),
        f"usr/lib/systemd/system/{UNIT}.service": SERVICE,
    }
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    file = repo / f"{NAME}_{version}_all.deb"
    words = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(file)]
    subprocess.run(words, check=True, capture_output=True)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    size = file.stat().st_size
    return f"{control}Filename: ./{file.name}\nSize: {size}\nSHA256: {digest}\n\n"
