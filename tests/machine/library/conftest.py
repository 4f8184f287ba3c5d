# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Releases of the daemon that are really made, by the genuine pip, and keys that repositories are signed with."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from ansible_collections.gpu.node.plugins.module_utils._device_plugin.capability import (
    DevicePluginCapability,
)

from tests.fakes.library.hostile_index import (
    GOOD,
    Install,
    QuickHost,
    listed,
    make_template,
    payload,
)
from tests.fakes.packages.pgp_keys import Key


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key(tmp_path_factory.mktemp("key") / "home")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """Return the key of somebody else."""
    return Key(tmp_path_factory.mktemp("stranger") / "home", "ed25519")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template") / "venv")


@pytest.fixture
def install(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes a release below ``prefix``, as the module does on a node."""
    monkeypatch.setattr(DevicePluginCapability, "_prune", lambda _self: None)
    for name in [one for one in os.environ if one.startswith(("PIP_", "PYTHON"))]:
        monkeypatch.delenv(name)
    for name in ("HOME", "XDG_CONFIG_HOME"):  # a user's settings go before the machine's
        monkeypatch.setenv(name, str(tmp_path / "home"))

    def make(
        url: t.Optional[str],
        wheels: t.Optional[t.Mapping[str, bytes]] = None,
        requirements: str = listed(GOOD),
    ) -> QuickHost:
        params = dict.fromkeys(("labels", "config", "python", "units"))
        told = {
            **params,
            "state": "installed",
            "digest": "r1",
            "prefix": str(tmp_path / "prefix"),
            "configs": {},
            "allocation": "device_plugin",
            "dra": {"devices": [], "kubeconfig": "", "node_name": ""},
            "keep_releases": 2,
            "index_url": url,
            "lock_timeout": 300,
            "wait_timeout": 60,
            "install_python": False,
            "require_kubelet": False,
            "payload": payload(tmp_path, requirements, wheels or {}),
        }
        host = QuickHost(template)
        DevicePluginCapability(host, told, check_mode=False)._do_release()
        return host

    return make
