# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The configuration that the role device_plugin gives to its module: the user's, over the role's own."""

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
    found = _over(read or config, DEFAULT)
    return {**found, "sharing": sharing} if sharing and isinstance(found, dict) else found


def all_whole(configs: t.Any) -> t.Any:
    """Return configurations by name, each over the role's default."""
    named = configs.items() if isinstance(configs, dict) else ()
    return {name: whole(one) for name, one in named} if named else configs


def _over(given: t.Any, default: t.Any) -> t.Any:
    if given is None:
        return default
    if not (isinstance(given, dict) and isinstance(default, t.Mapping)):
        return given
    known = {key.casefold(): value for key, value in default.items()}  # as the daemon reads keys
    found = {
        key: _over(value, known.pop(str(key).casefold(), None)) for key, value in given.items()
    }
    return {**found, **{key: one for key, one in default.items() if key.casefold() in known}}
