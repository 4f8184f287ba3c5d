# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/repair.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/repair.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - V(observed) changes nothing. It reads the node and says what comes next for each GPU.
      - V(planned) reads the node again, takes its lease for O(holder), and opens the cases of the GPUs that need a
        repair.
      - Each other state is a stage of a repair, and is written down for O(gpus) before the stage begins, so that the
        next run finishes one that was cut off. V(proved) reads the node again, and fails if a GPU still has a fault.
    type: str
    choices: [observed, planned, evidence, fenced, stopped, reset, restored, proved, released, failed]
    default: observed
  gpus:
    description: The GPUs whose repair comes to the stage, by the UUIDs that this module returns.
    type: list
    elements: str
    default: []
  holder:
    description: Who makes the repair, such as a run's controller and process. Needed for all but V(observed).
    type: str
    default: ""
  instead_of:
    description: A holder of the lease that is known to be over, so that O(holder) takes it in its place.
    type: str
    default: ""
  give_back: {description: Whether the lease is given back with this stage., type: bool, default: false}
  action:
    description: With O(state=reset), what is about to be done. It counts as an attempt.
    type: str
    choices: ["", reset, reset_all, reboot]
    default: ""
  result:
    description:
      - With O(state=reset), the result of the last attempt, V(done) if it worked. With O(state=failed), why the repair
        failed.
    type: str
    default: ""
  refused:
    description: With O(state=reset), whether the last attempt was refused before it was made. Then it counts as none.
    type: bool
    default: false
  evidence: {description: "The path of the archive with the evidence, on the node.", type: str, default: ""}
  stopped:
    description: The services that were stopped for the repair.
    type: list
    elements: str
    default: []
  reboot:
    description:
      - Whether a node may be rebooted if no reset can help. With V(never), such a GPU stays set aside, and the result
        names the next step.
    type: str
    choices: [never, when_needed]
    default: never
  window:
    description:
      - How many seconds back the kernel's log and earlier repairs count. Older ones start nothing.
      - A fault that comes back within that time gets a stronger repair each time, after a reset a reboot, and then a
        replacement.
    type: int
    default: 86400
  xids:
    description:
      - What each XID asks for if the driver does not say so by its recovery action. V(true) is the collection's own
        table, V(false) none, and a dictionary with C(as_of) and C(xids) is your own.
    type: raw
    default: true
  gpu_count:
    description: How many GPUs the node must have, as O(gpu.node.validate#module:gpu_count).
    type: int
    default: -1
  fences:
    description:
      - Whether a GPU that is set aside gets no new pods, which the device plugin and the DRA driver of this collection
        ensure. Without it, the node is cordoned for the repair.
    type: bool
    default: true
"""
