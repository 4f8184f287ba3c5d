# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An NVML that fails although a driver is loaded is refused with its library; a driver to come is waited for."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from ansible_collections.gpu.node.plugins.module_utils._base.gpu import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    LIBRARY_NOT_FOUND,
    NO_BINDINGS,
    UNKNOWN_ERROR,
    VERSION_MISMATCH,
    NvmlError,
)
from ansible_collections.gpu.node.plugins.module_utils._cdi import capability as cdi
from ansible_collections.gpu.node.plugins.module_utils._generated.cdi import SPEC as CDI
from ansible_collections.gpu.node.plugins.module_utils._generated.mig import SPEC as MIG
from ansible_collections.gpu.node.plugins.module_utils._generated.settings import SPEC as SETTINGS
from ansible_collections.gpu.node.plugins.module_utils._mig import capability as mig
from ansible_collections.gpu.node.plugins.module_utils._node.machine.nvml_start import explain
from ansible_collections.gpu.node.plugins.module_utils._settings import capability as settings

from tests.fakes.library.fakes import DRIVER, LOADED, FakeHost

STUB = "/usr/local/lib/libnvidia-ml.so.1"
OWN = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
MAPS = "7f00-7f01 r-xp 00000000 08:01 77                 {}\n"


def host(library: str = "", *, loaded: bool = True, maps: str = "") -> FakeHost:
    """Return a machine whose loader takes a library, by its cache or by what this process has mapped."""
    fake = FakeHost({DRIVER: LOADED.format("550.163.01")} if loaded else {})
    fake.files["/proc/self/maps"] = maps
    found = f"\tlibnvidia-ml.so.1 (libc6,x86-64) => {library}\n" if library else ""
    fake.commands["ldconfig", "-p"] = found
    if library:
        fake.files[library] = ""
    return fake


def failed(code: int) -> NvmlError:
    return NvmlError(code, "starting NVML")


@pytest.mark.parametrize("maps", ["", MAPS.format(STUB)])
def test_a_stub_library_is_named_with_what_removes_it(maps: str) -> None:
    error = failed(FUNCTION_NOT_FOUND)
    assert not explain(host(OWN if maps else STUB, maps=maps), error)
    assert (
        error.message == "NVML failed while starting NVML, although the driver 550.163.01 is loaded"
    )
    assert error.cause == f"this driver does not have the function; the loader takes {STUB}"
    assert error.hint.startswith("that is not the library of the driver 550.163.01: remove it")
    assert error.stays


def test_the_drivers_own_library_sends_to_the_kernels_log() -> None:
    fake, error = host(OWN), failed(UNKNOWN_ERROR)
    fake.links[OWN] = "libnvidia-ml.so.550.163.01"
    fake.files[f"{OWN[:-1]}550.163.01"] = ""
    assert not explain(fake, error)
    assert f"{OWN}, which is {OWN[:-1]}550.163.01" in error.cause
    assert "NVRM" in error.hint
    assert not error.stays


@pytest.mark.parametrize(
    ("code", "library", "loaded"),
    [
        (DRIVER_NOT_LOADED, OWN, False),
        (LIBRARY_NOT_FOUND, "", False),
        (LIBRARY_NOT_FOUND, "", True),  # the packages of the libraries may be to come
        (NO_BINDINGS, OWN, True),
        (VERSION_MISMATCH, OWN, True),
    ],
)
def test_what_the_run_itself_brings_is_waited_for(code: int, library: str, loaded: bool) -> None:
    error = failed(code)
    assert explain(host(library, loaded=loaded), error)
    assert error.hint.startswith("bring up the driver first")


def test_device_nodes_that_the_run_makes_again_are_waited_for() -> None:
    fake = host(OWN)
    fake.files["/dev/null"] = ""
    assert explain(fake, failed(DRIVER_NOT_LOADED))


def parameters(spec: t.Mapping[str, t.Any], **params: t.Any) -> dict[str, t.Any]:
    """Return a module's options with their defaults."""
    return {name: one.get("default") for name, one in spec["argument_spec"].items()} | params


CAPABILITIES = [
    (
        mig,
        lambda on: mig.MigCapability(on, parameters(MIG, selected="all-disabled"), check_mode=True),
    ),
    (
        settings,
        lambda on: settings.SettingsCapability(
            on, parameters(SETTINGS, rules=[{"persistence": True}]), check_mode=True
        ),
    ),
    (cdi, lambda on: cdi.CdiCapability(on, parameters(CDI), check_mode=True)),
]


@pytest.mark.parametrize(("room", "make"), CAPABILITIES, ids=["mig", "settings", "cdi"])
def test_a_check_refuses_a_stub_and_waits_for_a_driver(
    monkeypatch: pytest.MonkeyPatch, room: t.Any, make: t.Callable[[t.Any], t.Any]
) -> None:
    @contextlib.contextmanager
    def fails(_library: str = "") -> t.Iterator[None]:
        raise failed(FUNCTION_NOT_FOUND if stub else DRIVER_NOT_LOADED)
        yield

    monkeypatch.setattr(room, "open_nvml", fails)
    stub = False
    capability = make(host(loaded=False))
    assert capability.plan(capability.observe()).later
    stub = True
    with pytest.raises(NvmlError, match="although the driver 550") as caught:
        make(host(STUB)).observe()
    assert STUB in caught.value.cause
