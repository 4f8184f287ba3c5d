# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/accept.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/accept.yml."""

    DOCUMENTATION = r"""
options:
  gpus:
    description:
      - The GPUs, each by its UUID, its PCI address, its serial number or NVML's index. V(all) is each GPU of the node.
      - A GPU in MIG mode is not tested. It stays V(untested), which fails the module.
    type: list
    elements: str
    default: [all]
  test:
    description:
      - V(when_needed) tests a GPU of O(gpus) that never passed, or that has another driver, VBIOS, InfoROM, board,
        serial number, or slot than when it passed, that was repaired since, or whose pass is older than O(valid_for).
        Any other is left alone, so that a second run changes nothing.
      - V(always) tests each of O(gpus), in each run. This is not idempotent.
      - V(never) tests none, so that only the gate is checked.
    type: str
    choices: [when_needed, always, never]
    default: when_needed
  duration:
    description:
      - How many seconds each of the two kernels of arithmetic runs, 1 to 3600. All GPUs run at the same time. The rest
        takes about 10 seconds, and 2 more for each GPU.
    type: int
    default: 10
  level:
    description:
      - How much to test. V(quick) is the load test of this collection, which needs no package.
      - V(standard) then runs C(dcgmi diag), C(nvbandwidth), and C(all_reduce_perf) of nccl-tests, for the GPUs that
        have passed so far. A tool that is not there is not measured, so that no GPU passes, unless O(tools) leaves it
        out. A pass at V(standard) is one at V(quick), too.
    type: str
    choices: [quick, standard]
    default: quick
  tools:
    description:
      - The absolute paths of C(dcgmi), C(nvbandwidth), and C(all_reduce_perf) by their names, for O(level=standard). A
        tool without a path here is the one on root's C(PATH). An empty path leaves a tool out.
      - A dictionary in place of the path has the C(image) of a container, and the tool's C(path) there if it is not on
        the image's C(PATH). The first of podman, docker, and nerdctl that has the image runs it, without a network.
        Nothing is pulled.
    type: dict
    default: {}
  dcgm_level:
    description: The level of C(dcgmi diag). V(2) takes some minutes, V(3) half an hour and more.
    type: int
    choices: [2, 3]
    default: 2
  valid_for: {description: How many days a pass is good for. V(0) is for any time., type: int, default: 0}
  floors:
    description:
      - The least that figures may be, by their names in RV(gpus.figures), such as C(memory_gb_per_s). A GPU with a
        lower figure, or without that figure, is not accepted.
      - No vendor's figures are known here. Take those of your own nodes of the same product, less a few percent.
    type: dict
    default: {}
  fail:
    description: Whether a GPU that has not passed fails the module. With V(false) see RV(accepted).
    type: bool
    default: true
  on_busy:
    description:
      - What to do about a GPU that is in use, by a process or by a pod that it was given to. V(fail) tests none of
        them, V(skip) leaves it out, with a warning. V(wait) waits for O(wait_timeout) before the first test, and then
        fails.
    type: str
    choices: [fail, skip, wait]
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
  gate:
    description:
      - Whether the node has a gate. With V(true), GPUs get no work that were not accepted as they are, also after a
        boot, from the device plugin, the DRA driver, and whatever asks C(gpu-plugin gate).
      - On a node whose GPUs are in use when it is switched on, it counts from the next boot. Until then, it holds only
        GPUs with faults.
      - V(false) removes it. Without this option, it stays as it is, and is checked once the test is done.
    type: bool
  scope:
    description: Whether the gate holds a GPU that was not accepted alone, or the whole node with it.
    type: str
    choices: [gpu, node]
    default: gpu
  override:
    description:
      - Why the GPUs are let in that the gate holds. It is recorded, and stays until they have passed.
      - At most 500 characters, in one line.
    type: str
    default: ""
"""
