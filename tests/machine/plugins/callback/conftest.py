# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Plays whose output is looked at."""

from __future__ import annotations

from tests.fakes.plays.plays import play, shared_play

__all__ = ["play", "shared_play"]
