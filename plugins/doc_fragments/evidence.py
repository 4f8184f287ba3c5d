# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/evidence.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/evidence.yml."""

    GPU_EVIDENCE = r"""
options:
  gpus:
    description:
      - The GPUs that the evidence is about, by UUID, PCI address, serial number, or index. By default all GPUs of the
        node.
      - A GPU that does not answer any more can be named by what its case in C(/var/lib/gpu-node/repair.json) has.
      - Logs and the answers of programs are those of the whole node, whichever GPUs are named.
    type: list
    elements: str
    default: []
  stage:
    description:
      - V(before) is before anything is done about a fault, V(after) is after it.
      - V(rma) makes the file to send to who replaces one GPU. It has the earlier archives about that GPU too, and what
        they knew of it where it does not answer any more.
    type: str
    choices: [before, after, rma]
    default: before
  case:
    description:
      - What the archive is named after, such as a ticket. Without it, the open case of the GPU, or the GPU, or with
        several GPUs without a case V(node).
    type: str
    default: ""
  force:
    description:
      - Whether to make another archive where there is one of the same case and stage that was made since the node's
        boot.
    type: bool
    default: false
  path:
    description:
      - The folder for archives on the node. It is made where it is not there. One that somebody else than root may
        write to is refused.
    type: path
    default: /var/lib/gpu-node/evidence
  keep: {description: "How many archives stay. The oldest go, but for those of open cases.", type: int, default: 20}
  bug_report:
    description:
      - Whether C(nvidia-bug-report.sh) is run, in its safe mode, which leaves out what may hang the system.
      - V(full) runs it once more, without safe mode and with extra system data, where safe mode did not hang.
    type: str
    choices: [never, safe, full]
    default: safe
  bug_report_timeout:
    description:
      - Seconds until C(nvidia-bug-report.sh) is killed, with everything that it started. What it wrote until then is
        kept.
      - NVIDIA says that it may take an hour.
    type: int
    default: 600
  kernel_log_since:
    description:
      - From when on the kernel's log is wanted, in UTC, such as V(2026-11-26T20:00:00Z). Without it, from a day before
        the oldest open case of the GPUs, or before now.
    type: str
    default: ""
  dcgm:
    description: Whether C(dcgmi) is asked, for what its health watches have seen, and for its quick diagnostics.
    type: bool
    default: true
"""
