# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Ansible's setting that makes variables of the facts that a node answers, above those of the inventory."""

from __future__ import annotations

SETTING = "INJECT_FACTS_AS_VARS"
WARNING = (
    "INJECT_FACTS_AS_VARS is on: each fact that a node answers becomes a variable of this run, above those of the"
    " inventory, so whoever has a node can change what the run does on the controller and to other nodes."
    " Next step: set inject_facts_as_vars = false in section [defaults] of ansible.cfg, or export"
    " ANSIBLE_INJECT_FACT_VARS=false. Nothing in gpu.node needs it; your own plays then write"
    " ansible_facts['distribution'] for ansible_distribution, and so for each other fact"
)


def injected_facts_warning(setting_is_on: bool) -> str:
    """Return the warning about the setting, empty if it is off."""
    return WARNING if setting_is_on else ""
