# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Record what a genuine API server answers: ``make recordings KUBE_BIN=folder``.

Each scene has a server of its own. What is written is what the tests of the stand-in compare it with.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path

from tests.fakes.kubernetes.genuine_api import GenuineApi, found
from tests.fakes.kubernetes.recorded import asking
from tests.fakes.kubernetes.recorded.files import write
from tests.fakes.kubernetes.recorded.scenes import SCENES
from tests.fakes.kubernetes.recorded.steps import WITHOUT, Json, Step, run


def versions() -> Json:
    """Return what the programs say of themselves."""
    told = {
        name: subprocess.run([found(name), "--version"], check=True, capture_output=True, text=True)
        for name in ("kube-apiserver", "etcd")
    }
    return {name: one.stdout.splitlines()[0].split()[-1] for name, one in told.items()}


def answered(steps: list[Step], folder: Path) -> list[Step]:
    """Return steps with what a new server answers to them."""
    folder.mkdir()
    gates = [one.path for one in steps if one.method == WITHOUT]
    server = GenuineApi(folder, *(f"--feature-gates={gate}=false" for gate in gates))
    ask = asking.of_genuine(server)
    try:
        answers = run(steps, ask)
    finally:
        ask.close()
        server.stop()
    return [replace(one, answer=answer) for one, answer in zip(steps, answers, strict=True)]


def main(names: list[str]) -> None:
    """Record the files that are named, or all."""
    about = {**versions(), "date": date.today().isoformat()}
    for name in names or SCENES:
        with tempfile.TemporaryDirectory() as folder:
            found = {
                scene: answered(steps, Path(folder) / scene)
                for scene, steps in SCENES[name].items()
            }
        write(name, about, found)
        print(name, sum(map(len, found.values())), "requests", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
