# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Set GPUs to power limits, clocks and modes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: settings
short_description: Set GPUs to power limits, clocks, and modes
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Sets GPUs as rules say, through NVML. Each value is compared with what the board allows before the first change, and
    read again after it.
  - Power limit and profiles, clocks, persistence, compute mode, and accounting take effect at once, and disturb nothing
    that uses the GPU. An ECC mode takes effect after a reset of the GPU or a reboot. RV(reboot_required) says so; this
    module does neither.
  - What a GPU was set to before is kept in C(/var/lib/gpu-node/settings.json), and comes back if no rule asks for the
    setting any more, or with O(state=absent).
  - NVML does not tell whether clocks are locked. They count as locked as they were last, until the driver is loaded
    again, the GPU is reset, or the clock that it runs at is beyond the lock.
  - A reboot, another load of the driver, and a reset of the GPU lose everything but ECC. With O(boot)
    C(gpu-settings.service) sets the GPUs again then; without it, run the module again.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.settings
attributes:
  check_mode:
    details: Where NVML is not there the rules are checked in form only, and RV(nvml_error) says why.
seealso:
  - module: gpu.node.gpu_info
"""

EXAMPLES = r"""
- name: Cap all H100s at 550 W, and keep the driver loaded
  gpu.node.settings:
    rules:
      - match: {model: "H100*"}
        persistence: true
        power_limit: 550

- name: Lock the clocks of two GPUs for benchmarks, and leave the others at 80 % of their power
  gpu.node.settings:
    rules:
      - power_limit: 80%
      - match: {index: [0, 1]}
        power_limit: default
        gpu_clocks: [1200, 1500]

- name: Have Blackwells save power, where they train
  gpu.node.settings:
    rules:
      - match: {model: "B200*"}
        power_profiles: [max_q, llm_training]

- name: Give back what there was before
  gpu.node.settings:
    state: absent
"""

RETURN = r"""
state:
  description: Which state was asked for.
  returned: success
  type: str
gpus:
  description: The GPUs of the node.
  returned: success
  type: list
  elements: dict
  contains:
    index:
      description: NVML's index.
      type: int
    uuid:
      description: UUID.
      type: str
    name:
      description: Product name.
      type: str
    settings:
      description:
        - What it is set to, in check mode what it would be - power in milliwatts, clocks in MHz, none where they are
          not locked, or not known to be.
      type: dict
    unsupported:
      description: The settings that rules ask for and that the GPU does not have.
      type: list
      elements: str
    enforced:
      description:
        - What holds of a power limit, in milliwatts, and of power profiles where that is not what they are set to, as
          where a BMC caps the power.
      type: dict
    left_alone:
      description: Why a GPU in quarantine is left alone, in words; empty if it is not.
      type: str
      version_added: 0.2.0
    pending:
      description: What holds after a reset of the GPU or a reboot only, in words.
      type: str
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
  contains:
    action:
      description: Name of the step.
      type: str
    summary:
      description: The step as text.
      type: str
    needs:
      description:
        - What it takes for a step to hold - nothing where it holds at once, C(reset) for a reset of the GPU or a
          reboot.
      type: list
      elements: str
blocked_by:
  description: The processes and pods that a compute mode would keep out of their GPU.
  returned: always, but on failures for other reasons
  type: list
  elements: str
reboot_required:
  description: Whether a setting waits for a reset of a GPU or a reboot.
  returned: success
  type: bool
reboot_reasons:
  description: The settings that wait.
  returned: success
  type: list
  elements: str
nvml_available:
  description: Whether NVML answered.
  returned: success
  type: bool
nvml_error:
  description: Why it did not.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._generated.settings import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability
from ansible_collections.gpu.node.plugins.module_utils._settings.capability import (
    SettingsCapability,
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: SettingsCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
