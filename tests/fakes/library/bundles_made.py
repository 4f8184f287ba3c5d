# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A release of the collection that is small, and bundles of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ansible_collections.gpu.node.plugins.module_utils._base.steps import Plan
from ansible_collections.gpu.node.plugins.module_utils._bundle.capability import BundleCapability
from ansible_collections.gpu.node.plugins.module_utils._generated.bundle import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host

from tests.fakes.library.hostile_index import GENUINE, GOOD, wheel

OLD = "tomli-2.2.1-py3-none-any.whl"
X509 = "cffi-2.1.1-py3-none-any.whl"
SERVED = {GENUINE: GOOD, OLD: wheel(OLD, {}), X509: wheel(X509, {})}
PLUGIN = "files/gpu_plugin"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def line(name: str, marker: str = "") -> str:
    project, version = name.split("-")[:2]
    return f"{project}=={version}{marker} \\\n    --hash=sha256:{digest(SERVED[name])}\n"


LISTS = {
    f"{PLUGIN}/requirements.txt": line(GENUINE) + line(OLD, " ; python_version < '3.11'"),
    "files/gpu_cluster/requirements.txt": line(X509),
}


def release(folder: Path, name: str = "node", needs: tuple[str, ...] = (), **more: str) -> Path:
    """Lay a collection out as ansible-galaxy installs one, and return its folder."""
    files = {**LISTS, "plugins/run.sh": "#!/bin/sh\n", **more}
    entries: list[dict[str, Any]] = [{"name": ".", "ftype": "dir", "chksum_sha256": None}]
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        entry = {"ftype": "file", "chksum_sha256": digest(text.encode())}
        entries.append({"name": path, **entry})
    folders = {str(Path(one).parent) for one in files} | {"files"}
    entries += [{"name": one, "ftype": "dir", "chksum_sha256": None} for one in sorted(folders)]
    (folder / "plugins/run.sh").chmod(0o755)
    listed = json.dumps({"files": entries, "format": 1})
    (folder / "FILES.json").write_text(listed)
    info = {
        "namespace": "gpu",
        "name": name,
        "version": "0.3.0",
        "dependencies": dict.fromkeys(needs, "*"),
    }
    manifest = {
        "collection_info": info,
        "file_manifest_file": {"name": "FILES.json", "chksum_sha256": digest(listed.encode())},
        "format": 1,
    }
    (folder / "MANIFEST.json").write_text(json.dumps(manifest))
    return folder


class Bundle:
    """A bundle's folder, and runs of the module on it."""

    def __init__(self, path: Path, collection: Path) -> None:
        self.path, self.collection = path, collection

    def capability(self, **options: Any) -> BundleCapability:
        spec = SPEC["argument_spec"]
        params = {name: one.get("default") for name, one in spec.items()}
        mine = {"path": str(self.path), "collection": str(self.collection), "pythons": ["3.11"]}
        return BundleCapability(Host(), {**params, **mine, **options})

    def plan(self, **options: Any) -> Plan:
        one = self.capability(**options)
        return one.plan(one.observe())

    def make(self, **options: Any) -> dict[str, Any]:
        """Carry the plan out; afterwards nothing may be left to do."""
        one = self.capability(**options)
        for step in one.plan(one.observe()).steps:
            one.apply(step)
        left = one.plan(one.observe())
        assert left.steps == ()
        return dict(one.result(one.observe(), left)["bundle"])

    def verify(self, **options: Any) -> None:
        assert self.plan(state="verified", **options).steps == ()

    def files(self) -> set[str]:
        return {str(one.relative_to(self.path)) for one in self.path.rglob("*") if one.is_file()}
