# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the driver that only apt's packages know."""

from __future__ import annotations


class ModuleDocFragment:
    """For the module that installs the driver."""

    DOCUMENTATION = r"""
options:
  adopt:
    description:
      - Take over a driver that somebody else has installed, with its packages, be they a desktop's, a server's,
        headless or those that track a kernel. They stay, get the version that the driver has, and are held.
      - For another branch or type of kernel modules their counterparts come in their place, such as
        C(nvidia-driver-595-open) for C(nvidia-driver-580-open), and what has none is removed. The plan, the diff and
        the result name each.
      - A driver from NVIDIA's installer is uninstalled once the packages that take its place are on the node. With
        O(source=runfile) another version replaces it.
      - What was taken over stays so without this option. O(state=absent) puts back each package that was changed or
        removed since, in the version that it had, in one transaction. Where one of them cannot be had any more, and
        where the driver was from NVIDIA's installer, the driver stays as it is, with its sources, and only the holds
        go.
      - Without it, nothing is removed that no earlier run has added. With dnf and zypper only a driver from NVIDIA's
        installer is taken over.
    type: bool
    default: false
  hold_kernel:
    description:
      - With O(hold), hold the packages that bring new kernels as well, such as C(linux-image-generic), so that no
        kernel comes that has no modules for the driver that is held. Only with apt.
      - No fix of the kernel comes until the hold is released by a run without this option.
    type: bool
    default: false
"""
