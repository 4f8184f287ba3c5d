# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The warning about facts that become variables."""

from __future__ import annotations

import re

from ansible_collections.gpu.node.plugins.plugin_utils.controller.facts_setting import (
    SETTING,
    injected_facts_warning,
)

from tests.support.paths import REPOSITORY

# What Ansible sets without a fact.
MAGIC = r"ansible_(?:become|check_mode|connection|failed_\w+|limit|play\w+|python_interpreter|verbosity)"


def test_the_warning_names_the_setting_how_to_switch_it_off_and_what_changes() -> None:
    warning = injected_facts_warning(setting_is_on=True)
    assert warning.startswith(f"{SETTING} is on: ")
    for part in ("inject_facts_as_vars = false", "ANSIBLE_INJECT_FACT_VARS=false"):
        assert part in warning
    assert "ansible_facts['distribution'] for ansible_distribution" in warning


def test_there_is_no_warning_if_the_setting_is_off() -> None:
    assert injected_facts_warning(setting_is_on=False) == ""


def test_no_role_and_no_playbook_reads_a_fact_as_a_variable() -> None:
    names = {
        name
        for folder in ("roles", "playbooks")
        for path in (REPOSITORY / folder).rglob("*")
        if path.suffix in (".yml", ".j2")
        for name in re.findall(r"\bansible_\w+", path.read_text())
    }
    assert [name for name in sorted(names) if not re.fullmatch(MAGIC, name)] == []
