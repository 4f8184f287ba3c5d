# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/quarantine.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/quarantine.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - With V(present), what is named is in quarantine; with V(absent), it is not.
    type: str
    choices: [present, absent]
    default: present
  gpus:
    description:
      - The GPUs, by UUID, NVML's index, PCI address, or serial number. A serial number stands for all GPUs of its
        board.
      - V(all) means all GPUs of the node, and with O(state=absent) all that are in quarantine.
      - An index is the current one. The UUID is kept, with the serial number and the address for people.
      - A GPU that does not answer is known by what was recorded when the driver was set up, or found since.
    type: list
    elements: str
    default: []
  node:
    description:
      - Whether the node itself is set aside, with all GPUs that it has or gets. O(gpus) has entries of its own, which
        stay when the node is released.
    type: bool
    default: false
  reason:
    description:
      - Why, for those who find it that way. Required with O(state=present). At most 500 characters, in one line.
    type: str
    default: ""
  ticket: {description: The ticket that this belongs to., type: str, default: ""}
  by:
    description:
      - Who sets it aside or gives it back. V(repair) changes and ends nothing that an V(operator) has set aside; an
        V(operator) changes and ends everything.
    type: str
    choices: [operator, repair]
    default: operator
"""
