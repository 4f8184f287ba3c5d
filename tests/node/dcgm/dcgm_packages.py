# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Runs on a node: makes a repository of small packages of DCGM, and a stand-in of its exporter.

Names, relations, the unit's command and the account are those of NVIDIA's DCGM 4.6 (cmake/packaging.cmake,
config-files/systemd, scripts/deb/postinst). The engine only listens and holds a GPU open; the exporter only says what
it was told and whom it reaches.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

FOLDER, EXPORTER = Path("/srv/dcgm"), Path("/srv/dcgm-exporter")
SOURCES = Path("/etc/apt/sources.list.d/dcgm-test.sources")
DCGM, VERSION = "datacenter-gpu-manager-4", "1:4.6.0-1"
UNIT = """\
[Unit]
Description=NVIDIA DCGM service
[Service]
User=root
PrivateTmp=false
ExecStart=/usr/bin/nv-hostengine -n --service-account nvidia-dcgm
Restart=on-abort
[Install]
Alias=dcgm.service
WantedBy=multi-user.target
"""
ENGINE = """\
#!/usr/bin/python3
import contextlib, os, socket, sys, threading
assert sys.argv[1:] == ["-n", "--service-account", "nvidia-dcgm"], sys.argv
with contextlib.suppress(OSError):
    os.open("/dev/nvidia0", os.O_RDONLY)
listening = socket.create_server(("127.0.0.1", 5555))
while True:
    threading.Thread(target=listening.accept()[0].recv, args=(1,), daemon=True).start()
"""
STANDIN = """\
#!/usr/bin/python3
import http.server, json, os, socket, sys
host, _, port = os.environ["DCGM_REMOTE_HOSTENGINE_INFO"].rpartition(":")
socket.create_connection((host, int(port)))
kubelet = os.environ.get("DCGM_POD_RESOURCES_KUBELET_SOCKET", "")
reached = socket.socket(socket.AF_UNIX).connect_ex(kubelet) == 0 if kubelet else None
fields = [line.split(",")[0] for line in open(os.environ["DCGM_EXPORTER_COLLECTORS"]) if line[0] != "#"]
status = open("/proc/self/status").read().split("\\n")
caps = [line.split()[1] for line in status if line.startswith("CapEff")]
told = {"env": dict(os.environ), "argv": sys.argv[1:], "kubelet": reached, "fields": fields,
        "uid": os.getuid(), "caps": caps[0]}

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

address, _, port = os.environ["DCGM_EXPORTER_LISTEN"].rpartition(":")
http.server.HTTPServer((address, int(port)), Page).serve_forever()
"""
POSTINST = "#!/bin/sh\nuseradd -Urs /usr/sbin/nologin nvidia-dcgm || [ $? -eq 9 ]\n"


def build(name: str, relations: str, files: dict[str, str], postinst: str = "") -> str:
    """Build a package and return its entry in the repository's index."""
    control = f"Package: {DCGM}-{name}\nVersion: {VERSION}\nArchitecture: amd64\n{relations}"
    control += "Maintainer: nobody <nobody@localhost>\nDescription: test\n"
    tree = FOLDER / "tree"
    scripts = {"DEBIAN/control": control, **({"DEBIAN/postinst": postinst} if postinst else {})}
    for path, text in {**scripts, **files}.items():
        file = tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    made = FOLDER / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(made)], check=True, capture_output=True)
    shutil.rmtree(tree)
    data = made.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return f"{control}Filename: ./{made.name}\nSize: {len(data)}\nSHA256: {digest}\n\n"


def main() -> None:
    """Build the packages and the program, and let apt know the packages."""
    FOLDER.mkdir(parents=True)
    core = f"Depends: {DCGM}-core (= {VERSION})\n"
    engine = {"usr/bin/nv-hostengine": ENGINE, "usr/lib/systemd/system/nvidia-dcgm.service": UNIT}
    index = build("core", "Conflicts: datacenter-gpu-manager\n", engine, POSTINST)
    for name in (
        "proprietary",
        *(f"{kind}cuda{one}" for kind in ("", "proprietary-") for one in (12, 13)),
    ):
        index += build(name, core, {})
    (FOLDER / "Packages").write_text(index)
    SOURCES.write_text(f"Types: deb\nURIs: file:{FOLDER}\nSuites: ./\nTrusted: yes\n")
    EXPORTER.write_text(STANDIN)
    print(hashlib.sha256(EXPORTER.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
