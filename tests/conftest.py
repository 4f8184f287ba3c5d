# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What holds for every test: its environment, an end to hangs, and that nothing is counted in seconds."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.support import environment

environment.settle()

# How long an example takes says something of the machine alone. The same examples come in each run;
# `make flaky` and `make test-all` look for new ones.
settings.register_profile(
    "same",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("new", settings.get_profile("same"), derandomize=False, print_blob=True)
settings.load_profile("same")
