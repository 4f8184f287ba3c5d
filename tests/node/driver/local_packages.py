# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Runs on a node: makes a repository of small packages with the driver's names, as its words say.

Words: the version, the package whose configuration fails (or a dash), and the names.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path("/srv/packages")
SOURCES = Path("/etc/apt/sources.list.d/local.sources")
CONTROL = """\
Package: {name}
Source: nvidia-graphics-drivers
Version: {version}
Architecture: amd64
Maintainer: nobody <nobody@localhost>
Description: test
"""
FAILS = "#!/bin/sh\necho 'the test wants this package to fail' >&2\nexit 7\n"


def build(name: str, version: str, *, fails: bool) -> str:
    """Build a package and return its entry in the repository's index."""
    tree = FOLDER / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    control = CONTROL.format(name=name, version=version)
    (tree / "DEBIAN/control").write_text(control)
    marker = tree / f"usr/share/doc/{name}/marker"
    marker.parent.mkdir(parents=True)
    marker.write_text(version)
    if fails:
        (tree / "DEBIAN/postinst").write_text(FAILS)
        (tree / "DEBIAN/postinst").chmod(0o755)
    file = FOLDER / f"{name}_{version}_amd64.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(file)], check=True, capture_output=True)
    shutil.rmtree(tree)
    data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return f"{control}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {digest}\n\n"


def main() -> None:
    """Build the packages and let apt know them."""
    version, failing, *names = sys.argv[1:]
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    index = "".join(build(name, version, fails=name == failing) for name in names)
    (FOLDER / "Packages").write_text(index)
    SOURCES.write_text(f"Types: deb\nURIs: file:{FOLDER}\nSuites: ./\nTrusted: yes\n")
    subprocess.run(["apt-get", "-q", "update"], check=True, capture_output=True)


if __name__ == "__main__":
    main()
