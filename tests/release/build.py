# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Make the tarball that ansible-galaxy collection install takes, the same bytes each time, and its SHA-256.

A release is what git has at HEAD, and is refused while something about it is not ready. ``--draft`` takes the files as
they are, for tests.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.release.bytes_of import normalised
from tests.release.links import lead_outside
from tests.release.ready import problems, version
from tests.support.paths import REPOSITORY

OUT = REPOSITORY / ".cache/release"


def git(*words: str) -> bytes:
    """Return what git prints."""
    return subprocess.run(["git", *words], cwd=REPOSITORY, check=True, capture_output=True).stdout


def committed(tree: Path) -> None:
    """Lay out what HEAD has."""
    archive = git("archive", "HEAD")
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)


def present(tree: Path) -> None:
    """Lay out the files that git knows or would take, as they are."""
    for name in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0"):
        source = REPOSITORY / os.fsdecode(name)
        if name and (source.is_symlink() or source.is_file()):
            target = tree / os.fsdecode(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def build(tree: Path, folder: Path, when: int) -> Path:
    """Return the tarball of a tree; its files are of one time, in seconds since 1970."""
    made = folder / f"gpu-node-{version(tree)}.tar.gz"
    with tempfile.TemporaryDirectory() as raw:
        words = ["ansible-galaxy", "collection", "build", "--output-path", raw, str(tree)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        folder.mkdir(parents=True, exist_ok=True)
        made.write_bytes(normalised(Path(raw) / made.name, when))
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    Path(f"{made}.sha256").write_text(f"{digest}  {made.name}\n")
    return made


def main() -> None:
    """Build what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draft", action="store_true", help="what is here, ready or not")
    parser.add_argument("--to", type=Path, default=OUT)
    options = parser.parse_args()
    if not options.draft and (found := problems(REPOSITORY)):
        sys.exit("\n".join(f"release: {one}" for one in found))
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        (present if options.draft else committed)(tree)
        lead_outside(tree)
        made = build(tree, options.to, int(git("log", "-1", "--format=%ct")))
    print(made)
    print(Path(f"{made}.sha256").read_text().split()[0])


if __name__ == "__main__":
    main()
