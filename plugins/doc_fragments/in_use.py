# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a module does about GPUs that are in use."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation shared by the modules that take GPUs from whoever uses them; ``DRIVER`` takes all of them."""

    DOCUMENTATION = r"""
options:
  on_allocated:
    description:
      - With V(refuse), what the kubelet has given to a pod, by device plugins or by DRA, is in use like what a process
        has open, though no process of the pod may be there. RV(blocked_by) names pod, container and device.
      - With V(ignore) only processes count, and an idle pod may be left with a device that does not work any more.
    type: str
    choices: [refuse, ignore]
    default: refuse
  stop_services:
    description:
      - Services of systemd that hold GPUs open, such as C(nvsm.service) or somebody's C(nvidia-dcgm.service). Where the
        change needs that, those that run are stopped before it, in this order, with what would stop with them, and
        started again after it, also when it fails. A run that was killed leaves that to the next one.
      - Their processes do not count as use. DCGM that M(gpu.node.dcgm) manages need not be named.
      - With a display manager its graphical session ends.
      - What the node does not have, and what must stay, such as the kubelet, container runtimes and the services of
        this collection, is refused before the first change.
    type: list
    elements: str
    default: []
  wait_timeout:
    description: Seconds to wait with O(on_busy=wait). What is in use then is as with V(fail).
    type: int
    default: 600
"""

    # Annotated, because ansible-test takes every plain assignment here for a literal text.
    DRIVER: str = r"""
options:
  on_busy:
    description:
      - What to do where a driver that is loaded would be replaced, in version or type, or removed, while a process has
        a GPU open or a pod was given one. NVIDIA's persistence daemon and fabric manager do not count.
      - V(fail) changes nothing, and names who is in the way and how each is stopped. V(wait) waits for O(wait_timeout)
        before the first change. V(proceed) goes on, with a warning. What runs then may fail, and the modules are not
        reloaded. Processes are never ended.
      - A first installation is never refused, and neither is what takes nothing, such as holds, device nodes,
        services, or packages of the version that is loaded.
      - In check mode the plan is returned all the same, with RV(blocked_by) and RV(refused). A change that cannot be
        carried out at all fails there as well.
    type: str
    choices: [fail, wait, proceed]
    default: fail
"""
