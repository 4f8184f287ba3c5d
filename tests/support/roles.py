# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What the collection's roles have where a user sets nothing."""

from __future__ import annotations

from typing import Any

import yaml

from tests.support.paths import REPOSITORY


def defaults() -> dict[str, Any]:
    """Return the defaults of all roles."""
    texts = (path.read_text() for path in REPOSITORY.glob("roles/*/defaults/main.yml"))
    return {name: value for text in texts for name, value in yaml.safe_load(text).items()}
