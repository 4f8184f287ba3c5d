# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Put the simulated libraries in the place of each genuine one that a package has installed.

dpkg calls this after every run, so they come, change their versions and go with the packages.
"""

from __future__ import annotations

import filecmp
import shutil
from pathlib import Path

LIBRARIES = Path(__file__).resolve().parents[2] / "lib"
FOLDERS = "usr/lib/x86_64-linux-gnu/nvidia/*"


def main(root: Path = Path("/")) -> None:
    """Replace what is not simulated yet."""
    for library in LIBRARIES.iterdir():
        for path in root.glob(f"{FOLDERS}/{library.name}.*.*"):
            if not path.is_symlink() and not filecmp.cmp(path, library, shallow=False):
                temporary = path.with_suffix(".nvsim")
                shutil.copyfile(library, temporary)
                temporary.chmod(0o644)
                temporary.replace(path)


if __name__ == "__main__":
    main()
