# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A release of the device plugin: its environment, in which nothing is that is not listed."""

from __future__ import annotations

import os
import typing as t

from ..._core.agent.index_url import masked
from ..._core.errors import NodeError
from ..._host.api import Host

SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
PIP_OPTIONS = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir")
ONLY_LISTED = ("--require-hashes", "--only-binary=:all:", "--no-deps")
SCRIPT = """#!{python}
import sys

from gpu_plugin.cli import main

sys.exit(main())
"""
HINT = (
    "give the role a package index (device_plugin_index_url) or a wheelhouse (device_plugin_wheelhouse);"
    " what the daemon's requirements.txt does not list by its hash is not installed, nor is anything built"
)


def fill(host: Host, release: str, python: str, payload: str, index_url: t.Optional[str]) -> None:
    """Make the environment of a release from the archive that the controller has sent."""
    host.makedirs(f"{release}/payload")
    host.run(["tar", "-xzf", payload, "-C", f"{release}/payload"])
    host.run([python, "-m", "venv", release])
    _libraries(host, release, index_url)
    _daemon(host, release)
    # The Kubernetes client has two thousand files, of which few are ever loaded.
    own = f"{release}/bin/python"
    host.run([own, "-m", "compileall", "-q", "-x", "/kubernetes/", f"{release}/lib"])
    host.run([own, "-I", "-c", "import gpu_plugin.labels.api"])
    host.run([f"{release}/bin/gpu-plugin", "--version"])


def _libraries(host: Host, release: str, index_url: t.Optional[str]) -> None:
    pip = [f"{release}/bin/python", "-I", "-m", "pip", "install", *PIP_OPTIONS, *ONLY_LISTED]
    pip.append("--no-compile")
    if host.exists(f"{release}/payload/wheels"):
        pip += ["--no-index", "--find-links", f"{release}/payload/wheels"]
        index_url = None
    listed = f"{release}/payload/package/requirements.txt"
    try:
        host.run([*pip, "--requirement", listed], env=_environment(index_url))
    except NodeError as error:
        error.cause, error.hint = masked(error.cause, index_url or ""), HINT
        raise


def _environment(index_url: t.Optional[str]) -> t.Dict[str, str]:
    """Return what leaves pip without any configuration but ours.

    It reads no file where the name of its file is that of the null device, and takes an empty variable for none. The
    address may hold a password: other users can read a process's command line, but not its environment.
    """
    found = {name: "" for name in os.environ if name.startswith("PIP_")}
    return {**found, "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index_url or ""}


def _daemon(host: Host, release: str) -> None:
    """Put the daemon's sources where its libraries are: to install it by pip would be to build it."""
    own = f"{release}/bin/python"
    site = host.run([own, "-I", "-c", SITE]).out.strip()
    host.run(["cp", "-R", f"{release}/payload/package/src/gpu_plugin", f"{site}/gpu_plugin"])
    host.write(f"{release}/bin/gpu-plugin", SCRIPT.format(python=own), mode=0o755)
