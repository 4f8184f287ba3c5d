# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Bundles of a small release, made by the genuine pip from an index of our own."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.library.bundles_made import SERVED, Bundle, release
from tests.fakes.library.hostile_index import Index


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """Serve the wheels where pip on this machine is set to look."""
    with served(monkeypatch) as found:
        yield found


@contextlib.contextmanager
def served(patch: pytest.MonkeyPatch) -> Iterator[Index]:
    for name in [one for one in os.environ if one.startswith("PIP_")]:
        patch.delenv(name)
    patch.setenv("PIP_CONFIG_FILE", os.devnull)
    patch.setenv("PIP_NO_CACHE_DIR", "1")
    with Index(SERVED) as found:
        patch.setenv("PIP_INDEX_URL", found.url)
        yield found


@pytest.fixture
def bundle(tmp_path: Path, index: Index) -> Bundle:
    """Return where a bundle of a small release is to be."""
    return Bundle(tmp_path / "bundle", release(tmp_path / "installed/gpu/node"))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a bundle once."""
    folder = tmp_path_factory.mktemp("template")
    made = Bundle(folder / "bundle", release(folder / "installed/gpu/node"))
    with pytest.MonkeyPatch.context() as patch, served(patch):
        made.make()
    return made.path


@pytest.fixture
def made(bundle: Bundle, template: Path) -> Bundle:
    """Return a bundle that is there."""
    shutil.copytree(template, bundle.path)
    return bundle
