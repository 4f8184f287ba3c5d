# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install, pin and load the NVIDIA driver."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver
short_description: Install the NVIDIA driver
version_added: 0.1.0
author: the gpu.node authors (@gpu-node)
description:
  - Installs the driver from the distribution's own packages, holds it at its version, and loads it.
  - All packages get the same version of the driver, the newest that the sources have for all of them.
  - If NVSwitches join the GPUs, the fabric manager is installed at exactly the driver's version, and started. If the
    sources have none, the result says so.
  - Never stops a process on a GPU and never reboots, and unloads modules only if O(reload) says so. The result says
    what needs a reboot. A driver in use is neither replaced nor removed, unless O(on_busy) says so.
  - Remembers what it has added. The next run finishes what a killed run left behind.
  - If the installation of another version or kernel module type fails, the packages from before are restored in one
    transaction, and the module fails with the reason. The next run finishes a first installation that failed.
extends_documentation_fragment:
  - gpu.node.attributes
  - gpu.node.nvidia_driver
attributes:
  check_mode:
    details:
      - The package manager simulates the transaction, and what it refuses is refused.
      - Sources that the run would make known are tried in a folder of their own, which is gone afterwards. Their key
        and lists are fetched, no packages.
  platform:
    platforms: debian, el, suse
notes:
  - Supports Debian 12 (bookworm) and 13 (trixie), and Ubuntu 22.04 (jammy), 24.04 (noble), and 26.04 (resolute).
  - Supports the RHEL family 8 to 10 (RHEL, Rocky Linux, AlmaLinux, CentOS Stream, Oracle Linux), Fedora 43 and 44,
    Amazon Linux 2023, and SUSE 15.6, 15.7, and 16.0.
  - Debian is tested with the genuine packages. Ubuntu, the RHEL family, and SUSE are tested with the genuine apt, dnf,
    and zypper and small packages of the same names and relations, and O(source=runfile) with a stand-in for the file.
  - In the RHEL family, Fedora, Amazon Linux, and SUSE, NVIDIA's repository must be there already, or you name it. In
    RHEL 8 and 9 and Amazon Linux, the module stream that fits is enabled if the repository has streams.
seealso:
  - module: gpu.node.gpu_info
"""

EXAMPLES = r"""
- name: Install a driver that NVIDIA supports, or keep the one that is there
  gpu.node.nvidia_driver:

- name: Install the distribution's driver
  gpu.node.nvidia_driver:
    source: distribution

- name: Stay on a branch, at its newest point release, with the proprietary kernel modules
  gpu.node.nvidia_driver:
    version: "580"
    update: true
    kernel_modules: proprietary

- name: Let monitoring read performance counters without root
  gpu.node.nvidia_driver:
    module_options:
      NVreg_RestrictProfilingToAdminUsers: 0

- name: Take the driver from NVIDIA's repository, through a mirror
  gpu.node.nvidia_driver:
    source: repository
    version: "580"
    repository:
      preset: nvidia
      base_url: https://mirror.example.com/cuda/repos  # leave it out where the node reaches NVIDIA's

- name: Run NVIDIA's own installer
  gpu.node.nvidia_driver:
    source: runfile
    version: 580.95.05
    runfile:
      location: https://mirror.example.com/NVIDIA-Linux-x86_64-580.95.05.run
      sha256: "{{ driver_sha256 }}"  # as NVIDIA publishes it beside the file

- name: Check the driver that the machine's image brings, and say where it stands
  gpu.node.nvidia_driver:
    source: preinstalled
    version: "580"

- name: Take over the driver that somebody has installed by hand, and keep it at its version
  gpu.node.nvidia_driver:
    adopt: true

- name: Remove what was added
  gpu.node.nvidia_driver:
    state: absent
"""

RETURN = r"""
source:
  description: Where the driver comes from, with O(source=auto) what that has taken.
  returned: success
  type: str
  sample: repository
source_reason:
  description: Why O(source=auto) has taken it, empty with another O(source).
  returned: success
  type: str
  sample: >-
    Debian GNU/Linux 13 (trixie) has branch 550, which NVIDIA does not support any more since 2025-06-30
installed_version:
  description: Upstream version of the installed packages, null where there are none.
  returned: success
  type: str
loaded_version:
  description: Version of the loaded kernel module, null where none is loaded.
  returned: success
  type: str
loaded_module_type:
  description: Type of the loaded kernel modules, open or proprietary.
  returned: success
  type: str
newer_version:
  description: The newest version of the installed branch in the sources, empty where that one is installed.
  returned: success
  type: str
