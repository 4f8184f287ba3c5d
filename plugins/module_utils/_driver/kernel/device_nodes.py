# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""NVIDIA's device nodes: whatever udev rules a driver comes with, they are there after bring-up and after each boot.

Debian's packages have no udev rule that makes them (nvidia-kernel-common 20240109-1): nvidia-modprobe does, once a
program uses CUDA, which in containers it cannot.
"""

from __future__ import annotations

import re
import typing as t

from ..._base.boot import BEFORE, SANDBOX, unit_file
from ..._base.gpu import CAPS_FOLDER
from ..._base.services.driver import DEVICE_NODES_PROGRAM, DEVICE_NODES_UNIT
from ..._base.steps import Step

UNIT, PROGRAM = DEVICE_NODES_UNIT, DEVICE_NODES_PROGRAM
LINK = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
# Seconds after which the unit counts as started, so that a driver that hangs keeps no kubelet waiting.
PATIENCE = 3
# It makes what nvidia-modprobe would (NVIDIA/nvidia-modprobe, modprobe-utils): what the driver shows in /proc has
# majors, minors, modes and owners, and 195, 254 and 255 are fixed.
TEXT = r"""#!/bin/sh
# Written by gpu.node.nvidia_driver. usage: device-nodes check|make|boot [ROOT]
# check prints the device nodes of NVIDIA's driver that are missing, and links to them; make loads nvidia-uvm and makes
# them. boot does so under systemd, which is told after PATIENCE seconds that it is done, and waits for DKMS where that
# still builds.
set -u
verb=$1 root=${2:-} status=0
if [ "$verb" = boot ]; then
  { sleep "$PATIENCE" && systemd-notify --ready; } >/dev/null 2>&1 &
  until sh "$0" make "$root"; do
    case $(systemctl show --property=Job --value dkms.service) in "" | 0) status=1 && break ;; esac
    sleep 5
  done
  kill $! 2>/dev/null
  systemd-notify --ready
  exit $status
fi
driver=$root/proc/driver/nvidia
if [ "$verb" = make ] && ! grep -q ' nvidia-uvm$' "$root/proc/devices"; then
  modprobe nvidia-uvm && grep -q ' nvidia-uvm$' "$root/proc/devices" || exit 1
fi
[ -r "$driver/params" ] || exit 0
modeset=0
[ -e "$root/sys/module/nvidia_modeset" ] && modeset=1

