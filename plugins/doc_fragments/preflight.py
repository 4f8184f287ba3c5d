# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a module is given that refuses what a bring-up would fail at."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation shared by gpu.node.preflight and gpu.node.plan."""

    DOCUMENTATION = r"""
options:
  components:
    description: The parts of the bring-up that are to come.
    type: list
    elements: str
    choices: [driver, runtime, toolkit, mig, cdi, device_plugin, labels, dcgm, validate]
    default: [driver, runtime, toolkit, mig, cdi, device_plugin, labels, dcgm, validate]
  cloud_init_timeout:
    description:
      - How many seconds to wait until C(cloud-init) is done, where it is at work on a node with GPUs. V(0) does not
        wait.
    type: int
    default: 0
  refused:
    description: What the controller has refused already. Set by the action plugin.
    type: list
    elements: dict
    default: []
"""
