# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of nvidia_driver that say which release of the driver, and what is known of releases."""

from __future__ import annotations


class ModuleDocFragment:
    """The fragment gpu.node.releases."""

    DOCUMENTATION = r"""
options:
  version:
    description:
      - A package version, an upstream version such as V(580.95.05), or a branch such as V(580).
      - What is installed stays when it fits. Otherwise the newest that fits and that the sources offer is installed.
      - A branch that runs none of the node's GPUs is refused, such as one after 580 for Volta and older GPUs, or one
        before 570 for Blackwell. One that runs only some of them is taken with a warning.
      - Empty fits every version that runs the GPUs, and then no newer one is installed than apt itself would choose.
        In Ubuntu that is the newest server branch, or the one that is there.
    type: str
    default: ""
  source:
    description:
      - Where the driver comes from.
      - V(auto) leaves a driver that is there with the source that it came from, and one of no known package as
        V(preinstalled). O(repository) or O(runfile) beside it names the source. A node without a driver takes what
        the distribution has, but for Debian where O(releases) says on that day that the branch of its release is past
        its support, where that runs none of the GPUs, or where O(version) is of another one. It takes the branch that
        is supported longest, or O(version), from NVIDIA's repository then. RV(source) and RV(source_reason) say
        what was taken, and why.
      - V(distribution) takes packages from the sources that the node's package manager knows.
      - V(repository) makes the node know O(repository) first, prefers it for the driver's packages, and takes those by
        the names that NVIDIA's own repositories have. Going back to another source forgets the repository.
      - V(runfile) runs NVIDIA's own installer, on any distribution, where no package of the driver is installed. It
        installs no part of a desktop, and registers the kernel modules with DKMS where that is there.
      - V(preinstalled) installs and loads nothing, on whatever system. It checks that a driver is loaded, that it is
        of O(version) and O(kernel_modules), and that its libraries are there and of the same version.
    type: str
    choices: [auto, distribution, repository, runfile, preinstalled]
    default: auto
  update:
    description:
      - Bring the driver to the newest version that fits O(version), instead of leaving what is installed and fits.
      - The package lists are fetched first, in check mode aside from the node's own where that is possible.
      - Where Ubuntu's prebuilt modules are used, to the newest that they are built for.
    type: bool
    default: false
  releases:
    description:
      - What is known of NVIDIA's driver branches and security bulletins, for RV(support), RV(security) and warnings.
      - V(true) takes the table that comes with the collection, V(false) or an empty one says nothing of them.
      - A dictionary takes its place. C(as_of) is the day of it. C(branches) has by the number of a branch C(kind)
        (C(lts), C(production) or C(new feature)), C(first_release), and C(end_of_support) as a day or a month, or
        C(ended) where it has ended at a time that is not known. C(bulletins) is a list of C(id), C(date), C(url), and
        C(floors), the first version of each branch without the vulnerabilities. C(source) and C(read) may be in each
        row.
      - A driver below its branch's floor, or past its support, is a warning, one from O(source=preinstalled) too. So is
        that of an update which would still be below.
    type: raw
    default: true
"""
