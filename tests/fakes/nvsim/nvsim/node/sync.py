# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Put the shim in the place of each genuine libnvidia-ml that a package has installed.

dpkg calls this after every run, so the shim comes, changes its version and goes with the packages.
"""

from __future__ import annotations

import filecmp
import shutil
from pathlib import Path

SHIM = Path(__file__).resolve().parents[2] / "lib/libnvidia-ml.so"
GENUINE = "usr/lib/x86_64-linux-gnu/nvidia/*/libnvidia-ml.so.*.*"


def main(root: Path = Path("/")) -> None:
    """Replace what is not the shim yet."""
    for path in root.glob(GENUINE):
        if not path.is_symlink() and not filecmp.cmp(path, SHIM, shallow=False):
            temporary = path.with_suffix(".nvsim")
            shutil.copyfile(SHIM, temporary)
            temporary.chmod(0o644)
            temporary.replace(path)


if __name__ == "__main__":
    main()
