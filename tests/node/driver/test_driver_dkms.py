# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The open kernel modules, really built by DKMS from the kernel's headers: several minutes of two cores."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gpunode_tool.testing import Node

from tests.node.driver.drivers import answer, play

pytestmark = [pytest.mark.node, pytest.mark.long]

# The node's kernel is the host's, of which Debian has no headers: it gets the name of one of Debian's.
BOOT = """\
echo "$1" >/run/osrelease
mount --bind /run/osrelease /proc/sys/kernel/osrelease
cat >/usr/local/bin/uname <<'END'
#!/bin/sh
[ "$*" = -r ] && exec cat /proc/sys/kernel/osrelease
exec /usr/bin/uname "$@"
END
chmod 755 /usr/local/bin/uname
"""
OVERRIDE = "/etc/dkms/nvidia-current-open.conf"
BROKEN = "MAKE[0]=\"echo 'pci.c:1:1: error: what the test has broken'; false\""


def test_modules_are_built_and_a_build_that_fails_is_told(make_node: Callable[..., Node]) -> None:
    node = make_node("drv-dkms", "a100-40", 1, suite="bookworm")
    node.run("apt-get", "-q", "update")
    found = node.run("apt-cache", "depends", "linux-headers-amd64")
    kernel = found.split("Depends: linux-headers-")[1].split()[0]
    node.run("sh", "-c", BOOT, "sh", kernel)

    node.run("sh", "-c", 'mkdir -p /etc/dkms; printf "%s\\n" "$1" >"$2"', "sh", BROKEN, OVERRIDE)
    failed = play(node)
    assert not failed.ok
    result = answer(failed)
    assert (
        f"DKMS could not build nvidia-current-open 535.261.03 for the kernel {kernel}"
        in result["msg"]
    )
    assert "what the test has broken" in result["cause"]
    assert [one["state"] for one in result["dkms"]] == ["failed"]

    node.run("rm", OVERRIDE)
    done = play(node)
    assert done.ok, done.message()
    result = answer(done)
    assert "\nii " in node.run("dpkg", "-l", f"linux-headers-{kernel}")
    assert [(one["kernel"], one["state"]) for one in result["dkms"]] == [(kernel, "installed")]
    built = node.run("find", f"/lib/modules/{kernel}/updates", "-name", "nvidia-current-open.ko*")
    assert node.run("modinfo", "-F", "version", built.strip()).strip() == "535.261.03"
    assert kernel in node.run("modinfo", "-F", "vermagic", built.strip())
    again = play(node)
    assert again.ok, again.message()
    assert again.changed() == []

    gone = play(node, nvidia_driver_state="absent")
    assert gone.ok, gone.message()
    assert node.run("find", "/lib/modules", "-name", "*nvidia*.ko*") == ""
    assert node.run("dpkg", "-l", f"linux-headers-{kernel}", check=False).count("\nii ") == 0
