# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tell whether this node allows what a configuration asks for."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from . import logs
from ._shared._core.errors import NodeError
from ._shared._nvml.api import NvmlError
from .config import Config
from .devices import EnumerationRefused, enumerate_devices
from .driver import Driver
from .mps import multi_user
from .replicas import refused
from .strict_yaml import ConfigError

CONTROL: Final = multi_user.PROGRAM


def check(config: Config, source: str) -> None:
    """Return if it does. ConfigError: MPS can't be as it is asked for."""
    if not any(share.mps for share in config.sharing.shares):
        return
    if shutil.which(CONTROL) is None:
        raise ConfigError(
            f"{source}: sharing.mps needs the program {CONTROL}",
            cause="it is not installed",
            hint="install the driver's package for it (nvidia-cuda-mps in Debian)",
        )
    if any(share.mps and share.mps.multi_user for share in config.sharing.shares):
        try:
            multi_user.require(CONTROL)
        except NodeError as error:
            raise ConfigError(f"{source}: sharing.mps.multiUser: {error}") from error
    driver = Driver(Path("/"), lambda: None)
    try:
        inventory = driver.scan(config.driver_root)
        found = enumerate_devices(inventory, config.mig_strategy, config.naming)
    except (NvmlError, EnumerationRefused) as error:
        logs.warning("the devices can't be looked at, so what they allow is not known", cause=error)
        return
    finally:
        driver.close()
    if why := refused(found, config.sharing):
        raise ConfigError(f"{source}: sharing.mps can't be as it is: {why}")
