# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine of the RHEL family in a folder: genuine rpm and dnf 4 or 5, small packages.

dnf 5, which Fedora has, is unpacked with rpm and its libraries in .cache/dnf5, or where GPUNODE_DNF5 says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._capability.recorded import (
    package_manager,
)
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed, Host

from tests.fakes.played.rhel.rhel_systems import EL9, System
from tests.fakes.played.rooted import H100, Rooted
from tests.support.paths import REPOSITORY

KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpu-node-driver"
LOCKS = "/etc/dnf/plugins/versionlock.list"
DNF5 = Path(os.environ.get("GPUNODE_DNF5") or REPOSITORY / ".cache/dnf5")
TOOLS = ("rpm", "dnf", "rpmbuild", "createrepo_c")
ENTRY = "[{name}]\nname={name}\nbaseurl=file://{folder}\nenabled={enabled}\ngpgcheck=0\n"


class Rhel(Rooted):
    """A machine that runs its system's older kernel and knows base and cuda.

    ``versionlock`` says that dnf has that plugin, ``secure_boot`` that it is on; then ``enrolled`` are the keys that
    the firmware knows, by the name of who made them or by their path.
    """

    genuine = ("rpm", "dnf")
    libraries = "/usr/lib64"
    modules_of = ("extra/nvidia.ko", "extra/drivers/video/nvidia/nvidia.ko")

    def __init__(
        self,
        root: Path,
        repositories: Mapping[str, Path],
        system: System = EL9,
        *,
        gpu: str = H100,
        versionlock: bool = True,
        secure_boot: bool = False,
    ) -> None:
        super().__init__(root, system.os_release, system.kernel, gpu)
        self.system = system
        self.enrolled: list[str] = []
        if secure_boot:
            name = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
            self.mkdir("sys/firmware/efi/efivars").joinpath(name).write_bytes(b"\6\0\0\0\1")
        self.repositories, self.versionlock = repositories, versionlock
        self.mkdir("usr/bin").joinpath("dnf").symlink_to("dnf5" if self.five else "dnf-3")
        self.put("etc/dnf/dnf.conf", "[main]\ngpgcheck=0\n")
        text = f"[main]\nenabled = 1\nlocklist = {root}{LOCKS}\n"
        self.put("etc/dnf/plugins/versionlock.conf", text)
        self.put(LOCKS[1:], "")
        for name in set(repositories) - {"epel"}:
            self.switch(name, on=name in ("base", "cuda"))
        self.dnf("install", f"{system.core}-{system.kernel}")

    def switch(self, name: str, *, on: bool) -> None:
        """Enable or disable a repository."""
        entry = ENTRY.format(name=name, folder=self.repositories[name], enabled=int(on))
        self.put(f"etc/yum.repos.d/{name}.repo", entry)

    def dnf(self, *words: str) -> str:
        """Run dnf as a person would; it must succeed."""
        done = self.run(["dnf", "-y", "-q", *words], check=False)
        assert done.rc == 0, done.out + done.err
        return done.out

    def installed(self) -> dict[str, str]:
        """Return what rpm has, by name."""
        done = self.run(["rpm", "-qa", "--qf", "%{NAME} %{VERSION}\\n"])
        return dict(line.split() for line in done.out.split("\n") if line)

    def held(self) -> set[str]:
        """Return what is locked at its version."""
        manager = package_manager("rhel", self, 0, "the driver")
        return {name for name, one in manager.packages().items() if one.held}

    @property
    def five(self) -> bool:
        """Tell whether dnf is dnf 5."""
        return self.system.tool == "dnf5"

    def mkdir(self, path: str) -> Path:
        """Make a folder below the machine's, and return it."""
        (self.root / path).mkdir(parents=True, exist_ok=True)
        return self.root / path

    def read_bytes(self, path: str) -> bytes | None:
        # The locks of the programs that run, which are genuine.
        return Path(path).read_bytes() if path == "/proc/locks" else super().read_bytes(path)

    def write(self, path: str, text: str, **values):  # type: ignore[no-untyped-def]
        # The key's path, which dnf takes as it is named.
        ours = text.replace(f"file://{KEY}", f"file://{self.at(KEY)}")
        return super().write(path, ours if path.endswith(".repo") else text, **values)

    def read(self, path: str) -> str | None:
        text = super().read(path)
        ours = path.endswith(".repo") and text
        return text.replace(self.at(KEY), KEY) if text and ours else text

    def _genuine(self, words: tuple[str, ...], env: dict[str, str], stdin: str | None) -> Completed:
        options = [f"--root={self.root}"] if words[0] == "rpm" else self._options()
        program = [words[0]]
        if self.five:
            libraries = f"{DNF5}/usr/lib/x86_64-linux-gnu"
            name = "dnf5" if words[0] == "dnf" else words[0]
            program = [f"{libraries}/ld-linux-x86-64.so.2", "--library-path", libraries]
            program.append(f"{DNF5}/usr/bin/{name}")
            env = {**env, "RPM_CONFIGDIR": f"{DNF5}/usr/lib/rpm"}
        rest = [self.at(KEY) if word == KEY else word for word in words[1:]]
        return Host().run([*program, *options, *rest], check=False, env=env, stdin=stdin)

    def _options(self) -> list[str]:
        root = str(self.root)
        options = [f"--installroot={root}", f"--config={root}/etc/dnf/dnf.conf"]
        options += [f"--setopt=reposdir={root}/etc/yum.repos.d", "--forcearch=x86_64"]
        options += [f"--releasever={self.system.version}", f"--setopt=cachedir={root}/cache"]
        options += [f"--setopt=module_platform_id={self.system.platform}"]
        if not self.five:
            options += [f"--setopt=pluginconfpath={root}/etc/dnf/plugins"]
            lacks = not self.versionlock and not self.exists("/usr/lib/dnf-plugins/versionlock.py")
            options += [f"--setopt=pluginpath={root}/none"] if lacks else []
        return options

    def _dkms(self, words: tuple[str, ...]) -> Completed:
        """Play dkms autoinstall -k K."""
        assert words[1:3] == ("autoinstall", "-k"), words
        base = self.root / "lib/modules" / words[3]
        if not (base / "build/Makefile").exists():
            said = f"Error! Your kernel headers for kernel {words[3]} cannot be found.\n"
            return Completed(1, "", said)
        for source in (self.root / "usr/src").glob("nvidia-*/dkms.conf"):
            self.put(f"lib/modules/{words[3]}/extra/nvidia.ko", source.read_text())
        return Completed(0, "", "")

    def _mokutil(self, words: tuple[str, ...]) -> Completed:
        """Play mokutil, whose list has each certificate in openssl's words."""
        if words[1] == "--list-enrolled":
            keys = (
                f"[key {n}]\n        Issuer: CN={one}\n" for n, one in enumerate(self.enrolled, 1)
            )
            return Completed(0, "".join(keys), "")
        state = "already enrolled" if words[2] in self.enrolled else "not enrolled"
        return Completed(0, f"{words[2]} is {state}\n", "")
