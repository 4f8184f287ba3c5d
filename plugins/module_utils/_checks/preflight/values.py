# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What no single module can see in its options: values that only go together, and what YAML made of them."""

from __future__ import annotations

import posixpath
import typing as t

from ..._base.text.json_data import is_whole
from ..._cdi.specification import normalize_path
from ..._generated.cdi import SPEC
from ..._runtime.state import SPEC_DIRS
from .problems import Problem

Values = t.Mapping[str, t.Any]
PATHS = (
    "cdi_path",
    "cdi_driver_root",
    "container_runtime_program",
    "container_runtime_config_path",
    "node_labels_kubeconfig",
    "gpu_nodes_dra_kubeconfig",
    "gpu_nodes_dra_hami_core_library",
)
SECONDS = "a number of seconds, not negative"


def check(values: Values, modules: t.Container[str]) -> t.List[Problem]:
    """Return what is wrong with the variables of the modules' roles."""
    every, result = sorted(values.items()), []
    for name, value in every:
        if name.endswith("_timeout") and not _is_time(value):
            result.append(Problem.value(name, value, SECONDS))
    for name, value in every:
        if name.endswith("_version") and isinstance(value, float):
            expected = f'a text: quote it, as in {name}: "550.10", which without quotes is 550.1'
            result.append(Problem.value(name, value, expected))
    for name in PATHS:
        if values.get(name) and not str(values[name]).startswith("/"):
            result.append(Problem.value(name, values[name], "an absolute path on the node"))
    if "cdi" in modules and values.get("cdi_state", "present") == "present":
        result += _read_by_a_runtime(values, known="container_runtime" in modules)
    return result


def _is_time(value: t.Any) -> bool:
    return str(value).isdecimal() if isinstance(value, str) else is_whole(value) and value >= 0


def _read_by_a_runtime(values: Values, *, known: bool) -> t.Iterator[Problem]:
    """Refuse a specification where no runtime looks for it."""
    path = values.get("cdi_path", SPEC["argument_spec"]["path"]["default"])
    folders = (values.get("container_runtime_spec_dirs") if known else None) or SPEC_DIRS
    texts = isinstance(folders, (list, tuple)) and all(
        isinstance(folder, str) for folder in folders
    )
    if not isinstance(path, str) or not path.startswith("/") or not texts:
        return  # which the modules refuse
    if posixpath.dirname(normalize_path(path)) not in map(normalize_path, folders):
        expected = "a file in a folder that the container runtime reads, "
        expected += f"container_runtime_spec_dirs: {', '.join(folders)}"
        yield Problem.value("cdi_path", path, expected)
