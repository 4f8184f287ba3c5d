# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The manifests fit what the roles make of nodes."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_runtime_class_names_the_handler_of_the_role() -> None:
    manifest = yaml.safe_load((ROOT / "files/kubernetes/runtimeclass.yaml").read_text())
    defaults = yaml.safe_load((ROOT / "roles/container_runtime/defaults/main.yml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("node.k8s.io/v1", "RuntimeClass")
    assert manifest["handler"] == defaults["container_runtime_handler"]
