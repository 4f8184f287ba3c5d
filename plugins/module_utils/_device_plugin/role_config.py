# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration that the role device_plugin passes to its module: the user's over the role's own."""

from __future__ import annotations

import typing as t

from .._base.text.json_data import table_in
from .._generated.variables import DEFAULTS

DEFAULT = DEFAULTS["device_plugin_config"]


def whole(config: t.Any, sharing: t.Any = None) -> t.Any:
    """Return a configuration over the role's default, with another section ``sharing`` unless that is empty.

    Mappings are merged key by key, in the order of the user's; a list or a value replaces what is there, and a key
    without a value says nothing. A text of JSON is read, as Ansible does. The argument spec refuses what is no mapping.
    """
    read = table_in(config) if isinstance(config, str) else {}
    result = _over(read or config, DEFAULT)
    return {**result, "sharing": sharing} if sharing and isinstance(result, dict) else result


def all_whole(configs: t.Any) -> t.Any:
    """Return configurations by name, each over the role's default."""
    named = configs.items() if isinstance(configs, dict) else ()
    return {name: whole(config) for name, config in named} if named else configs


def _over(config: t.Any, default: t.Any) -> t.Any:
    if config is None:
        return default
    if not (isinstance(config, dict) and isinstance(default, t.Mapping)):
        return config
    known = {key.casefold(): value for key, value in default.items()}  # as the daemon reads keys
    merged = {
        key: _over(value, known.pop(str(key).casefold(), None)) for key, value in config.items()
    }
    return {
        **merged,
        **{key: default_value for key, default_value in default.items() if key.casefold() in known},
    }
