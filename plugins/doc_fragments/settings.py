# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/settings.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/settings.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - With V(present), GPUs are set as O(rules) say. V(absent) gives each GPU back what it was set to before it was
        set for the first time. O(rules) is ignored then.
    type: str
    choices: [present, absent]
    default: present
  rules:
    description:
      - Which settings which GPUs get. If several rules match a GPU, the last that names a setting counts. A setting
        that no rule names is left alone, or becomes what it was before if this module has set it.
      - C(match) is C(all), which is the default, or a mapping of C(model), C(uuid), C(index), and C(pci), each with a
        value or a list of them. A GPU matches that is one of each. C(model) may have C(*) and C(?).
      - C(persistence), C(ecc), and C(accounting) are V(true) or V(false).
      - C(power_limit) is a number of watts, a share of the board's default such as C(80%), or C(default).
      - C(power_profiles) is some of the workload power profiles that GPUs from Blackwell on have, such as C([max_q]),
        or C(default) for none. A board has some of them, and some conflict.
      - C(gpu_clocks) and C(memory_clocks) are two clocks in MHz between which the GPU runs, one clock, or C(default)
        for no lock.
      - C(compute_mode) is C(default), C(exclusive_process), or C(prohibited).
      - A GPU that is in MIG mode, or is about to be, has the default as its C(compute_mode) and no C(accounting), so
        anything else is refused for it.
      - A value that a board does not allow is refused before anything is set, with the values that it allows. A setting
        that a GPU does not have at all is left out with a warning.
    type: list
    elements: dict
    default: []
  boot:
    description:
      - Whether C(gpu-settings.service) sets the GPUs again after they have lost what they were set to - at boot, after
        C(nvidia-persistenced.service) was started, as it is after a load of the driver and after a reset, and after
        another MIG layout was made. What somebody has changed by hand since is left alone, and so is ECC, which no GPU
        loses. Needs C(/opt/gpu-node/bin/gpu-plugin), which M(gpu.node.device_plugin) installs.
      - V(false) removes the units and their file. So does V(state=absent), and an empty O(rules).
    type: bool
    default: true
  lock_timeout:
    description:
      - Seconds to wait for another run on the same node.
    type: int
    default: 60
  releasing:
    description:
      - UUIDs of GPUs that an operator has set aside and that are about to be released, so that they are set. Other GPUs
        that an operator has set aside are left alone. Those that M(gpu.node.repair) has set aside are set, since a
        repair proves and releases GPUs that are as they are declared.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
"""
