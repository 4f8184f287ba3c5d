# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of nvidia_driver that are about the kernel: its modules, their options, and who keeps them loaded."""

from __future__ import annotations


class ModuleDocFragment:
    """The fragment gpu.node.kernel_modules."""

    DOCUMENTATION = r"""
options:
  kernel_modules:
    description:
      - The type of the kernel modules, open or proprietary.
      - In Ubuntu they come prebuilt and signed where Ubuntu offers them for the running kernel, else from DKMS.
      - V(auto) takes the one that the GPUs need. Where they run with both, it keeps the one that is installed, else
        takes the open one. What somebody else has installed is exchanged only where a type is named here.
      - GPUs before Turing run with the proprietary ones only, Blackwell and later GPUs with the open ones only.
    type: str
    choices: [auto, open, proprietary]
    default: auto
  load:
    description: >-
      Load the kernel modules where no driver is loaded and no reboot must come first. Make device nodes, at boot too.
    type: bool
    default: true
  reload:
    description:
      - Whether to reload the kernel modules when they differ from the installed ones.
      - V(when_idle) does so where no process has a GPU open, the persistence daemon and the fabric manager aside, which
        are restarted.
        The device plugin counts as such a process. Otherwise C(reboot_required) says who is in the way. So does a pod
        that was given a GPU, unless O(on_allocated=ignore).
    type: str
    choices: [never, when_idle]
    default: never
  persistence:
    description:
      - Enable the persistence daemon, and start it once the driver is loaded.
    type: bool
    default: true
  secure_boot:
    description:
      - Whether to refuse an installation on a machine with Secure Boot on where the kernel would reject the modules.
      - Modules that DKMS builds are accepted where C(mokutil) says that DKMS's key is enrolled. Otherwise the refusal
        names the key and the command that enrols it. Prebuilt modules that the distribution has signed need no key.
    type: str
    choices: [refuse, ignore]
    default: refuse
  module_options:
    description:
      - Options of the kernel modules, such as C(NVreg_EnableGpuFirmware), and of another module of the driver
        with its name before a dot, such as C(nvidia_drm.modeset).
      - They go to C(/etc/modprobe.d/gpu-node.conf), with the blacklist of nouveau where something would load it.
        The initramfs of each kernel is rebuilt then.
      - Loaded modules that show another value are reloaded as O(reload) says, or C(reboot_required) names it.
      - Without an option here, the driver's own default or another file decides.
    type: dict
    default: {}
"""
