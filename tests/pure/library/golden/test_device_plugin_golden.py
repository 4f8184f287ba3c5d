# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Golden plans of the device plugin: from the state of a node and the settings to the steps.

`python -m tests.pure.library.golden.test_device_plugin_golden` writes the plans anew.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import yaml
from ansible_collections.gpu.node.plugins.module_utils._base.dra.allocation import Owners
from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._base.packages.package import Removal
from ansible_collections.gpu.node.plugins.module_utils._base.services.mps import Daemon
from ansible_collections.gpu.node.plugins.module_utils._device_plugin import python as pythons
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.machine.rollback import proven
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.plan import plan, serving
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.state import (
    CONFIGS,
    UNITS,
    DesiredPlugin,
    Service,
    env_variables,
    settings,
)

from tests.fakes.library.agent_nodes import (
    FIELDS,
    FILES,
    LABELS,
    NAMED,
    ON,
    PREFIX,
    STATUS,
    WANTED,
    fresh,
    seen,
)
from tests.fakes.library.golden.plans import plain, read_plans, write_plans
from tests.support.paths import FAKES

FOLDER = FAKES / "library/golden"
PLANS = FOLDER / "device_plugin.json"
DRA = {"gpu-dra.service": "[Unit]\n# dra\n"}
SERVICES = ("daemon", "labels", "manager", "dra")
Json = dict[str, Any]


@functools.cache
def scenes() -> dict[str, Json]:
    """Return the scenes."""
    data: dict[str, Json] = yaml.safe_load((FOLDER / "device_plugin.yml").read_text())
    return data


def path(name: str) -> str:
    """Return the path of a file of a scene."""
    return f"{UNITS}/{name}" if name.endswith(".service") else f"/etc/gpu-node/{name}"


def label_settings(labels: Json | str) -> str:
    """Return the settings of the process that labels the node."""
    return settings({**LABELS, **labels}, choosing=False) if isinstance(labels, dict) else labels


def service(row: Json) -> Service:
    """Return a service that runs unless the scene says otherwise."""
    properties = {**ON, **{key: row[key] for key in row if key[0].isupper()}}
    environment = {"GPU_NODE_RELEASE": row["release"]}
    if row.get("settings"):
        digest = env_variables(label_settings({"output": "api"}))["GPU_LABELS_SETTINGS"]
        environment["GPU_LABELS_SETTINGS"] = digest
    return Service(properties, environment)


def state_fields(scene: Json) -> Json:
    """Return the fields in which the scene's node differs."""
    fields = dict(scene.get("state", {}))
    for name in SERVICES:
        if name in fields:
            fields[name] = service(fields[name])
    if "files" in fields:
        own = {path(name): label_settings(text) for name, text in fields["files"].items()}
        fields["files"] = {**FILES, **own}
    if "status" in fields:
        fields["status"] = {**STATUS, **fields["status"]} if fields["status"] else {}
    if "missing" in fields:
        system, program, *offer = fields["missing"]
        family = pythons.FAMILIES[offer[0]] if offer else None
        fields["missing"] = pythons.Missing(system, program, family, *offer[1:])
    if "mps" in fields:
        fields["mps"] = tuple(Daemon(*row) for row in fields["mps"])
    if "removal" in fields:
        fields["removal"] = Removal(*map(tuple, fields["removal"]))
    if "devices" in fields:
        fields["devices"] = frozenset(fields["devices"])
    for name in ("releases", "held", "beside"):
        if name in fields:
            fields[name] = tuple(fields[name])
    return fields


def desired(scene: Json) -> DesiredPlugin:
    """Return what the scene asks for."""
    fields = dict(scene.get("desired", {}))
    if "configs" in fields:
        fields["configs"] = {f"{CONFIGS}/{name}": text for name, text in fields["configs"].items()}
    if fields.get("labels"):
        fields["labels"] = label_settings(fields["labels"])
    if "dra" in fields:
        fields["owners"] = Owners(fields.pop("dra"), frozenset(["0"]))
        fields["units"] = {**NAMED, **DRA}
    values = {name: getattr(WANTED, name) for name in WANTED.__dataclass_fields__}
    return DesiredPlugin(**{**values, **fields})


def plan_of_scene(scene: Json) -> Json:
    """Return the steps of a scene, or why they are refused."""
    make = fresh if scene.get("fresh") else seen
    state, aim = make(**state_fields(scene)), desired(scene)
    row: Json = {"serving": serving(state), "proven": bool(proven(state, aim.config_file))}
    try:
        result = plan(state, aim, PREFIX)
    except NodeError as error:
        return {**row, "refused": str(error)}
    return {
        **row,
        "steps": [
            [step.action, step.summary, dict(step.params), *step.needs] for step in result.steps
        ],
        "before": result.before,
        "after": result.after,
        "warnings": result.warnings,
    }


@pytest.mark.parametrize("name", scenes())
def test_node_gets_its_golden_plan(name: str) -> None:
    assert plain(plan_of_scene(scenes()[name])) == read_plans(PLANS)[name]


def test_scenes_differ_in_each_field_of_the_state() -> None:
    changed = {name for scene in scenes().values() for name in scene.get("state", {})}
    assert changed >= FIELDS.keys() - {"config_digest"}


if __name__ == "__main__":
    write_plans(PLANS, {name: plan_of_scene(scene) for name, scene in scenes().items()}, 2)
