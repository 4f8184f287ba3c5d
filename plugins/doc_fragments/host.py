# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/host.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/host.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - With V(present), the host is set as the options say. V(absent) gives back what there was before it was set for
        the first time. The other options are ignored then.
    type: str
    choices: [present, absent]
    default: present
  iommu:
    description:
      - With V(pt), devices reach memory without translation, and guests can still be given devices. With V(off), the
        kernel does not use the IOMMU at all, which is refused where guests have devices.
      - The options are added to the kernel command line by the boot loader's own way, and hold after a reboot. With
        V(unmanaged), the command line is left alone, or loses what this module has added.
    type: str
    choices: [unmanaged, pt, "off"]
    default: unmanaged
  lock_timeout:
    description:
      - Seconds to wait for another run on the same node.
    type: int
    default: 60
"""
