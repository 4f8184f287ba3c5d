# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernel's side of the driver on a node: DKMS, modprobe's files, the initramfs, Secure Boot."""

from __future__ import annotations

import contextlib
import posixpath
import re
import time
import typing as t

from ..._base.errors import NodeError
from ..._machine.host import Host
from ..._node.machine import facts
from ..kernel import modules as driver_kernel
from ..kernel.modules import Dkms, Enforcement, Modules, SigningKey, tail
from ..module_options import in_force
from ..module_options.declared import MODULES, Options
from ..module_options.in_force import MODPROBE_FILE
from ..module_options.known import TABLE
from . import initramfs

DKMS = "/var/lib/dkms"
KERNELS = "/lib/modules"
PARAMS = "/proc/driver/nvidia/params"
# As modprobe reads them.
MODPROBE_FOLDERS = tuple(
    f"{folder}/modprobe.d" for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)
SLACK_SECONDS = 1.0  # file systems keep coarser times than clocks


def dkms(host: Host) -> t.Tuple[Dkms, ...]:
    """Return what DKMS has of the driver, read from its folders: its command takes half a second."""
    builds = []
    for module in host.listdir(DKMS):
        if not module.startswith("nvidia"):
            continue
        folder = f"{DKMS}/{module}"
        links = [host.readlink(f"{folder}/{name}") for name in host.listdir(folder)]
        for version in host.listdir(folder):
            if version.startswith("kernel-"):
                continue
            base = f"{folder}/{version}"
            built = set()
            sources = host.readlink(f"{base}/source")
            if sources is not None and not host.exists(sources):
                builds.append(Dkms(module, version, "", driver_kernel.NO_SOURCES))
            for kernel in host.listdir(base):
                for machine in host.listdir(f"{base}/{kernel}"):
                    if host.listdir(f"{base}/{kernel}/{machine}/module"):
                        linked = f"{version}/{kernel}/{machine}" in links
                        state = "installed" if linked else "built"
                        builds.append(Dkms(module, version, kernel, state))
                        built.add(kernel)
            log = f"{base}/build/make.log"
            failed = driver_kernel.failed_kernel(host.read(log) or "")
            if failed and failed not in built:
                builds.append(Dkms(module, version, failed, "failed", log))
    return tuple(builds)


def modules(
    host: Host, options: Options, *, added: bool, spared: t.Collection[str] = ()
) -> Modules:
    """Read what decides about the kernel's modules; ``added`` says that our file was once there.

    ``spared`` are the marks of those initramfs that have nothing of it.
    """
    kernels, text = host.listdir(KERNELS), host.read(MODPROBE_FILE)
    # By a record or by its first line, not by its name.
    foreign = text is not None and not added and not text.startswith(driver_kernel.HEADER)
    files = [
        f"{folder}/{name}"
        for folder in MODPROBE_FOLDERS
        for name in host.listdir(folder)
        if name.endswith(".conf") and (foreign or f"{folder}/{name}" != MODPROBE_FILE)
    ]
    texts = {path: host.read(path) or "" for path in files}
    # Of files of one name, that in the first folder counts.
    counting = {posixpath.basename(path): path for path in reversed(files)}
    counted = {path: texts[path] for path in counting.values()}
    command_line = host.read("/proc/cmdline") or ""
    nouveau = "kernel/drivers/gpu/drm/nouveau"
    own = None if foreign else host.status(MODPROBE_FILE)
    images = initramfs.images(host, kernels)
    stale = (
        kernel
        for kernel, made in images.items()
        if (own is None or made < own.ctime - SLACK_SECONDS)
        and initramfs.mark(kernel, made) not in spared
    )
    loaded = _loaded(host, options)
    bootable = tuple(kernel for kernel in kernels if host.exists(f"/boot/vmlinuz-{kernel}"))
    known = {release: host.read(f"{KERNELS}/{release}/modules.dep") or "" for release in bootable}
    bare = (name for name, text in known.items() if text and not driver_kernel.driver_files(text))
    return Modules(
        own=None if foreign else text,
        foreign=foreign,
        nouveau=any(host.listdir(f"{KERNELS}/{kernel}/{nouveau}") for kernel in kernels),
        blacklisted=driver_kernel.blacklists_on_command_line(command_line)
        or any(map(driver_kernel.blacklists, texts.values())),
        images=tuple(images),
        stale=tuple(stale) if own is not None or added else (),
        options=loaded,
        kernels=bootable,
        bare=tuple(bare),
        overruled=in_force.overruled(options, counted, command_line),
        itself=_itself(host, options, loaded),
        kept_away={
            path: line
            for path, line in (
                *((path, driver_kernel.keeps_away(text)) for path, text in counted.items()),
                ("/proc/cmdline", driver_kernel.keeps_away_on_command_line(command_line)),
            )
            if line
        },
        present=tuple(release for release in MODULES if host.exists(f"/sys/module/{release}")),
    )


def _loaded(host: Host, options: Options) -> t.Dict[str, str]:
    """Return the options that the loaded modules show: nvidia's in /proc, those of the others in /sys."""
    result = in_force.parse_params(host.read(PARAMS) or "")
    for name, _value in options:
        text = host.read("/sys/module/{}/parameters/{}".format(*name.split(".", 1)))
        if name not in result and text is not None:
            result[name] = text.strip()
    return result


