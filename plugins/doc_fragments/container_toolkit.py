# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/container_toolkit.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/container_toolkit.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - Whether the packages are there.
      - With V(absent), what was added is removed. That is refused while a runtime starts containers through the
        toolkit, or while M(gpu.node.cdi) has it write the specification. A package that others need stays.
    type: str
    choices: [present, absent]
    default: present
  version:
    description:
      - The version, such as V(1.20.1), or a package version.
      - Without it, a safe version that is there stays, and otherwise the newest in the sources is taken.
    type: str
    default: ""
  parts:
    description:
      - V(base) has what writes CDI specifications and runs their hooks, and the runtime. V(all) has the legacy hook and
        its library as well. With V(base), the others are removed if this module added them.
    type: str
    choices: [all, base]
    default: all
  hold:
    description: Whether the packages are kept at their version when the node is upgraded.
    type: bool
    default: true
  vendor_refresh:
    description:
      - Whether the toolkit's own service may write C(/var/run/cdi/nvidia.yaml), as it does from 1.18 on. Runtimes
        prefer that file to C(/etc/cdi/nvidia.yaml), and it does not follow changes of the MIG layout.
      - With V(false), a drop-in file for C(nvidia-cdi-refresh.service) keeps it from running, and what it has written
        is removed.
    type: bool
    default: false
  repository:
    description:
      - The repository to take the packages from, such as NVIDIA's or a mirror of it. Without it, they come from what
        the node's package manager knows, and a repository of an earlier run is forgotten.
      - It goes to files of its own, named C(gpu-node-container-toolkit), in the folders of apt, dnf, or zypper, with
        its key next to it. Changes in them are put right.
      - Only what the key has signed is installed. A key is fetched only where its fingerprint is known.
      - O(repository.preset) may be V(nvidia-experimental) too, which has release candidates.
    type: dict
    suboptions:
      preset:
        description:
          - The name of a repository whose address, layout, key, and signatures are known for the node's system, instead
            of O(repository.url) and O(repository.key). Other options that you set take precedence.
          - V(nvidia) is NVIDIA's own. A system for which the preset has no address is refused.
          - The key is fetched from the repository's server, and refused if its fingerprint is not the known one. A key
            that the node has already is not fetched again.
        type: str
      base_url:
        description:
          - With O(repository.preset), the address of a mirror that has the same folders below it, with http, https, or
            file, such as V(https://mirror.example.com/cuda/repos) or V(file:///srv/cuda).
        type: str
      url:
        description:
          - Its address, with http, https, or file. A password belongs to the package manager's own files.
          - Required without O(repository.preset).
        type: str
      key:
        description:
          - The public key in ASCII armour, the path of a key file on the node, in armour or binary, or with
            O(repository.key_fingerprints) its address. A text or file that has anything besides public keys is refused.
            The keys in it are written out again.
          - The RHEL family and SUSE know keys for all repositories only, so the key is imported into rpm.
          - Required without O(repository.preset).
        type: str
      key_fingerprints:
        description:
          - The fingerprints of the primary keys in O(repository.key). If it has any other key, it is refused.
          - Required for a key file on the node and for a key's address. Compare them with what the publisher says.
        type: list
        elements: str
        default: []
      suite:
        description: For apt, the suite, or the path of a flat repository, which ends in a slash.
        type: str
        default: /
      components:
        description: For apt, the components of the suite. A flat repository has none.
        type: list
        elements: str
        default: []
      signed_metadata:
        description:
          - For dnf and zypper, whether the lists of the repository are signed too. Those for apt always are.
          - Without it, what O(repository.preset) says, and V(false) without one.
        type: bool
      plain_http:
        description:
          - For dnf and zypper, whether lists that are not signed may come over http. An attacker between the node and
            the repository can then keep it on old packages, which are signed as well, or lead it back to them.
          - Without it O(repository.url) must be https or file, or O(repository.signed_metadata) be true.
        type: bool
        default: false
      signed_packages:
        description:
          - For dnf and zypper, whether the packages are signed. With V(false), O(repository.signed_metadata) must be
            true.
          - Without it, what O(repository.preset) says, and V(true) without one.
        type: bool
  lock_timeout:
    description: Seconds to wait for another package manager, and for another run on the same node.
    type: int
    default: 300
"""
