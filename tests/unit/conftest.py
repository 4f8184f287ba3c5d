# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Let the tests import their stand-ins, and leave no process behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "plugins/module_utils"))
PLAYED = "plugins/module_utils/_capability/driver/played"
sys.path.append(str(Path(__file__).parent / PLAYED))
sys.path.insert(0, str(Path(__file__).parents[1] / "hostile"))
sys.path.append(str(Path(__file__).parents[1] / "browser"))

# Several workers share a processor: how long one example takes says nothing of it.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.fixture(scope="session", autouse=True)
def no_agents_stay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """End the agents that gpg starts for each keyring, whoever called it."""
    yield
    for keys in tmp_path_factory.getbasetemp().rglob("private-keys-v1.d"):
        command = ["gpgconf", "--homedir", str(keys.parent), "--kill", "gpg-agent"]
        subprocess.run(command, check=False, capture_output=True)
