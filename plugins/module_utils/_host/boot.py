# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What sets values of the kernel, now and at each boot: a program for the node's own shell, and its unit."""

from __future__ import annotations

import typing as t

from .._base.boot import BEFORE, SANDBOX, Boot

CONFIG = "/etc/gpu-node/host"
UNIT = "gpu-host.service"
# Access Control Services are among a bridge's extended capabilities, which begin at 256 and of which each names the
# next one: ID 13, with the control register 6 bytes after its header (include/uapi/linux/pci_regs.h).
PROGRAM = r"""#!/bin/sh
# Written by gpu.node.host. usage: host [acs_show | acs_set CONTROL ADDRESS... | put VALUE FILE...]
# Without words it does what its last lines say. GPU_NODE_ROOT is where /sys is, if that is not /.
set -u
root=${GPU_NODE_ROOT:-} status=0
bus=$root/sys/bus/pci/devices

acs_at() { # prints where a bridge's control register is, nothing where it has none
  od -An -v -tu4 -w4 -j256 "$1/config" 2>/dev/null | awk '
    { word[NR - 1] = $1 }
    END {
      for (at = 256; at >= 256 && !seen[at]++; at = int(header / 4194304) * 4) {
        header = word[(at - 256) / 4]
        if (header == 0 || header == 4294967295 || at / 4 - 63 >= NR) exit
        if (header % 65536 == 13) { print at + 6; exit }
      }
    }'
}

acs_show() { # prints the bridges above NVIDIA's GPUs and above NICs that have ACS, with their control registers
  for device in "$bus"/*; do
    # A machine has hundreds of devices, so no program is run for each.
    { read -r vendor <"$device/vendor" && read -r class <"$device/class"; } 2>/dev/null || continue
    case "$vendor $class" in
      "0x10de 0x03"* | *" 0x02"*) path=$(readlink -f "$device") ;;
      *) continue ;;
    esac
    while path=${path%/*}; do
      case ${path##*/} in *:*:*.*) echo "$path" ;; *) break ;; esac
    done
  done | sort -u | while read -r bridge; do
    at=$(acs_at "$bridge")
    [ -z "$at" ] || echo "${bridge##*/} $(od -An -tx2 -j"$at" -N2 "$bridge/config" | tr -d ' ')"
  done
}

acs_set() {
  bytes="\\$(printf %o "0x${1#??}")\\$(printf %o "0x${1%??}")"
  shift
  for address; do
    at=$(acs_at "$bus/$address")
    # shellcheck disable=SC2059
    printf "$bytes" | dd of="$bus/$address/config" bs=2 seek=$((at / 2)) conv=notrunc status=none || status=1
  done
}

acs_off() {
  for guest in "$root"/sys/bus/pci/drivers/vfio-pci/*:*:*.*; do
    [ -e "$guest" ] || continue
    echo "${guest##*/} has the driver vfio-pci, so ACS stays as it is" >&2
    status=1
    return
  done
  # shellcheck disable=SC2046
  acs_set 0000 $(acs_show | cut -d ' ' -f 1)
}

put() {
  value=$1
  shift
  for file; do
    [ ! -e "$file" ] || echo "$value" >"$file" || status=1
  done
}

if [ $# -gt 0 ]; then
  "$@"
  exit $status
fi
"""
# It writes into /sys and /proc/sys, and a bridge's whole configuration is for CAP_SYS_ADMIN only.
OWN_SANDBOX = (
    SANDBOX.replace("CAP_CHOWN CAP_MKNOD CAP_SYS_ADMIN CAP_SYS_MODULE", "CAP_SYS_ADMIN")
    .replace("ProtectKernelTunables=yes\n", "")
    .replace(" @module", "")
)
UNIT_TEXT = f"""\
# Written by gpu.node.host.
[Unit]
Description=Set what NVIDIA GPUs want of their host (gpu.node)
Documentation=https://github.com/gpu-node/gpu.node
After=systemd-modules-load.service systemd-udev-settle.service
Before={BEFORE}
Before=slurmd.service
ConditionPathExists={CONFIG}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {CONFIG}
TimeoutStartSec=180

{OWN_SANDBOX}
[Install]
WantedBy=multi-user.target
"""
TEXTS = {UNIT: UNIT_TEXT}
BOOT = Boot(CONFIG, UNIT, "sets the host", "boot")


def text(lines: t.Sequence[str]) -> t.Optional[str]:
    """Return the program's text, None if it has nothing to do at boot."""
    return "\n".join([PROGRAM, *lines, "exit $status\n"]) if lines else None
