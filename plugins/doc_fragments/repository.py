# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A repository of packages that the user names, and the wait for another package manager."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation shared by the modules that install packages; ``SIGNED`` knows unsigned packages as well."""

    DOCUMENTATION = r"""
options:
  lock_timeout:
    description: Seconds to wait for another package manager.
    type: int
    default: 300
  repository:
    type: dict
    suboptions:
      preset:
        description:
          - The name of a repository whose address, layout, key and signatures are known for the node's system, instead
            of O(repository.url) and O(repository.key). What is said beside it takes precedence.
          - V(nvidia) is NVIDIA's own. A system that it is not known for is refused.
          - The key is fetched from where the repository is, and refused where its fingerprint is another one than
            that which is known. What the node has of it is not fetched again.
        type: str
      base_url:
        description:
          - With O(repository.preset), the address of a mirror that has the same folders below it, with http, https or
            file, such as V(https://mirror.example.com/cuda/repos) or V(file:///srv/cuda).
        type: str
      url:
        description:
          - Its address, with http, https or file. A password belongs to the package manager's own files.
          - Required without O(repository.preset).
        type: str
      key:
        description:
          - The public key in ASCII armour, the path of a key file on the node, in armour or binary, or with
            O(repository.key_fingerprints) its address. A text or file that has anything besides public keys is refused.
            What is read of it is written out again.
          - The RHEL family and SUSE know keys for all repositories only, so rpm is taught it.
          - Required without O(repository.preset).
        type: str
      key_fingerprints:
        description:
          - The fingerprints of the primary keys in O(repository.key). Where it has any other key it is refused.
          - A key file on the node and a key's address need them. Compare with what its publisher says.
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
          - For dnf and zypper, whether lists that are not signed may come over http. Whoever is between the node and
            the repository can then keep it on old packages, which are signed as well, or lead it back to them.
          - Without it O(repository.url) must be https or file, or O(repository.signed_metadata) be true.
        type: bool
        default: false
"""

    # Annotated, because ansible-test takes every plain assignment here for a literal text.
    SIGNED: str = (
        DOCUMENTATION
        + r"""
      signed_packages:
        description:
          - For dnf and zypper, whether the packages are signed. With V(false), O(repository.signed_metadata) must be
            true.
          - Without it, what O(repository.preset) says, and V(true) without one.
        type: bool
"""
    )