# Lines of path, major and minor (hexadecimal), mode and owner. Options of the driver say who makes nodes, and how.
# shellcheck disable=SC2046
wanted=$(awk -v modeset=$modeset '
  function node(name, major, minor, mode, owner) {
    printf "%s %x %x %o %s\n", name, major, minor, mode, owner
  }
  FILENAME ~ /\/devices$/ { if (NF == 2) major[$2] = $1; next }
  FILENAME ~ /\/params$/ { option[$1] = $2; next }
  /^Device Minor:/ { gpus[$NF] = 1 }
  /^DeviceFile/ { capability[FILENAME, $1] = $2; files[FILENAME] = 1 }
  END {
    if (option["ModifyDeviceFiles:"] != "0") {
      mode = option["DeviceFileMode:"]
      owner = option["DeviceFileUID:"] ":" option["DeviceFileGID:"]
      node("nvidiactl", 195, 255, mode, owner)
      if (modeset) node("nvidia-modeset", 195, 254, mode, owner)
      for (one in gpus) node("nvidia" one, 195, one, mode, owner)
      uvm = major["nvidia-uvm"]
      node("nvidia-uvm", uvm, 0, mode, owner)
      node("nvidia-uvm-tools", uvm, 1, mode, owner)
    }
    if (major["nvidia-caps"]) for (one in files) if (capability[one, "DeviceFileModify:"] == "1") {
      minor = capability[one, "DeviceFileMinor:"]
      node("nvidia-caps/nvidia-cap" minor, major["nvidia-caps"], minor, capability[one, "DeviceFileMode:"], "0:0")
    }
  }' "$root/proc/devices" "$driver/params" $(find "$driver/gpus" "$driver/capabilities" -type f 2>/dev/null) | sort)
have=$(cd "$root/dev" && stat -c '%n %t %T' nvidia* nvidia-caps/* 2>/dev/null)

# Without a link by its numbers, a systemd before 240 takes a device from containers of runc at its next reload.
links=$(systemctl --version 2>/dev/null | awk 'NR == 1 { print ($2 + 0 < 240) }')

while read -r name major minor mode owner; do
  path=$root/dev/$name link=dev/char/$((0x$major)):$((0x$minor))
  case "
$have
" in
  *"
$name $major $minor
"*) ;;
  *)
    if [ "$verb" = check ]; then
      echo "/dev/$name"
    else
      mkdir -p "${path%/*}" && rm -f "$path.new" &&
        mknod -m "$mode" "$path.new" c "0x$major" "0x$minor" && chown "$owner" "$path.new" &&
        mv -f "$path.new" "$path" || status=1
      if command -v restorecon >/dev/null; then restorecon "$path"; fi
    fi
    ;;
  esac
  if [ "$links" != 1 ] || [ -e "$root/$link" ]; then continue; fi
  if [ "$verb" = check ]; then
    echo "/$link"
  else
    mkdir -p "$root/dev/char" && ln -sfn "../$name" "$root/$link" || status=1
  fi
done <<END
$wanted
END
exit $status
"""
UNIT_TEXT = f"""\
# Written by gpu.node.nvidia_driver.
[Unit]
Description=Make the device nodes of NVIDIA GPUs (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service
Before=nvidia-persistenced.service gpu-mig.service gpu-settings.service gpu-cdi.service
Before=nvidia-cdi-refresh.service slurmd.service
Before={BEFORE}
ConditionPathExists={PROGRAM}

[Service]
Type=notify
NotifyAccess=all
RemainAfterExit=yes
Environment=PATIENCE={PATIENCE}
ExecStart=/bin/sh {PROGRAM} boot
TimeoutStartSec=180
RuntimeMaxSec=900

{SANDBOX}
[Install]
WantedBy=multi-user.target
"""
FILES = {PROGRAM: TEXT, unit_file(UNIT): UNIT_TEXT}


class Access(t.NamedTuple):
    """Who may open a device node: its mode, and its owner as uid and gid."""

    mode: int
    uid: int
    gid: int


class Differing(t.NamedTuple):
    """A device node to which somebody has given another mode or owner than the driver says."""

    path: str
    has: Access
    meant: Access

    def __str__(self) -> str:
        has, meant = self.has, self.meant
        return (
            f"{self.path} has mode {has.mode:04o} and owner {has.uid}:{has.gid}, not {meant.mode:04o} and "
            f"{meant.uid}:{meant.gid}"
        )

    @property
    def is_closed(self) -> bool:
        """Return whether users whom the driver's options allow can't open it."""
        return bool(self.meant.mode & ~self.has.mode) or self.has[1:] != self.meant[1:]


class DeviceNodes(t.NamedTuple):
    """The device nodes where the driver is loaded, and whether they are made at each boot.

    ``missing`` do not exist or have another number than the driver's, ``differing`` another mode or owner.
    """

    missing: t.Tuple[str, ...] = ()
    at_boot: bool = True
    differing: t.Tuple[Differing, ...] = ()


NOTHING_MISSING = DeviceNodes()
CAPABILITIES = "/proc/driver/nvidia/capabilities"
# Those of which the options tell; each capability of MIG has its own.
OF_OPTIONS = re.compile(r"/dev/nvidia(?:\d+|ctl|-uvm|-uvm-tools|-modeset)")
SAY_SO = (
    "or, if it is meant, say so by NVreg_DeviceFileMode, NVreg_DeviceFileUID and NVreg_DeviceFileGID in "
    "nvidia_driver_module_options"
)


def meant(params: str) -> t.Optional[Access]:
    """Return the access that the loaded driver's options give its device nodes, None if they leave it to others."""
    parameters = dict(re.findall(r"^(\w+): (\d+)$", params, re.M))
    names = ("DeviceFileMode", "DeviceFileUID", "DeviceFileGID")
    if parameters.get("ModifyDeviceFiles", "0") == "0" or not parameters.keys() >= set(names):
        return None
    return Access(*(int(parameters[name]) for name in names))


def meant_of(capability: str) -> t.Tuple[str, t.Optional[Access]]:
    """Return the device node of a MIG capability and its access, by the driver's file; None if that gives none."""
    properties = dict(re.findall(r"^(\w+): (\d+)$", capability, re.M))
    names = {"DeviceFileMinor", "DeviceFileMode"}
    if properties.get("DeviceFileModify") != "1" or not properties.keys() >= names:
        return "", None
    access = Access(int(properties["DeviceFileMode"]), 0, 0)
    return f"{CAPS_FOLDER}/nvidia-cap{properties['DeviceFileMinor']}", access


def way_back(nodes: t.Sequence[Differing]) -> str:
    """Return the next step that restores device nodes, of which there is at least one."""
    alike: t.Dict[Access, t.List[str]] = {}
    for node in nodes:
        alike.setdefault(node.meant, []).append(node.path)
    rows = ((access, " ".join(paths)) for access, paths in alike.items())
    commands = " && ".join(
        f"chown {access.uid}:{access.gid} {paths} && chmod {access.mode:04o} {paths}"
        for access, paths in rows
    )
    of_options = any(OF_OPTIONS.fullmatch(node.path) for node in nodes)
    return f"{commands}, {SAY_SO}" if of_options else commands


def warnings(nodes: DeviceNodes) -> t.Tuple[str, ...]:
    """Return the warning about device nodes whose mode or owner differs."""
    if not nodes.differing:
        return ()
    return (f"{'; '.join(map(str, nodes.differing))}. Next step: {way_back(nodes.differing)}",)


def plan(nodes: DeviceNodes) -> t.List[Step]:
    """Return the step that makes the device nodes, now and at each boot."""
    parts = [f"make {', '.join(nodes.missing)}"] if nodes.missing else []
    parts += [] if nodes.at_boot else [f"have {UNIT} make NVIDIA's device nodes at each boot"]
    return [Step("device_nodes", "; ".join(parts))] if parts else []
