# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Configurations that users have as files of other tools, and give as texts or within ConfigMaps."""

from __future__ import annotations

import typing as t

from ansible_collections.gpu.node.plugins.module_utils._base.text.config_map import unwrap_hint
from ansible_collections.gpu.node.plugins.module_utils._base.text.json_data import table_in
from ansible_collections.gpu.node.plugins.module_utils._checks.preflight.problems import Problem

CONFIGS = "device_plugin_configs"
NAMES = ("device_plugin_config", "device_plugin_sharing", "mig_config")
READ = "\"{{ lookup('ansible.builtin.file', 'FILE') | from_yaml }}\""
TEXT = "it is a text, and the variable has the values that are in it"


def unread(values: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    """Yield the configurations that are still to be read from a text, or to be taken out of a ConfigMap."""
    for name in NAMES:
        yield from problems(name, name, values.get(name))
    configs = values.get(CONFIGS)
    named = isinstance(configs, t.Mapping) and configs.get("kind") != "ConfigMap"
    entries = configs.items() if isinstance(configs, t.Mapping) and named else ()
    for key, config in entries:
        yield from problems(CONFIGS, f"{CONFIGS}.{key}", config)
    if not named:
        yield from problems(CONFIGS, CONFIGS, configs)


def problems(variable: str, name: str, value: t.Any) -> t.Iterator[Problem]:
    """Yield why a value is no configuration as it is, by the variable's name and that of the value."""
    hint = unwrap_hint(value)
    if hint:
        yield Problem(variable, f"{name}: not a configuration", f"{hint}, read as in {READ}")
    elif isinstance(value, str) and value.strip() and not table_in(value):
        yield Problem(variable, f"{name}: {TEXT}", f"read it, as in {READ}")
