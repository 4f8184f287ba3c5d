# Copyright (c) 2026, the gpu.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of options, written by make options from options/nvidia_driver.yml."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation of options, written by make options from options/nvidia_driver.yml."""

    DOCUMENTATION = r"""
options:
  state:
    description:
      - V(absent) removes what earlier runs added, and only that. Packages of an adopted driver that they changed or
        removed are put back at the version that they had, if it is still available.
      - An added package on which others depend by now stays. If that is one of the driver's own packages, the module
        says which packages need it and changes nothing.
      - A loaded driver stays loaded until the node is rebooted.
    type: str
    choices: [present, absent]
    default: present
  source:
    description:
      - Where the driver comes from.
      - V(auto) leaves a driver that is there with the source that it came from, and one of no known package as
        V(preinstalled). If O(repository) or O(runfile) is set too, it names the source.
      - With V(auto), a node without a driver takes the distribution's. The exception is Debian, if by O(releases) the
        branch of its release is past its support, if it runs none of the GPUs, or if O(version) is of another branch.
        Then the branch that is supported longest, or O(version), comes from NVIDIA's repository. RV(source) and
        RV(source_reason) say what was taken, and why.
      - V(distribution) takes packages from the sources that the node's package manager knows.
      - V(repository) makes the node know O(repository) first, prefers it for the driver's packages, and takes those by
        the names that NVIDIA's own repositories have. Going back to another source forgets the repository.
      - V(runfile) runs NVIDIA's own installer, on any distribution, where no package of the driver is installed. It
        installs nothing of a desktop, and registers the kernel modules with DKMS where that is there.
      - V(preinstalled) installs and loads nothing, on whatever system. It checks that a driver is loaded, that it is of
        O(version) and O(kernel_modules), and that its libraries are there and of the same version. O(module_options)
        are written all the same.
    type: str
    choices: [auto, distribution, repository, runfile, preinstalled]
    default: auto
  repository:
    description:
      - The repository of packages that O(source=repository) takes the driver from, such as NVIDIA's or a mirror of it.
      - It goes to files of its own, named C(gpu-node-driver), in the folders of apt, dnf, or zypper, with its key next
        to it. Changes in them are put right. V(absent) removes them.
      - Only packages that the key has signed are installed. A key is fetched only where its fingerprint is known.
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
  runfile:
    description:
      - The file for O(source=runfile). O(version) must be the exact version that it has.
      - It is copied to a place where only root can change it, checked, run, and removed.
      - V(absent) has C(nvidia-uninstall) remove what it brought, where this module ran it.
      - O(components) and O(hold) have no effect on it. It brings no fabric manager, and C(nvidia-persistenced) without
        a unit, so O(persistence) works only if the node has one.
    type: dict
    suboptions:
      location: {description: "Its path on the node, or an address with http or https.", type: str, required: true}
      sha256: {description: Its SHA-256. A file with another is not run., type: str, required: true}
  version:
    description:
      - A package version, an upstream version such as V(580.95.05), or a branch such as V(580).
      - An installed driver stays if it fits. Otherwise the newest in the sources that fits is installed.
      - A branch that runs none of the node's GPUs is refused, such as one after 580 for Volta and older GPUs, or one
        before 570 for Blackwell. One that runs only some of them is taken with a warning.
      - Empty fits every version that runs the GPUs, and then no newer one is installed than apt itself would choose. In
        Ubuntu that is the newest server branch, or the one that is there.
    type: str
    default: ""
  kernel_modules:
    description:
      - The type of the kernel modules, open or proprietary.
      - In Ubuntu they come prebuilt and signed where Ubuntu has them for the running kernel, else from DKMS.
      - V(auto) takes the type that the GPUs need. If they run with both, it keeps the one that is installed, or else
        takes the open one. Modules that somebody else installed are replaced only if you name a type here.
      - GPUs before Turing run with the proprietary type only, and GPUs from Blackwell on with the open type only.
    type: str
    choices: [auto, open, proprietary]
    default: auto
  precompiled:
    description:
      - In the RHEL family, whether to take kernel modules that are compiled and signed already, a package for each
        kernel and version of the driver, such as C(kmod-nvidia-580.95.05-5.14.0-570.12.1), instead of DKMS.
      - V(auto) does so with Secure Boot on, unless modules from DKMS are installed, and stays with them once it has
        begun. If the running kernel has none, DKMS builds them, as far as Secure Boot lets it.
      - V(require) fails if the running kernel has none, V(never) takes DKMS.
      - NVIDIA's are proprietary, in module streams with the name of the branch, and signed with a key of NVIDIA's that
        must be enrolled. Red Hat's are open, and need no key.
    type: str
    choices: [auto, require, never]
    default: auto
  prerequisites:
    description:
      - In the RHEL family, what to do where EPEL, which has dkms, or dnf's plugin versionlock is missing.
      - V(refuse) names it and what brings it. V(install) installs C(epel-release), in Oracle Linux its own package of
        that kind, and the plugin from the sources that the node has. Nothing is fetched from anywhere else.
    type: str
    choices: [refuse, install]
    default: refuse
  components:
    description:
      - Which components of the user-space driver are installed. By default what computing needs, and nothing of a
        desktop.
      - V(compute) is that. V(video) adds NVENC and NVDEC, V(graphics) the libraries of OpenGL, EGL, and Vulkan without
        an X server, and V(dcgm) the packages of DCGM 4. With any of these names V(compute) is always there.
      - DCGM has a version of its own, and comes with the diagnostics for the driver's CUDA. M(gpu.node.dcgm) runs its
        service.
      - A component that no source has is refused. One that is no longer named is removed if this module added it.
      - The list may have names of packages too. Package names alone replace what computing needs.
      - Kernel modules, their firmware, and C(libnvidia-cfg1) for C(nvidia-persistenced) come by themselves.
    type: list
    elements: str
    default: []
  adopt:
    description:
      - Take over a driver that somebody else has installed, with its packages, whether for a desktop, for a server,
        headless, or tracking a kernel. They stay, get the version that the driver has, and are held.
      - For another branch or type of kernel modules they are replaced with their counterparts, such as
        C(nvidia-driver-595-open) for C(nvidia-driver-580-open). A package without a counterpart is removed. The plan,
        the diff, and the result name each.
      - A driver from NVIDIA's installer is uninstalled once the packages that take its place are on the node. With
        O(source=runfile) another version replaces it.
      - A driver that was taken over stays so without this option. O(state=absent) puts back each package that was
        changed or removed since, in the version that it had, in one transaction. If one of them is not available any
        more, or if the driver was from NVIDIA's installer, the driver stays as it is, with its sources, and only the
        holds are removed.
      - Without it, nothing is removed that no earlier run has added. With dnf and zypper only a driver from NVIDIA's
        installer is taken over.
    type: bool
    default: false
  hold:
    description:
      - Hold the packages, so that unattended upgrades do not break the running driver. dnf needs its plugin versionlock
        for it.
      - A package that somebody else holds keeps that hold, and is not brought to another version.
      - Without holds, Ubuntu's tracking package of the kernel modules is installed where it fits, so that unattended
        upgrades bring a new kernel's modules and the driver that they are built for together.
    type: bool
    default: true
  hold_kernel:
    description:
      - With O(hold), hold the packages that bring new kernels as well, such as C(linux-image-generic), so that no
        kernel comes that has no modules for the driver that is held. Only with apt. Where Proxmox VE's kernel runs,
        those of that are held, such as C(proxmox-default-kernel).
      - No kernel fix comes until a run without this option releases the hold.
    type: bool
    default: false
  update:
    description:
      - Bring the driver to the newest version that fits O(version), instead of leaving what is installed and fits.
      - The package lists are fetched first, in check mode aside from the node's own where that is possible.
      - Where Ubuntu's prebuilt modules are used, to the newest that they are built for.
    type: bool
    default: false
  load:
    description: >-
      Load the kernel modules where no driver is loaded and no reboot must come first. Make device nodes, at boot too.
    type: bool
    default: true
  reload:
    description:
      - Whether to reload the kernel modules when they differ from the installed ones.
      - V(when_idle) does so while no process has a GPU open. C(nvidia-persistenced) and the fabric manager do not
        count, and are restarted. The device plugin counts, and so does a pod that was given a GPU, unless
        O(on_allocated=ignore). Otherwise C(reboot_required) says what blocks it.
    type: str
    choices: [never, when_idle]
    default: never
  on_busy:
    description:
      - What to do if a loaded driver would be replaced, in version or type, or removed, while a process has a GPU open
        or a pod was given one. C(nvidia-persistenced) and NVIDIA's fabric manager do not count.
      - V(fail) changes nothing, and names who uses GPUs and how each is stopped. V(wait) waits for O(wait_timeout)
        before the first change. V(proceed) goes on, with a warning. What runs then may fail, and the modules are not
        reloaded. Processes are never ended.
      - A first installation is never refused, and neither is a change that takes no GPU away, such as holds, device
        nodes, services, or packages of the version that is loaded.
      - In check mode the plan is returned anyway, with RV(blocked_by) and RV(refused). A change that is not possible at
        all fails there as well.
    type: str
    choices: [fail, wait, proceed]
    default: fail
  wait_timeout:
    description: Seconds to wait with O(on_busy=wait). If GPUs are in use after that, the module fails as with V(fail).
    type: int
    default: 600
  persistence:
    description:
      - Enable C(nvidia-persistenced), start it once the driver is loaded, and turn persistence mode on for GPUs on
        which it is off all the same.
      - Where the unit starts it with C(--no-persistence-mode), as Ubuntu's does, a drop-in of the unit turns it on
        after each start.
      - GPUs are left to M(gpu.node.settings) where its rules name C(persistence), and GPUs in quarantine as they are.
    type: bool
    default: true
  manage_sources:
    description:
      - If the packages are not available, enable the components that have them (in Debian contrib, non-free, and
        non-free-firmware, in Ubuntu restricted and multiverse).
      - They go to C(/etc/apt/sources.list.d/gpu-node.sources), with the mirror and the key of the node's own sources.
        No other file is touched. Elsewhere no repository is added.
    type: bool
    default: true
  secure_boot:
    description:
      - Whether to refuse an installation where the kernel would reject the modules, as it does with Secure Boot,
        C(module.sig_enforce), or lockdown. With shim's validation disabled it takes them.
      - Modules that DKMS builds are accepted where C(mokutil) says that DKMS's key is enrolled. Otherwise the refusal
        names the key and the command that enrols it. Prebuilt modules that the distribution has signed need no key.
    type: str
    choices: [refuse, ignore]
    default: refuse
  module_options:
    description:
      - Options of the kernel modules, such as C(NVreg_RestrictProfilingToAdminUsers), and of another module of the
        driver with its name before a dot, such as C(nvidia_drm.modeset).
      - A value that an option does not take is refused before anything changes, as a module with one is not loaded. So
        is an option that the release of the driver does not have, which the kernel would ignore. What is known is from
        the releases of branches 515 to 595, and from C(modinfo) of modules on the node. An option of a later release
        that is not known is a warning.
      - They go to C(/etc/modprobe.d/gpu-node.conf), with the blacklist of nouveau where something would load it. The
        initramfs of each kernel is rebuilt then that has the driver, nouveau, or this file.
      - Loaded modules that show another value are reloaded as O(reload) says, or C(reboot_required) names it. Where
        another file of modprobe's or the kernel's command line wins, a warning names it.
      - Without an option here, the driver's own default or another file decides.
    type: dict
    default: {}
  lock_timeout:
    description: Seconds to wait for another package manager, and for another run on the same node.
    type: int
    default: 300
  releases:
    description:
      - The table of NVIDIA's driver branches and security bulletins, for RV(support), RV(security), and warnings.
      - V(true) takes the table that comes with the collection, and V(false) or an empty one none.
      - A dictionary takes its place. C(as_of) is its date. C(branches) has by the number of a branch C(kind) (C(lts),
        C(production), or C(new feature)), C(first_release), and C(end_of_support) as a day or a month, or C(ended) if
        it ended at a time that is not known. C(bulletins) is a list of C(id), C(date), C(url), and C(floors), the first
        version of each branch without the vulnerabilities. C(source) and C(read) may be in each row.
      - A driver below its branch's floor, or past its support, is a warning, also one from O(source=preinstalled). So
        is an update to a driver that would still be below.
    type: raw
    default: true
  gpu_count:
    description:
      - How many GPUs the node must have. V(-1) does not say.
      - The PCI addresses of the GPUs are recorded. If some are missing later, the record stays as it is, and
        M(gpu.node.plan) warns, until this option is the number of those that are left.
    type: int
    default: -1
    version_added: 0.2.0
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
"""
