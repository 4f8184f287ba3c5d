# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An option is written in one table, and whatever is written from the tables is as they are."""

from __future__ import annotations

import ast
import importlib
from typing import Any

import pytest
import yaml

from tests.docs.options import tables, written
from tests.docs.options.tables import Table
from tests.docs.options.text import block, code
from tests.support.paths import REPOSITORY

MODULES = {module: table for table in tables.tables() for module in table.modules}
# What a role does not give to its module, and why.
WITHOUT = {
    "cdi": {"compare": "it is for looking at a node by hand"},
    "quarantine": {"by": "a role has an operator's word"},
    "device_plugin": {
        "digest": "set by the action plugin",
        "payload": "set by the action plugin",
        "units": "set by the action plugin",
        "prefix": "other modules look for the environment in its default",
        "keep_releases": "rollback needs the default",
    },
}
# What is hard to write: what YAML would read as something else, and what has to be folded.
HARD: list[Any] = [
    "",
    "off",
    "1",
    "a: b",
    "a #b",
    "# a",
    "- a",
    '"',
    "'",
    "{{ a }}",
    "x " * 99 + "x",
]
HARD += [None, True, 1.0, -1, [], {}, ["a, b", "off"], [["a"], {"b": [{}]}]]


def test_what_is_written_from_the_tables_is_fresh() -> None:
    stale = [path for path, text in written.files().items() if path.read_text() != text]
    assert [str(path.relative_to(REPOSITORY)) for path in stale] == [], "run make options"


def test_nothing_is_left_of_a_table_that_is_gone() -> None:
    there = {*written.GENERATED.glob("*.py"), *written.FRAGMENTS.glob("*.py")}
    there |= {*written.ROLES.glob("*/defaults/*")}
    by_hand = {"__init__.py", "attributes.py"}
    assert {path for path in there if path.name not in by_hand} - written.files().keys() == set()


def test_a_module_checks_and_documents_the_options_of_its_table() -> None:
    paths = (REPOSITORY / "plugins/modules").glob("*.py")
    # Of others an action plugin does the work, and checks their options itself.
    modules = {path.stem for path in paths if "def main(" in path.read_text()}
    assert modules == MODULES.keys()
    for module, table in MODULES.items():
        found = importlib.import_module(f"ansible_collections.gpu.node.plugins.modules.{module}")
        said = yaml.safe_load(found.DOCUMENTATION)
        fragment = table.name if module == table.name else f"{table.name}.{module}"
        assert f"gpu.node.{fragment}" in said["extends_documentation_fragment"]
        assert "options" not in said
        spec = {name: tables.checked(one) for name, one in table.modules[module].items()}
        assert {"argument_spec": spec} == found.SPEC


def test_a_role_gives_its_module_every_option_but_for_a_reason() -> None:
    for table in tables.tables():
        asked = [one for one in table.calls.values() if "module" not in one]
        given = {name for one in asked for name in tables.call(table, table.name, one)}
        if asked:
            left = table.modules[table.name].keys() - given
            assert left == WITHOUT.get(table.name, {}).keys(), table.name


def test_a_role_may_choose_only_what_its_module_knows() -> None:
    """``unmanaged`` is the role's own: it leaves its part alone."""
    for module, table in MODULES.items():
        known = tables.variables(table)
        for path, option in tables.walk(table, module):
            variable = known.get(tables.named(module, path, option), {})
            extra = {*variable.get("choices", ())} - {*option.get("choices", ())}
            assert extra <= {"unmanaged"} or "role" not in option, path


def test_a_key_that_nothing_reads_is_refused() -> None:
    with pytest.raises(ValueError, match=r"boot: unknown \['defualt'\].*'default'"):
        tables.whole({"boot": {"defualt": "", "description": ""}})


@pytest.mark.parametrize("value", HARD)
def test_a_value_is_read_back_as_it_was_written(value: Any) -> None:
    whole = {"a": value, "b": [value], "c": {"d": value}}
    assert yaml.safe_load(block(whole)) == whole
    assert ast.literal_eval(code(whole, 0, 0)) == whole


def test_a_call_has_values_variables_and_what_it_leaves_out() -> None:
    table = Table(
        "mig",
        {
            "mig": tables.whole(
                {
                    "state": {"default": "present", "role": "a", "description": "a"},
                    "config": {"type": "raw", "omit": True, "role": "a", "description": "a"},
                    "boot": {"type": "bool", "default": True, "variable": "gpu_nodes_boot"},
                    "extra": {"value": "{{ composed }}"},
                    "compare": {"type": "bool"},
                    "labels": {"suboptions": {"name": {"default": "", "variable": "labels_name"}}},
                }
            )
        },
        {},
        {},
        {},
    )
    assert tables.call(table, "mig", {"set": {"state": "absent"}}) == {
        "state": "absent",
        "config": "{{ mig_config or omit }}",
        "boot": "{{ gpu_nodes_boot | default(true) }}",
        "extra": "{{ composed }}",
        "labels": {"name": "{{ labels_name | default('') }}"},
    }
    assert tables.call(table, "mig", {"only": ["state"]}) == {"state": "{{ mig_state }}"}
