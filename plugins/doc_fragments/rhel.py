# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of nvidia_driver that are for the RHEL family."""

from __future__ import annotations


class ModuleDocFragment:
    """The fragment gpu.node.rhel."""

    DOCUMENTATION = r"""
options:
  precompiled:
    description:
      - In the RHEL family, whether to take kernel modules that are compiled and signed already, a package for each
        kernel and version of the driver, such as C(kmod-nvidia-580.95.05-5.14.0-570.12.1), instead of DKMS.
      - V(auto) does so with Secure Boot on, unless modules from DKMS are installed, and goes on where it has begun.
        Where the running kernel has none, DKMS builds them, as far as Secure Boot lets it.
      - V(require) refuses where the running kernel has none, V(never) takes DKMS.
      - NVIDIA's are proprietary, in module streams that are called as the branch is, and signed with a key of its own
        that must be enrolled. Red Hat's are open, and need no key.
    type: str
    choices: [auto, require, never]
    default: auto
  prerequisites:
    description:
      - In the RHEL family, what to do where EPEL, which has dkms, or dnf's plugin versionlock is missing.
      - V(refuse) names it and what brings it. V(install) installs C(epel-release), in Oracle Linux its own package of
        that kind, and the plugin from the sources that the node has. Nothing is fetched from anywhere else.
    type: str
    choices: [refuse, install]
    default: refuse
"""
