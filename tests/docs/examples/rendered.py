# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The examples of the pages, carried as far as nodes and clusters would take them: what each part makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpu.node.plugins.action.preflight import RELEASES, configurations
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.capability import (
    PreflightCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.machine import modules
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.node import DRIVER_ROOT
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.capability import (
    ValidateCapability,
)
from ansible_collections.gpu.node.plugins.module_utils._driver.releases import table
from ansible_collections.gpu.node.plugins.module_utils._generated.preflight import SPEC
from ansible_collections.gpu.node.plugins.module_utils._generated.validate import (
    SPEC as VALIDATE,
)
from gpu_cluster.hami import settings as hami
from gpu_plugin.config.strict_yaml import ConfigError

from tests.docs.examples import rendering
from tests.fakes.library.preflight_nodes import FakeRoom, node
from tests.fakes.library.runtime_host import RuntimeHost
from tests.support.roles import defaults

# GPUs of which an example may speak: eight H100 with 80 GB, A100 with 40 GB, and of an older kind.
MODELS = ("0x2330", "0x20b0", "0x1db6")
SYSTEM = 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian 12"\n'
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n-----END PGP PUBLIC KEY BLOCK-----\n"
# What is read of the user's own files, by their names.
LAYOUTS = {
    "version": "v1",
    "mig-configs": {
        "all-balanced": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 2}}],
        "all-1g.10gb": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}],
    },
}
FILES = {
    "mig-layouts.yaml": yaml.safe_dump(LAYOUTS),
    "config/nvidia-mig-config.yml": yaml.safe_dump(LAYOUTS),
    "config.yaml": "version: v1\n",
    "few.yaml": "version: v1\n",
    "device-config.yaml": "nvidia:\n  resourceCountName: nvidia.com/gpu\n",
    "files/driver-releases.yml": "as_of: 2026-10-01\nbranches: {}\nbulletins: []\n",
    "nvidia.asc": KEY,
    "libnvidia-container.asc": KEY,
}
Values = Mapping[str, Any]


def every(found: Sequence[Any], folder: Path) -> list[dict[str, Any]]:
    """Return what Ansible makes of each example: its ``values`` and ``objects``, or an ``error``."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return rendering.render(found, defaults(), folder)


def refused(given: Values) -> list[str]:
    """Return what nodes with these variables would refuse before anything changes, none where one takes them."""
    said, given = [], {**defaults(), **given}
    if isinstance(given[RELEASES], str):  # the controller reads it
        given[RELEASES] = yaml.safe_load(FILES[given[RELEASES]])
    for model in MODELS:
        said.append(_look(model, given))
        if not said[-1]:
            return []
    return [min(said, key=len)]


def _look(model: str, given: Values) -> str:
    """Return what a fresh node with containerd refuses, by the modules' own preflight and the daemon's own parser."""
    named = given["container_runtime_name"]
    runtime = {"containerd": "1.7.24", "docker": "28.2.2", "cri-o": "1.31.0"}
    name = "containerd" if named == "auto" else named
    host = RuntimeHost(node(*[model] * 8).files, **{name.replace("-", ""): runtime[name]})
    host.files["/etc/os-release"] = SYSTEM
    host.files["/usr/local/vgpu/libvgpu.so"] = "libvgpu"
    host.files[f"{DRIVER_ROOT}/usr/lib64/libnvidia-ml.so.1"] = ""
    host.commands |= {("apt-get",): "", ("python3",): "", ("uname", "-m"): "x86_64\n"}
    host.install_toolkit()
    params = {
        "variables": given,
        "components": SPEC["argument_spec"]["components"]["default"],
        "cloud_init_timeout": 0,
        "refused": [one._asdict() for one in configurations(given)],
    }
    try:
        PreflightCapability(host, FakeRoom(), params, root=True).observe()  # type: ignore[arg-type]
        spec = ArgumentSpecValidator(VALIDATE["argument_spec"])
        ValidateCapability(
            host, spec.validate(modules.options("validate", given)).validated_parameters
        )  # type: ignore[arg-type]
        table.parse(given[RELEASES])
    except NodeError as error:
        return str(error)
    return ""


def wrong_cluster(objects: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the webhook would refuse of the configuration that it is given in them."""
    items = [each for one in objects for each in one.get("items", [one])]
    for one in items:
        text = (one.get("data") or {}).get("device-config.yaml", "")
        if one["kind"] == "ConfigMap" and text:
            try:
                hami.parse(text, "fractions_device_config")
            except ConfigError as error:
                yield str(error)
