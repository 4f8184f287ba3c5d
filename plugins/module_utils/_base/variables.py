# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The variables of the roles for the options of their modules, so that errors name what the user has set."""

from __future__ import annotations

import re

from .._generated.variables import VARIABLES
from .errors import NodeError

OPTION = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)?")


def option(module: str, key: str) -> str:
    """Return the option of a key such as config.mig-configs.half[0], empty if it has no variable."""
    match = OPTION.match(key)
    path = match.group() if match else ""
    variables = VARIABLES.get(module, {})
    return next((name for name in (path, path.partition(".")[0]) if name in variables), "")


def in_variables(module: str, key: str) -> str:
    """Return a key with the role's variable for its option: mig_config.mig-configs.half[0]."""
    path = option(module, key)
    return f"{VARIABLES[module][path]}{key[len(path) :]}" if path else key


def about(module: str, error: NodeError) -> str:
    """Return an error's text, with the role's variable if it is about an option that has one."""
    key, text = str(error.details.get("key", "")), str(error)
    path = option(module, key)
    return text.replace(f"{key}: ", f"{key} ({VARIABLES[module][path]}): ", 1) if path else text
