# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Variables of roles and options of modules have the same names, defaults and choices, whoever adds the next one."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from tests.support.paths import REPOSITORY

ROLES = REPOSITORY / "roles"
MIGRATION = (REPOSITORY / "docs/migration/README.md").read_text()
# The modules of fractions and report are not of their names, as they are for more than that.
OTHERS = ("common", "fractions", "node_labels", "report")
# The variables of the role common are those of the playbooks, for modules of several roles.
NAMES = sorted(one.name for one in ROLES.iterdir() if one.name not in OTHERS)
# What a role has no variable for, and why.
WITHOUT = {
    "cdi": {"compare": "it is for looking at a node by hand"},
    "device_plugin": {
        "digest": "set by the action plugin",
        "payload": "set by the action plugin",
        "units": "set by the action plugin",
        "prefix": "other modules look for the environment in its default",
        "keep_releases": "rollback needs the default",
    },
}
# Defaults that differ, and why.
DIFFER = {
    "device_plugin_config": "the module's is NVIDIA's, version: v1 alone; the role brings a node up with CDI",
    "gpu_nodes_components": "all parts are brought up; a module that is asked for none looks for what is there",
}
# A role that leaves its part alone says so by a state that its module does not have.
LEFT_OUT = "unmanaged"


class Use(NamedTuple):
    """An option that a role gives to a module; ``nested`` is one of an option's own."""

    role: str
    option: str
    value: str
    spec: Mapping[str, Any]
    nested: bool = False


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else None


def defaults(role: str) -> dict[str, Any]:
    return read(ROLES / role / "defaults/main.yml") or {}


def options(role: str) -> dict[str, Any]:
    points = read(ROLES / role / "meta/argument_specs.yml")["argument_specs"].values()
    return {name: one for point in points for name, one in (point.get("options") or {}).items()}


def old(spec: Mapping[str, Any]) -> bool:
    """Tell whether a role's variable is only there by the name that it had before."""
    return "Deprecated." in str(spec["description"])


def module(name: str) -> dict[str, Any]:
    found = importlib.import_module(f"ansible_collections.gpu.node.plugins.modules.{name}")
    spec: dict[str, Any] = found.SPEC["argument_spec"]
    return spec


def tasks(found: Any) -> Iterator[dict[str, Any]]:
    for one in found or []:
        yield one
        for part in ("block", "rescue", "always"):
            yield from tasks(one.get(part))


def uses(role: str) -> Iterator[Use]:
    """Return what a role gives to the module of its own name."""
    for path in sorted((ROLES / role / "tasks").glob("*.yml")):
        for task in tasks(read(path)):
            for option, value in (task.get(f"gpu.node.{role}") or {}).items():
                spec = module(role)[option]
                if isinstance(value, dict):
                    rows = value.items()
                    yield from (
                        Use(role, key, str(one), spec["options"][key], True) for key, one in rows
                    )
                else:
                    yield Use(role, option, str(value), spec)


def problems(use: Use, variables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return how a variable disagrees with the option that it is given to."""
    words = {one.removeprefix("__") for one in re.findall(r"\w+", use.value)}
    there = [name for name in words & variables.keys() if not old(variables[name])]
    expected = (f"{use.role}_{use.option}", f"gpu_nodes_{use.option}")
    named = [
        one for one in there if one in expected or (use.nested and one.endswith(f"_{use.option}"))
    ]
    if not named:
        return [f"{', '.join(sorted(there))}: not called {' or '.join(expected)}"] if there else []
    spec, default = variables[named[0]], use.spec.get("default")
    mine, theirs = spec.get("choices"), use.spec.get("choices")
    left_out = spec.get("default") == LEFT_OUT and LEFT_OUT in (mine or [])
    fits = {*(mine or [])} - ({LEFT_OUT} if left_out else set()) <= {*(theirs or [])}
    found = (
        [] if fits and bool(mine) == bool(theirs) else [f"{named[0]}: choices {mine}, not {theirs}"]
    )
    same = spec.get("default") == default or (default is None and not spec.get("default"))
    if same or left_out or named[0] in DIFFER:
        return found
    return [*found, f"{named[0]}: {spec.get('default')!r}, not {default!r}"]


@pytest.mark.parametrize("role", NAMES)
def test_role_and_module_agree(role: str) -> None:
    variables = {**options("common"), **options("node_labels"), **options(role)}
    found = [*uses(role)]
    assert found
    assert [line for one in found for line in problems(one, variables)] == []


@pytest.mark.parametrize("role", NAMES)
def test_every_option_has_a_variable_or_a_reason(role: str) -> None:
    given = {one.option for one in uses(role) if not one.nested}
    nested = {"labels", "dra"} & module(role).keys()
    assert module(role).keys() - given - nested == WITHOUT.get(role, {}).keys()


@pytest.mark.parametrize("role", [*NAMES, "node_labels", "common", "report"])
def test_defaults_are_those_of_the_argument_specs(role: str) -> None:
    specs, values = options(role), defaults(role)
    fixed = {name: value for name, value in values.items() if "{{" not in str(value)}
    assert {name: specs[name].get("default") for name in fixed} == fixed
    if role != "common":
        assert {name for name, one in specs.items() if not old(one)} - values.keys() == set()


@pytest.mark.parametrize(
    ("value", "change", "words"),
    [
        ("{{ mig_boot }}", {"default": False}, "mig_boot: True, not False"),
        ("{{ mig_boot }}", {"choices": ["x"]}, "mig_boot: choices None, not ['x']"),
        ("{{ mig_reset }}", {}, "mig_reset: not called mig_boot or gpu_nodes_boot"),
        ("{{ gpu_nodes_hosts }}", {}, "gpu_nodes_hosts: not called mig_boot or gpu_nodes_boot"),
    ],
)
def test_what_disagrees_is_found(value: str, change: dict[str, Any], words: str) -> None:
    variables = {**options("common"), **options("mig")}
    spec = {**module("mig")["boot"], **change}
    assert words in str(problems(Use("mig", "boot", value, spec), variables))


def deprecated() -> Iterator[tuple[str, str]]:
    """Return the old and the new name of what is still read by its old one."""
    for path in ROLES.glob("*/tasks/*.yml"):
        yield from re.findall(r"gpu\.node\.renamed\('(\w+)',\s*'(\w+)'\)", path.read_text())
    for role in NAMES:
        for name, spec in module(role).items():
            yield from ((one["name"], name) for one in spec.get("deprecated_aliases", ()))


@pytest.mark.parametrize(("before", "now"), [*deprecated()])
def test_page_has_what_was_renamed(before: str, now: str) -> None:
    rows = [line for line in MIGRATION.splitlines() if line.startswith("| ")]
    assert any(f"`{before}`" in line and f"`{now}`" in line for line in rows)


def test_old_names_are_still_read() -> None:
    done = ArgumentSpecValidator(module("container_runtime")).validate(
        {"runtime": "docker", "runtime_path": "/opt/x"}
    )
    assert not done.errors.messages
    assert done.validated_parameters["name"] == "docker"
    assert done.validated_parameters["handler_path"] == "/opt/x"
    said = str(done._deprecations)
    assert "'runtime' is deprecated" in said
    assert "'runtime_path' is deprecated" in said
