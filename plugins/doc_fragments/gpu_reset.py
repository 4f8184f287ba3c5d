# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/gpu_reset.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/gpu_reset.yml."""

    DOCUMENTATION = r"""
options:
  gpus:
    description:
      - The GPUs, each by its UUID, its PCI address, its serial number or NVML's index. V(all) is each GPU of the node.
      - A GPU that the node does not have is refused before the first change.
    type: list
    elements: str
    required: true
  reset:
    description:
      - V(when_needed) resets a GPU of O(gpus) for which the driver asks for it, by its recovery action or the error
        C(GPU requires reset), and one on which a mode, a memory row or a repair waits for its reset. Any other is left
        alone, so that a second run changes nothing.
      - V(always) resets each of O(gpus), in each run. A reset is an action and no state, so this is not idempotent.
      - Neither resets a GPU that a reset does not bring back, such as one that fell off the bus. That is an error,
        which says what does.
    type: str
    choices: [when_needed, always]
    default: when_needed
  together:
    description:
      - Whether GPUs may be reset that are not in O(gpus), where this kind of machine can't reset those without them,
        such as GPUs before Ampere that NVLink connects, or the A100s behind NVSwitches without a fabric manager. With
        V(false) this is refused, and the error names them.
      - With it, all GPUs of a node with NVSwitches are reset by one command, which resets the switches as well. Up to
        NVLink 4, C(nvidia-fabricmanager.service) is stopped meanwhile. This is what a fatal SXid asks for.
    type: bool
    default: false
  on_busy:
    description:
      - What to do about a GPU that is in use, by a process or by a pod that it was given to. V(fail) changes nothing on
        any GPU, V(wait) waits for O(wait_timeout) before the first change, and then fails.
    type: str
    choices: [fail, wait]
    default: fail
  wait_timeout:
    description: Seconds to wait with O(on_busy=wait). If GPUs are in use after that, the module fails as with V(fail).
    type: int
    default: 600
  on_allocated:
    description:
      - With V(refuse), a device that the kubelet has given to a pod, by device plugins or by DRA, is in use, even if no
        process of the pod has it open. RV(blocked_by) names the pod, the container, and the device.
      - With V(ignore), only processes count, and an idle pod may be left with a device that does not work any more.
    type: str
    choices: [refuse, ignore]
    default: refuse
  stop_services:
    description:
      - Services of systemd that hold GPUs open, such as C(nvsm.service) or a C(nvidia-dcgm.service) of yours. If the
        change needs it, those that run are stopped before it, in this order, with the units that stop with them. They
        are started again after it, also when it fails. The next run starts them after a run that was killed.
      - Their processes do not count as use. You don't name DCGM that M(gpu.node.dcgm) manages.
      - Stopping a display manager ends its graphical session.
      - A service that the node does not have, or that must stay, such as the kubelet, container runtimes, and the
        services of this collection, is refused before the first change.
    type: list
    elements: str
    default: []
  lock_timeout: {description: Seconds to wait for another run on the same node., type: int, default: 60}
"""