def _itself(host: Host, options: Options, loaded: t.Iterable[str]) -> t.Dict[str, str]:
    """Return the options unknown here that modules declare themselves, with the version of a module on the disk."""
    unknown = {name for name, _value in options if name not in TABLE}
    values = dict.fromkeys(unknown.intersection(loaded), "")
    for module in sorted({name.partition(".")[0] for name in unknown.difference(values)}):
        for name in driver_kernel.names(module, current=True):
            completed = host.run(["modinfo", name], check=False)
            values.update(in_force.parse_modinfo(module, completed.out))
    return {name: version for name, version in values.items() if name in unknown}


def module_files(host: Host) -> t.List[str]:
    """Return the paths of the driver's main module for each kernel on the node."""
    return [
        posixpath.join(KERNELS, kernel, path)
        for kernel in host.listdir(KERNELS)
        for path in driver_kernel.driver_files(host.read(f"{KERNELS}/{kernel}/modules.dep") or "")
    ]


@contextlib.contextmanager
def building(host: Host, *, complete: bool = False) -> t.Iterator[None]:
    """Raise the error of a build that DKMS fails at inside, with the end of its log.

    With ``complete``, a failed build for the running kernel is an error though the package manager
    is content: rpm takes no notice of it.
    """
    start = time.time()
    try:
        yield
    except NodeError as error:
        for build in _failed(host, start):
            raise build_error(host, build) from error
        raise
    kernel = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    for build in _failed(host, start):
        if complete and build.kernel == kernel:
            raise build_error(host, build)


def _failed(host: Host, start: float) -> t.Iterator[Dkms]:
    """Yield the builds that have failed since a time, in seconds since the epoch."""
    for build in dkms(host):
        made = host.mtime(build.log) if build.log else None
        if made is not None and made >= start - SLACK_SECONDS:
            yield build


def build_error(host: Host, failed: Dkms) -> NodeError:
    """Return the error of a failed build."""
    return NodeError(
        f"DKMS could not build {failed.module} {failed.version} for the kernel {failed.kernel}",
        cause=f"the end of {failed.log}:\n{tail(host.read(failed.log) or '')}",
        hint="install the kernel's headers and its compiler, or ask for a version that fits the kernel, then run again",
        dkms=[failed.describe()],
    )


SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# What shim shows of its own state: 1 where a user has disabled its validation, by which the kernel goes too.
SHIM_STATE = "/sys/firmware/efi/efivars/MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"
SIG_ENFORCE = "/sys/module/module/parameters/sig_enforce"
CONFIG = "/etc/dkms/framework.conf"
CONFIG_FOLDER = f"{CONFIG}.d"
CONFIGURED = re.compile(r"^[ \t]*mok_certificate=[\"']?([^\"'\s#]+)", re.M)
# Ubuntu's DKMS signs with the key that its shim package makes, all others with one of their own.
DEFAULT_KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
# In mokutil's list of keys.
NVIDIAS = re.compile(r"^\s*(?:Issuer|Subject):.*nvidia", re.M | re.I)
ANSWERS = (
    ("is not enrolled", "refused"),
    ("is blocked in", "blocked"),
    ("is already in the enrollment request", "pending"),
    ("is already enrolled", "enrolled"),
    ("is already in db", "enrolled"),
    ("EFI variables are not supported", "no_efi"),
)


def enforcement(host: Host) -> t.Optional[Enforcement]:
    """Return why the kernel rejects modules whose signature it does not know, None if it takes them.

    The kernel is asked. The firmware's variables count only where it shows neither of its two settings.
    """
    enforced, lockdown = host.read(SIG_ENFORCE), facts.lockdown(host)
    if enforced is None and lockdown is None:
        return driver_kernel.SECURE_BOOT if _secure_boot(host) else None
    if (enforced or "").strip() == "Y":
        reason = driver_kernel.SIG_ENFORCE
    elif lockdown not in (None, "none"):
        reason = Enforcement(
            f"the kernel takes signed modules alone (lockdown: {lockdown})",
            f"boot without lockdown={lockdown}",
        )
    else:
        return None
    return driver_kernel.SECURE_BOOT if _secure_boot(host) else reason


def _secure_boot(host: Host) -> bool:
    """Return whether Secure Boot is on, and shim validates."""
    firmware, shim = (host.read_bytes(path) or b"\0" for path in (SECURE_BOOT, SHIM_STATE))
    return firmware[-1] == 1 and shim[-1] != 1


def signing_key(host: Host) -> t.Optional[SigningKey]:
    """Return the key and whether the firmware knows it, None if the kernel takes modules of any key."""
    enforced = enforcement(host)
    if enforced is None:
        return None
    names = (name for name in host.listdir(CONFIG_FOLDER) if name.endswith(".conf"))
    paths = [CONFIG, *(f"{CONFIG_FOLDER}/{name}" for name in names)]
    configured = [match for path in paths for match in CONFIGURED.findall(host.read(path) or "")]
    usual = [candidate for candidate in DEFAULT_KEYS if host.exists(candidate)] or DEFAULT_KEYS[-1:]
    path = configured[-1] if configured else usual[0]
    if not host.exists(path):
        return SigningKey(path, "missing", enforced)
    completed = host.run(["mokutil", "--test-key", path], check=False)  # its status tells nothing
    output = completed.out + completed.err
    state = next((state for answer, state in ANSWERS if answer in output), "unknown")
    return SigningKey(path, state, enforced)


def knows_nvidias_key(host: Host, key: t.Optional[SigningKey]) -> bool:
    """Return whether modules that NVIDIA has signed are accepted: its key is enrolled, or those of any key are."""
    if key is None:
        return True
    return bool(NVIDIAS.search(host.run(["mokutil", "--list-enrolled"], check=False).out))
