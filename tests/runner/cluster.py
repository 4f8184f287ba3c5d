# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a run with genuine programs of Kubernetes has shown, with the digest of its log: kept before a release."""

from __future__ import annotations

import hashlib
import os
import subprocess
from datetime import date
from pathlib import Path

from tests.support.paths import DOCS

from .flaky import tree
from .run import LOGS, counted

LANE = "cluster"
PAGE = DOCS / "evidence/operations/cluster.md"
END = "<!-- runs: end -->"


def tell(write: bool) -> None:
    """Say how the last run ended; put it on its page where that is asked for."""
    digest = hashlib.sha256((LOGS / f"{LANE}.log").read_bytes()).hexdigest()
    passed, skipped, failed = counted(LOGS / f"{LANE}.xml")
    print(f"sha256 of {LOGS / LANE}.log: {digest}")
    if write:
        day, state = date.today().isoformat(), f"`{tree()[0][:12]}`"
        counts = f"{passed} | {len(failed)} | {skipped}"
        row = f"| {day} | {state} | {version()} | {counts} | `{digest}` |\n"
        PAGE.write_text(PAGE.read_text().replace(END, row + END))


def version() -> str:
    """Return the version of the kubelet in KUBE_BIN."""
    program = Path(os.environ.get("KUBE_BIN", "")) / "kubelet"
    told = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return told.stdout.split()[-1]