support:
  description: >-
    Of the installed driver's branch C(branch), C(kind), C(first_release), C(end_of_support), whether that is C(past),
    and the C(days) until then. Null is what the table does not say. Empty without a driver or a table.
  returned: success
  type: dict
  sample: {branch: "580", kind: lts, first_release: "2025-08-04", end_of_support: "2028-06-30", past: false, days: 586}
security:
  description: >-
    The C(floor) of that branch, with C(bulletin), C(date), and C(url), whether the driver is C(below) it, and the
    bulletins since then that have no release of the branch, C(unlisted).
  returned: success
  type: dict
releases:
  description: The day of the table, C(as_of), its C(age) in days, and whether that makes it C(old). Empty without one.
  returned: success
  type: dict
notes:
  description: Notes about versions and the table that are no warnings.
  returned: success
  type: list
  elements: str
dkms:
  description: What DKMS has built of the driver, for each kernel; an installation that it fails at ends with this too.
  returned: success, and after a failed build
  type: list
  elements: dict
  contains:
    module:
      description: DKMS's name of it.
      type: str
    version:
      description: Its version.
      type: str
    kernel:
      description: The kernel.
      type: str
    state:
      description: C(installed), C(built), or C(failed).
      type: str
    log:
      description: Where DKMS has written why it failed.
      type: str
node:
  description: What was found of the node at the end, or in check mode at the beginning.
  returned: success
  type: dict
  contains:
    gpus:
      description: The architecture of each GPU by its PCI address.
      type: dict
    nvswitch:
      description: Whether there are NVSwitches.
      type: bool
    kernel:
      description: The running kernel.
      type: str
    headers:
      description: Whether its headers are there.
      type: bool
    held:
      description: The driver's packages that are on hold.
      type: list
      elements: str
    nouveau:
      description: Whether nouveau is C(loaded), C(available) to some kernel, C(blacklisted), or C(absent).
      type: str
    kernels_without_driver:
      description: The kernels that can be booted and have no modules of the driver.
      type: list
      elements: str
    stale_initramfs:
      description: The kernels whose initramfs is older than the modules' options.
      type: list
      elements: str
    secure_boot:
      description: Whether the kernel takes signed modules alone, as with Secure Boot.
      type: bool
    signing_key:
      description: With C(secure_boot), the path of the key that DKMS signs with.
      type: str
    signing_key_state:
      description: C(enrolled), C(pending), C(refused), C(blocked), C(missing), C(no_efi), or C(unknown).
      type: str
    libraries:
      description: The versions of C(libnvidia-ml.so) on the node.
      type: list
      elements: str
    firmware:
      description: The versions that the node has GSP firmware for.
      type: list
      elements: str
    persistence_daemon:
      description: The state of its service.
      type: str
    fabric_manager:
      description: The state of its service, empty without NVSwitches.
      type: str
    gpu_users:
      description: The processes that have a GPU open, with service, container, or pod, the driver's own services aside.
      type: list
      elements: str
packages:
  description: The installed packages of the driver and their versions.
  returned: success
  type: dict
  sample: {"libcuda1": "550.163.01-2"}
rolled_back:
  description: Whether the previous packages were restored; C(false) says that this has failed as well.
  returned: after a change of version or kernel module type that failed half-way
  type: bool
packages_left:
  description: The packages that are not as they were before, and the state of each as text.
  returned: when the previous packages could not be restored
  type: dict
  sample: {"nvidia-smi": "550.163.01-2, unpacked, not configured"}
blocked_by:
  description: The processes that have a GPU open and the pods that were given one, where another driver is wanted than
    the loaded one. As long as there are any, a reboot would take the driver from them.
  returned: success, and where they are why nothing was done
  type: list
  elements: str
  sample: ["process 812 (nv-hostengine, nvidia-dcgm.service)"]
refused:
  description: Whether RV(blocked_by) is why a run would change nothing now, or has changed nothing. It is not there on
    failures for other reasons, which don't depend on what uses the GPUs.
  returned: success, and where GPUs in use are why nothing was done
  type: bool
reboot_required:
  description: Whether the node must be rebooted for the driver to work, or to be gone.
  returned: success
  type: bool
reboot_reasons:
  description: Why.
  returned: success
  type: list
  elements: str
steps:
  description: What was done, or in check mode would be; after a failure, what had been done until then.
  returned: always
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
      description: What it takes from the node, such as C(reboot).
      type: list
      elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpu.node.plugins.module_utils._driver.capability import DriverCapability
from ansible_collections.gpu.node.plugins.module_utils._generated.nvidia_driver import SPEC
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Host
from ansible_collections.gpu.node.plugins.module_utils._machine.run import run_capability


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=SPEC["argument_spec"], supports_check_mode=True)
    run_capability(
        module,
        lambda: DriverCapability(Host(), module.params, check_mode=module.check_mode),
        changes_node=True,
    )


if __name__ == "__main__":
    main()
