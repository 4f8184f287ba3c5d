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
  acs:
    description:
      - With V(disabled), Access Control Services are switched off at the PCI bridges above NVIDIA's GPUs and above
        NICs, so that these reach each other directly. It is refused on a host that hands devices to guests.
    type: str
    choices: [unmanaged, disabled]
    default: unmanaged
  hugepages:
    description:
      - How many huge pages the kernel reserves, by their size such as V(2M) or V(1G). Sizes that are not named are left
        alone.
    type: dict
    default: {}
  governor:
    description:
      - With V(performance), processors are kept at their highest clock. It is refused while C(tuned) sets something
        else.
    type: str
    choices: [unmanaged, performance]
    default: unmanaged
  numa_balancing:
    description:
      - With V(disabled), the kernel does not move memory between NUMA nodes by itself.
    type: str
    choices: [unmanaged, disabled]
    default: unmanaged
  memlock:
    description:
      - How much memory a process may lock that a container runtime, Slurm, or sshd starts - V(unlimited), or a number
        of GiB such as V(64G). It holds from the next start of each of these services on, which RV(restart_required)
        names.
    type: str
    default: unmanaged
  lock_timeout:
    description:
      - Seconds to wait for another run on the same node.
    type: int
    default: 60
"""
