# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What Galaxy's importer says of a tarball, and REUSE of the licences: ``python -m tests.release.galaxy``."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.environments.environment import environment
from tests.release.build import OUT
from tests.release.ready import version
from tests.support.paths import REPOSITORY

# As Galaxy itself has it; ansible-test is a lane of its own, with each ansible-core.
SETTINGS = """\
[galaxy-importer]
CHECK_CHANGELOG = True
RUN_ANSIBLE_DOC = True
RUN_ANSIBLE_LINT = True
RUN_ANSIBLE_TEST = False
"""
# The importer gives ansible-lint three minutes, which a busy machine may not have for it.
UNHURRIED = """
import runpy, subprocess, sys
communicate = subprocess.Popen.communicate
subprocess.Popen.communicate = lambda self, input=None, timeout=None: communicate(self, input)
sys.argv[:] = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
COMPLAINT = re.compile(r"(?i)^(error|warning|.*\b(failed|could not|no .* found)\b)")


def imported(tarball: Path) -> tuple[int, str]:
    """Return the importer's status, and all that it prints of a tarball."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "importer.cfg"
        settings.write_text(SETTINGS)
        return _run(folder, settings, *unhurried("galaxy_importer.main"), str(tarball))


def unhurried(module: str) -> list[str]:
    """Return a command that runs a module of Python, whose children take as long as they need."""
    return ["python", "-c", UNHURRIED, module]


def licensed() -> tuple[int, str]:
    """Return REUSE's status, and all that it prints of the repository."""
    return _run(str(REPOSITORY), Path(), "reuse", "lint")


def complaints(status: int, said: str) -> list[str]:
    """Return the lines that a maintainer would have to look at; all, where it has failed."""
    lines = said.splitlines()
    return lines if status else [one for one in lines if COMPLAINT.search(one)]


def _run(folder: str, settings: Path, program: str, *words: str) -> tuple[int, str]:
    home = environment("galaxy") / "bin"
    done = subprocess.run(
        [home / program, *words],
        cwd=folder,
        env={
            "GALAXY_IMPORTER_CONFIG": str(settings),
            "HOME": folder,
            "LANG": "C.UTF-8",
            "PATH": f"{home}:/usr/bin:/bin",
        },
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def main() -> None:
    """Look at the tarball that was built last, and at the repository."""
    tarball = OUT / f"gpu-node-{version(REPOSITORY)}.tar.gz"
    found = [*complaints(*imported(tarball)), *complaints(*licensed())]
    if found:
        sys.exit("\n".join(found))
    print("Galaxy's importer and REUSE have nothing to complain of")


if __name__ == "__main__":
    main()
