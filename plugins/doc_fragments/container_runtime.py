# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/container_runtime.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/container_runtime.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - Whether GPUs (CDI) are enabled in the runtimes.
      - With V(absent), what was added is removed. A file that nobody else has edited since then gets its old content
        back. From any other file, only the keys that this module set are removed, and what others have set in them
        stays.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - The container runtime.
      - V(k3s), V(rke2), V(k0s), and V(microk8s) stand for the containerd that they bring. They regenerate its file at
        each start, so the settings go into the folder that they read or import, with V(microk8s) into its template, and
        their unit is the one to restart.
      - V(auto) means all that are installed, except those without CDI, which a warning names, and except a containerd
        without CRI plugin that is there for Docker only.
    type: str
    choices: [auto, containerd, docker, cri-o, podman, k3s, rke2, k0s, microk8s]
    default: auto
    aliases: [runtime]
  mode:
    description:
      - How GPUs reach containers. A mode reverts what an earlier one has set and it does not need itself.
      - With V(cdi), containers name devices. No program of NVIDIA's is needed.
      - With V(runtime_class), there is a handler as well. Pods choose it with a RuntimeClass, and others never meet it.
      - With V(default_runtime), all containers run through the handler. One that asks for nothing may then see all
        GPUs, if its image says so.
      - CDI is on with each of them, where the runtime has it.
    type: str
    choices: [cdi, runtime_class, default_runtime]
    default: cdi
  handler:
    description:
      - The name of the handler, as a RuntimeClass may name it. Not used with O(mode=cdi).
      - V(runc) and other names of handlers that start all containers are refused.
    type: str
    default: nvidia
  handler_path:
    description:
      - The program behind the handler. It must be on the node, in version 1.19.1 or later, since earlier versions let
        containers break out. Not used with O(mode=cdi).
    type: path
    default: /usr/bin/nvidia-container-runtime
    aliases: [runtime_path]
  config_path:
    description:
      - The runtime's configuration file. Without it, C(/etc/containerd/config.toml), C(/etc/docker/daemon.json), or
        C(/etc/crio/crio.conf.d/zz-gpu-node.conf).
      - With containerd 2.1 or later, where that file imports C(*.toml) of a folder, C(zz-gpu-node.toml) in that folder
        is written instead. With earlier versions, an imported file would hide what the main file says.
    type: path
  spec_dirs:
    description: Folders where CDI specifications are looked for. Others that are configured stay.
    type: list
    elements: path
    default: [/etc/cdi, /var/run/cdi]
  restart:
    description:
      - Whether a runtime that must be restarted is named in RV(restart_required), for the caller to restart it, where
        that ends containers. It does with Docker, unless C(live-restore) is on in the running dockerd, and with a unit
        of another runtime whose C(KillMode) was changed. Otherwise containers of containerd, k3s, RKE2, CRI-O, and
        podman go on.
      - With V(when_idle), such a runtime is named in RV(restart_deferred) instead, with its containers in
        RV(blocked_by) and in a warning. The file is written, and a run that finds no containers any more asks for the
        restart.
      - With V(never), this applies to every runtime that must be restarted.
      - With V(always), containers are not considered. Otherwise a change with which CRI-O would lose containers that
        run, or containerd and Docker could not start them again, is refused.
    type: str
    choices: [never, when_idle, always]
    default: when_idle
  backup:
    description: >-
      Keep a copy of the file before it is changed, in the same folder. The copy of a drop-in file is in the folder
      above instead, as CRI-O reads each file in a drop-in folder.
    type: bool
    default: false
  restart_now:
    description:
      - Units of runtimes to restart or reload now, where they have to and O(restart) lets them, such as those of an
        earlier RV(restart_required) and RV(reload_required).
      - Docker (C(/info)), containerd (CRI, by the device plugin's Python), and CRI-O are asked afterwards what they
        have. Where a unit does not come up, or runs without its settings, its files are put back, it runs by them
        again, and the module fails with the program's own words.
    type: list
    elements: str
    default: []
"""
