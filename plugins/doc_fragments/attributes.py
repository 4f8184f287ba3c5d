# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every module supports; one that differs states the difference alone, which counts."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation shared by the modules; ``NVML`` is for those that ask NVML."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return the plan without changing the node.
    support: full
  diff_mode:
    description: Returns what the plan changes in diff mode.
    support: full
  idempotent:
    description: A second run on a node that has not drifted changes nothing.
    support: full
  platform:
    description: The platforms that the module runs on.
    support: full
    platforms: linux
"""

    NVML = r"""
options: {}
requirements:
  - nvidia-ml-py on the node for what NVML reports; C(/opt/gpu-node), made by M(gpu.node.device_plugin), has it.
"""
