# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Where podman looks for CDI specifications: by its release, and by the files that it merges."""

from __future__ import annotations

import pytest
from ansible_collections.gpu.node.plugins.module_utils._cdi import boot
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.check import FAILED
from ansible_collections.gpu.node.plugins.module_utils._checks.validate.machine import runtimes

from tests.fakes.library.runtime_host import RuntimeHost, planned

VENDOR, SYSTEM = "/usr/share/containers/containers.conf", "/etc/containers/containers.conf"
DROP_IN = f"{SYSTEM}.d/20-site.conf"
BOTH = ["/etc/cdi", "/var/run/cdi"]
BOOT = (
    '{"path": "/etc/cdi/a.yaml", "hooks": "auto", "library_folders": [], "driver_root": "/", '
    '"generator": "nvml"}'
)


def set_to(*folders: str, appends: bool = False) -> str:
    """Return a file that sets the folders, or appends them to those of files before."""
    items = [*(f'"{one}"' for one in folders), *(["{append=true}"] if appends else [])]
    return f"[engine]\ncdi_spec_dirs = [{', '.join(items)}]\n"


def warned(version: str, *wanted: str, **files: str) -> str:
    """Return the warning of a podman with these files and folders that are wanted."""
    host = RuntimeHost(files, podman=version)
    found = planned(host, name="podman", spec_dirs=[*wanted] or BOTH).warnings
    assert len(found) <= 1
    return found[0] if found else ""


@pytest.mark.parametrize("version", ["4.3.1", "5.4.2"])
def test_podman_that_reads_no_setting_is_told_what_helps(version: str) -> None:
    assert warned(version, **{SYSTEM: set_to("/opt/cdi")}) == ""
    said = warned(version, "/etc/cdi", "/opt/cdi")
    assert said.startswith(f"podman {version} reads no CDI specifications in /opt/cdi. Next step: ")
    assert "write the specification to /etc/cdi (cdi_path), or upgrade podman to 5.5" in said


@pytest.mark.parametrize(
    ("files", "lacking", "step"),
    [
        ({}, "/opt/cdi", f'["/etc/cdi", "/var/run/cdi", "/opt/cdi"] in [engine] of {SYSTEM}'),
        (
            {DROP_IN: set_to("/srv")},
            "/etc/cdi, /var/run/cdi, /opt/cdi",
            f'["/srv", "/etc/cdi", "/var/run/cdi", "/opt/cdi"] in [engine] of {DROP_IN}',
        ),
        (
            {VENDOR: set_to(*BOTH), DROP_IN: set_to("/srv", appends=True)},
            "/opt/cdi",
            f'["/etc/cdi", "/var/run/cdi", "/srv", "/opt/cdi"] in [engine] of {DROP_IN}',
        ),
    ],
)
def test_whole_list_and_its_file_are_named(files: dict[str, str], lacking: str, step: str) -> None:
    said = warned("5.8.6", *BOTH, "/opt/cdi", **files)
    assert said == (
        f"podman 5.8.6 reads no CDI specifications in {lacking}. Next step: set cdi_spec_dirs = {step}"
    )
    merged = warned(
        "5.8.6", *BOTH, "/opt/cdi", **files, **{f"{SYSTEM}.d/30-x.conf": set_to(*BOTH, "/opt/cdi")}
    )
    assert merged == ""


def test_releases_that_read_one_folder_by_themselves_are_told() -> None:
    assert "5.5.1 reads no CDI specifications in /var/run/cdi" in warned("5.5.1")
    assert warned("5.5.2") == ""


def test_podman_that_does_not_read_the_specification_is_not_ready() -> None:
    host = RuntimeHost({boot.CONFIG: BOOT, DROP_IN: set_to("/opt/cdi")}, podman="5.8.6")
    found = runtimes.look(host, runtimes.there(host), required="podman")["podman"]  # type: ignore[arg-type]
    assert found.state == FAILED
    assert found.cause == "it reads /opt/cdi, and the specification is in /etc/cdi"
