# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Certificates of our own over years, and those of files."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gpu_cluster.webhook.certificates import issue

NAMES = ("gpu-node-webhook.gpu-node.svc", "gpu-node-webhook.gpu-node.svc.cluster.local")
NOW = 1_800_000_000.0


def test_openssl_says_the_same(tmp_path: Path) -> None:
    made = issue.authority("ca", NOW)
    (tmp_path / "ca.crt").write_text(made.certificate)
    leaf = tmp_path / "tls.crt"
    leaf.write_text(issue.serving(made, NAMES, NOW).certificate)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver"]
    command += [
        "-verify_hostname",
        NAMES[0],
        "-attime",
        str(int(NOW)),
        "-CAfile",
        "ca.crt",
        "tls.crt",
    ]
    found = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "tls.crt: OK\n"), found.stderr
