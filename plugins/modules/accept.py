# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Test GPUs under load, and record which are accepted."""

from __future__ import annotations

DOCUMENTATION = r"""
module: accept
short_description: Test GPUs under load, and record which are accepted
version_added: 0.2.0
author: the gpu.node authors (@gpu-node)
description:
  - Tests GPUs under load, by the driver's own library C(libcuda) alone, and records the results in
    C(/var/lib/gpu-node/acceptance.json), which root alone can read.
  - All multiprocessors compute the same, in float32 and on tensor cores, and their results must agree bit by bit. All
    memory that is free is written with patterns and read back. Copies within the memory are measured, and copies to
    the host's memory near the GPU, back from there, and between GPUs are compared and measured.
  - XIDs and other signs of a fault after the test count. So do slowdowns by heat or by power, and a PCIe link that is
    narrower or slower than GPU and slot allow.
  - A GPU has passed if all of this was measured and nothing is wrong. What could not be measured is never a pass.
  - Only GPUs that nobody has are tested. The services of this collection that advertise GPUs, DCGM that
    M(gpu.node.dcgm) manages, and the services of O(stop_services) are stopped during the test, and started again after
    it, also if it fails. A run that was killed leaves that to the next one, and no pass.
  - A test that does not end is killed, and the part that it hung in is a fault.
  - With O(level=standard), C(dcgmi diag), C(nvbandwidth), and C(all_reduce_perf) of nccl-tests run after that, one
    after the other, for the GPUs that have passed. Their answers are read, as each of them can end with status 0
    without having tested anything. They get a new environment, of which only C(PATH), C(HOME), and
    C(LD_LIBRARY_PATH) are those of the module.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.attributes.nvml
  - gpu.node.accept
attributes:
  check_mode:
    details: Says which GPUs would be tested and why, and in RV(blocked_by) who has them.
  diff_mode:
    details: Shows of each GPU why it has to be tested.
  idempotent:
    support: partial
    details: >-
      A test is an action. With O(test=when_needed), a GPU that was accepted as it is is not tested again.
seealso:
  - module: gpu.node.validate
  - module: gpu.node.repair
"""

EXAMPLES = r"""
- name: Test the GPUs that were not accepted yet
  gpu.node.accept:

- name: Test one GPU, with floors from other nodes of its kind
  gpu.node.accept:
    gpus: [GPU-e8f601d1-77c8-55bd-9276-681ef5fb455f]
    test: always
    floors:
      memory_gb_per_s: 2800
      host_to_device_gb_per_s: 50

- name: Test with DCGM and nccl-tests, without nvbandwidth
  gpu.node.accept:
    level: standard
    tools:
      all_reduce_perf: /opt/nccl-tests/build/all_reduce_perf
      nvbandwidth: ""

- name: Test what is idle, once a week
  gpu.node.accept:
    valid_for: 7
    on_busy: skip
    fail: false
  register: result
"""

RETURN = r"""
accepted:
  description: Whether each GPU of O(gpus) has passed as it is.
  returned: success
  type: bool
gpus:
  description: The GPUs of O(gpus), with the result of this run, or of the last one where it is still good.
  returned: success, and where a GPU is not accepted
  type: list
  elements: dict
  contains:
    uuid:
      description: UUID.
      type: str
    index:
      description: NVML's index, none where it does not tell.
      type: int
    pci_bus_id:
      description: PCI address.
      type: str
    serial:
      description: Serial number, empty where there is none.
      type: str
    product:
      description: Name of the product, empty where the GPU does not answer.
      type: str
    board:
      description: Part number of the board, empty where there is none.
      type: str
    driver:
      description: Version of the driver.
      type: str
    verdict:
      description: >-
        V(passed), V(failed) with the reasons in C(faults), V(incomplete) where something could not be measured, or
        V(untested).
      type: str
    figures:
      description:
        - What was measured, by name.
        - C(multiprocessors) is on how many the kernel ran. C(float32_tflops) and C(tensor_tflops) are 10^12 operations
          a second.
        - C(memory_gb_per_s), C(host_to_device_gb_per_s), C(device_to_host_gb_per_s), and C(peer_gb_per_s), that of the
          slowest link, are 10^9 bytes a second.
        - C(memory_tested_bytes) is how much memory was free, and C(temperature_celsius) the highest that was read.
        - Copies within the memory count both what is read and what is written. The operations are those of this test's
          kernels, which no other benchmark counts in the same way.
        - With O(level=standard), also C(nvbandwidth_host_to_device_gb_per_s), C(nvbandwidth_device_to_host_gb_per_s),
          C(nvbandwidth_peer_read_gb_per_s), and C(nvbandwidth_peer_write_gb_per_s), the latter two of the slowest
          link, and C(nccl_all_reduce_gb_per_s), the bus bandwidth of an all-reduce of 1 GiB by all GPUs together.
      type: dict
    faults:
      description: What is wrong.
      type: list
      elements: str
    not_measured:
      description: By part why it was not measured.
      type: dict
    level:
      description: The level of the test. It is empty if the GPU is untested.
      type: str
    tools:
      description: The versions of the tools by which the GPU has passed, by their names, empty where not known.
      type: dict
gate:
  description: The node's gate after the run.
  returned: success
  type: dict
  contains:
    "on":
      description: Whether the node has a gate.
      type: bool
    open:
      description: Whether it holds nothing.
      type: bool
    holds_node:
      description: Whether no GPU of the node gets work.
      type: bool
    held:
      description: What it holds, and why.
      type: list
      elements: str
    override:
      description: Why an operator has let in GPUs that were not accepted, empty if none has.
      type: str
steps:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: dict
blocked_by:
  description: >-
    The processes that have one of the GPUs, with pod, container, or service, and the pods that were given one.
  returned: always, but on failures for other reasons
  type: list
  elements: str
refused:
  description: Whether RV(blocked_by) is why a run with O(on_busy=fail) would test nothing, or has tested nothing.
  returned: success, and where GPUs in use are why nothing was done
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._accept.capability import AcceptCapability
from ansible_collections.gpu.node.plugins.module_utils._generated.accept import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: AcceptCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
