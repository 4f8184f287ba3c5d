# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Expressions of admission policies and webhooks, in Google's CEL."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext.ext_strings import ExtStrings

NAMES = ("object", "oldObject", "request", "variables")
ENVIRONMENT = cel.NewEnv(variables=dict.fromkeys(NAMES, cel.Type.DYN), extensions=[ExtStrings()])


def value(expression: str, variables: Mapping[str, Any]) -> Any:
    """Return what an expression is with these variables. LookupError: the genuine one fails too."""
    found = _parsed(expression).eval(data={**dict.fromkeys(NAMES), **variables})
    if found.type() == cel.Type.ERROR:
        raise LookupError(f"{expression}: {found.value()}")
    return found.plain_value()


@functools.cache
def _parsed(expression: str) -> Any:
    return ENVIRONMENT.compile(expression)
