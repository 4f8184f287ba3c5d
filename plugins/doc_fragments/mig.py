# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/mig.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/mig.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - V(absent) gives each GPU back the MIG mode and the instances, at their places, that it had before the first
        change, and removes the unit that makes a layout again at boot. O(config) and O(selected) are ignored.
      - A GPU that was never changed is left alone. So is one on which somebody else has made instances since, with a
        warning that names them.
    type: str
    choices: [present, absent]
    default: present
    version_added: 0.2.0
  config:
    description:
      - A mig-parted configuration, version C(v1); its C(mig-configs) alone; or one list of entries.
      - Besides indices, C(devices) takes UUIDs and PCI addresses, and C(device-filter) takes product names.
      - If several entries match a GPU, the last one counts. A GPU that no entry matches is left alone.
      - A profile with a C(c) part, such as C(1c.3g.40gb), is a compute instance. As many as fit share a GPU instance.
    type: raw
  selected:
    description:
      - The layout to apply. Optional if O(config) has exactly one.
      - Also V(all-disabled), V(all-balanced), or V(all-) with a profile of the GPUs, with or without O(config). In such
        a name a dot may replace the plus sign of a profile, as in V(all-1g.10gb.me).
    type: str
    default: ""
  on_busy:
    description:
      - What to do if a process uses a GPU, or a pod has an instance that the change removes.
      - V(fail) changes nothing on any GPU. V(skip) leaves out the GPUs concerned, with a warning. V(wait) waits for
        O(wait_timeout) before the first change, and then fails.
      - No choice changes a GPU under a process, as V(proceed) of M(gpu.node.nvidia_driver) does. The driver destroys no
        instance that a process is on.
      - In check mode the plan for idle GPUs is returned with V(fail) and V(wait), with RV(blocked_by) and RV(refused).
        A layout that the GPUs can't have at all fails there as well.
    type: str
    choices: [fail, skip, wait]
    default: fail
  wait_timeout:
    description: Seconds to wait with O(on_busy=wait). If GPUs are in use after that, the module fails as with V(fail).
    type: int
    default: 600
  reset:
    description:
      - Whether to reset a GPU whose MIG mode waits for it, once no process is on it. No other GPU is reset.
      - With V(never) the return value RV(reboot_required) says so.
    type: str
    choices: [never, when_idle]
    default: never
  boot:
    description:
      - Whether C(gpu-mig.service) makes the layout again at boot, before the kubelet and whatever else uses GPUs. No
        GPU keeps its instances over a reboot, and Hopper and later lose MIG mode as well.
      - V(false) removes the unit and its file.
    type: bool
    default: true
  by_label:
    description:
      - Whether the node's label C(nvidia.com/mig.config) may name another layout of O(config), as with NVIDIA's
        mig-manager. Anyone who may label the node then chooses, of these layouts and no others, and only GPUs that the
        layout names are changed. Needs O(boot), and the labels of M(gpu.node.device_plugin).
      - The layout that the label names counts instead of O(selected), here and at boot, as long as the label is there.
        It is made once nothing is in use that it would remove, and C(nvidia.com/mig.config.state) says how it went.
      - O(selected) may be empty with several layouts; then nothing is changed before a label asks for it.
    type: bool
    default: false
  lock_timeout: {description: Seconds to wait for another run on the same node., type: int, default: 60}
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
"""
