# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The options of commands for HAMi's settings: its configuration, and settings beside it. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from . import settings

TEXTS: Final = (
    ("device-config", "HAMI_DEVICE_CONFIG", "FILE", "", "HAMi's device-config.yaml"),
    (
        *("hami-scheduler", "HAMI_SCHEDULER", "NAME,...", settings.SCHEDULER),
        "the schedulers of HAMi's pods, which become the default one's",
    ),
    (
        *("count-alone", "HAMI_COUNT_ALONE", "whole|share", settings.WHOLE),
        "what a count without memory is where there is a default memory: a whole GPU, or a share of so much",
    ),
)


def read_settings(options: argparse.Namespace, read: Callable[[str], str]) -> settings.Settings:
    """Return the settings of a command line.

    Args:
        options: The parsed options of TEXTS.
        read: Returns the text of a file.

    Raises:
        NodeError: if the configuration can't be read, or an option is not valid.
    """
    path = options.device_config
    parsed = settings.parse(read(path), path) if path else settings.Settings()
    return settings.configured(
        parsed, schedulers=options.hami_scheduler, count_alone=options.count_alone
    )
