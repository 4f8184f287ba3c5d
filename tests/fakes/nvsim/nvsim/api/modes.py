# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Modes that root may set."""

from __future__ import annotations

from ..call import Call, api
from ..codes import NOT_SUPPORTED, NvError


@api("nvmlDeviceGetPersistenceMode")
def get_persistence(call: Call) -> None:
    call.put_number(1, call.gpu(in_order=False).driver.persistence)


@api("nvmlDeviceSetPersistenceMode")
def set_persistence(call: Call) -> None:
    _set(call, "persistence", 1)


@api("nvmlDeviceGetComputeMode")
def get_compute(call: Call) -> None:
    call.put_number(1, call.gpu().driver.compute_mode)


@api("nvmlDeviceSetComputeMode")
def set_compute(call: Call) -> None:
    """On MIG-enabled GPUs, the mode is the default, and changing it is not supported."""
    if call.gpu().driver.mig_current:
        raise NvError(NOT_SUPPORTED)
    _set(call, "compute_mode", 3)


@api("nvmlDeviceGetEccMode")
def get_ecc(call: Call) -> None:
    gpu = call.gpu()
    call.put_number(1, gpu.driver.ecc)
    call.put_number(2, gpu.board.ecc_mode)


@api("nvmlDeviceSetEccMode")
def set_ecc(call: Call) -> None:
    """Take note of the mode, which the next reset or load of the driver brings."""
    gpu, value = call.gpu(mig_too=False), call.below(1, 2)
    call.root_only()
    gpu.board.ecc_mode = value
    call.engine.changed()


def _set(call: Call, name: str, most: int) -> None:
    in_order = name != "persistence"
    gpu, value = call.gpu(mig_too=False, in_order=in_order), call.below(1, most + 1)
    call.root_only()
    setattr(gpu.driver, name, value)
    call.engine.changed()


@api("nvmlDeviceGetAccountingMode")
def get_accounting(call: Call) -> None:
    driver = call.gpu().driver
    call.put_number(1, 0 if driver.mig_current else driver.accounting)


@api("nvmlDeviceSetAccountingMode")
def set_accounting(call: Call) -> None:
    """In MIG mode it is off, "and changing it is not supported"."""
    if call.gpu(mig_too=False).driver.mig_current:
        raise NvError(NOT_SUPPORTED)
    _set(call, "accounting", 1)


@api("nvmlDeviceGetDisplayMode")
def display_mode(call: Call) -> None:
    """Say that a display can be used, as GPUs without a connector do."""
    call.gpu()
    call.put_number(1, 1)


@api("nvmlDeviceGetDisplayActive")
def display_active(call: Call) -> None:
    call.gpu()
    call.put_number(1, 0)
