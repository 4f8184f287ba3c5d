# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Tell whether this node allows what a configuration asks for."""

from __future__ import annotations

import shutil
from pathlib import Path

from ._shared._core.errors import NodeError
from ._shared._core.gpu import NvmlError
from .config.configuration import Config
from .config.strict_yaml import ConfigError
from .gpus.driver import Driver
from .mps import state as mps
from .mps.control import PROGRAM as CONTROL
from .mps.paths import SETTINGS
from .mps.reconciler import Reconciler, Systemd
from .offer.decide import decide
from .tools import logs


def check(config: Config, source: str) -> None:
    """Return if it does. ConfigError: MPS can't be as it is asked for."""
    managers = Path(SETTINGS)
    if any(share.mps for share in config.sharing.shares):
        _check_program(source)
    elif not mps.devices(managers):
        return
    driver = Driver(Path("/"), lambda: None)
    try:
        inventory = driver.scan(config.driver_root)
    except NvmlError as error:
        _not_known(error)
        return
    finally:
        driver.close()
    offered = decide(inventory, {}, config)
    if offered.refusal:
        _not_known(offered.refusal)
    elif why := offered.unsharable or Reconciler(managers, Systemd()).refuses(offered.mps):
        raise ConfigError(f"{source}: sharing.mps can't be as it is: {why}")


def _not_known(cause: NodeError) -> None:
    logs.warning("the devices can't be looked at, so what they allow is not known", cause=cause)


def _check_program(source: str) -> None:
    if shutil.which(CONTROL) is None:
        raise ConfigError(
            f"{source}: sharing.mps needs the program {CONTROL}",
            cause="it is not installed",
            hint="install the driver's package for it (nvidia-cuda-mps in Debian)",
        )
