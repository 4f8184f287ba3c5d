# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An Ubuntu 24.04 machine in a folder: genuine apt and dpkg, small packages, kernels that boot.

Its files are real ones below ``root``. What only a machine has is played: systemd, depmod, modprobe, the boot.
GPUNODE_APT names a folder with another apt, unpacked, in place of the machine's own.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._core.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._host.api import Completed, Host
from debs import Deb, Mirror

OS_RELEASE = (
    'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'
)
GPU = "sys/bus/pci/devices/0000:18:00.0"
H100, B200 = "0x2330", "0x2901"
BANNER = "NVRM version: NVIDIA UNIX {}Kernel Module for x86_64  {}  Release Build\n"
TYPES = {"open": "Open ", "proprietary": ""}
BASE = (
    "Package: dpkg\nStatus: install ok installed\nMaintainer: t <t@t>\nArchitecture: amd64\nVersion: 1.22.6\n"
    "Description: played\n"
)
FOLDERS = (
    *(
        "etc/apt/sources.list.d",
        "etc/apt/preferences.d",
        "etc/apt/apt.conf.d",
        "etc/apt/trusted.gpg.d",
    ),
    *(
        "var/lib/dpkg/info",
        "var/lib/dpkg/updates",
        "var/lib/dpkg/triggers",
        "var/lib/apt/lists/partial",
    ),
    *(
        "var/cache/apt/archives/partial",
        "var/lib/gpu-node",
        "var/log/apt",
        "lib/modules",
        "boot",
        "run",
    ),
)
GENUINE = ("apt-get", "apt-cache", "apt-mark", "dpkg", "dpkg-query")
TOOLS = (*GENUINE, "dpkg-deb")
# apt's own files, which it takes as they are named.
OWN = "/var/lib/gpu-node/apt-preferences"


def missing() -> str:
    """Say what the machine lacks for these tests."""
    lacking = [name for name in TOOLS if shutil.which(name) is None]
    if lacking:
        return f"needs {', '.join(lacking)}"
    return "" if os.geteuid() == 0 else "needs root"


class Rooted(Host):
    """A host whose files lie below a folder; a subclass says what its commands do."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def at(self, path: str) -> str:
        return f"{self.root}{path}"

    def read_bytes(self, path: str) -> bytes | None:
        return super().read_bytes(self.at(path))

    def write(self, path: str, text: str, **values):  # type: ignore[no-untyped-def]
        return super().write(
            path if path.startswith(str(self.root)) else self.at(path), text, **values
        )

    def listdir(self, path: str) -> list[str]:
        return super().listdir(self.at(path))

    def exists(self, path: str) -> bool:
        return super().exists(self.at(path))

    def readlink(self, path: str) -> str | None:
        return super().readlink(self.at(path))

    def status(self, path: str):  # type: ignore[no-untyped-def]
        return super().status(self.at(path))

    def mtime(self, path: str) -> float | None:
        return super().mtime(self.at(path))

    def makedirs(self, path: str, mode: int = 0o755) -> None:
        super().makedirs(path if path.startswith(str(self.root)) else self.at(path), mode)

    def remove(self, path: str) -> bool:
        return super().remove(self.at(path))

    @contextlib.contextmanager
    def lock(self, path: str, *, timeout: float = 0) -> Iterator[None]:
        yield


class Ubuntu(Rooted):
    """A noble machine with a GPU whose archive is ``mirror``; it has run ``kernel`` since it was installed."""

    def __init__(self, root: Path, mirror: Mirror, kernel: str, gpu: str = H100) -> None:
        super().__init__(root)
        self.mirror, self.active = mirror, False
        self.ran: list[tuple[str, ...]] = []
        for name in FOLDERS:
            (root / name).mkdir(parents=True)
        self.put("var/lib/dpkg/status", BASE)
        self.put("var/lib/dpkg/available", "")
        self.put("etc/os-release", OS_RELEASE)
        self.put(f"{GPU}/vendor", "0x10de\n")
        self.put(f"{GPU}/device", f"{gpu}\n")
        self.put(f"{GPU}/class", "0x030200\n")
        url = f"file:{mirror.folder}"
        self.put(
            "etc/apt/sources.list",
            f"deb {url} noble main universe\ndeb {url} noble-updates main universe\n",
        )
        self.put("proc/sys/kernel/osrelease", f"{kernel}\n")
        flavour = kernel.rpartition("-")[2]
        self.apt("update")
        self.apt("install", f"linux-{flavour}", f"linux-image-{kernel}")

    # --- what a person does ---

    def put(self, path: str, text: str) -> None:
        """Write a file below the folder."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def apt(self, *words: str) -> str:
        """Run apt-get as a person would; it must succeed."""
        done = self.run(["apt-get", "-y", "-q", "--no-install-recommends", *words], check=False)
        assert done.rc == 0, done.out + done.err
        return done.out

    def archive(self, packages: Iterable[Deb], *, lists: bool = True) -> None:
        """Let the archive move on; the node's lists follow, unless they stay as they were."""
        self.mirror.publish(packages)
        if lists:
            self.apt("update")

    def enable(self) -> None:
        """Enable the components that have the driver, as Ubuntu's installer does."""
        text = (self.root / "etc/apt/sources.list").read_text()
        self.put(
            "etc/apt/sources.list", text.replace("main universe", "main restricted multiverse")
        )
        self.apt("update")

    def boot(self, kernel: str = "") -> str:
        """Boot the newest kernel, or another one, and return it: udev loads the driver where it can."""
        kernels = [name[8:] for name in self.listdir("/boot") if name.startswith("vmlinuz-")]
        chosen = kernel or max(kernels, key=lambda one: [int(n) for n in re.findall(r"\d+", one)])
        assert chosen in kernels, kernels
        self.put("proc/sys/kernel/osrelease", f"{chosen}\n")
        self.remove("/sys/module/nvidia")
        self.remove("/proc/driver/nvidia")
        self.run(["modprobe", "nvidia"], check=False)
        return chosen

    def unattended(self) -> None:
        """Play a night of unattended-upgrades, which moves kernels and drivers alike (F11)."""
        self.apt("update")
        self.apt("dist-upgrade")

    # --- what is there ---

    def installed(self) -> dict[str, str]:
        """Return what dpkg has, by name."""
        words = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n"]
        rows = [line.split() for line in self.run(words).out.split("\n") if line]
        return {row[0]: row[1] for row in rows if row[2] == "installed" and row[0] != "dpkg"}

    def held(self) -> set[str]:
        """Return what is on hold."""
        return set(self.run(["apt-mark", "showhold"]).out.split())

    def loaded(self) -> str:
        """Return version and type of the loaded modules, empty where there are none."""
        text = self.read("/proc/driver/nvidia/version") or ""
        found = re.search(r"(Open )?Kernel Module for x86_64  (\S+)", text)
        return f"{found[2]} {'open' if found[1] else 'proprietary'}" if found else ""

    def modules(self, kernel: str) -> list[str]:
        """Return version and type of each module of a kernel; the first is loaded."""
        base = self.root / "lib/modules" / kernel
        found = [*base.glob("updates/dkms/nvidia.ko"), *sorted(base.glob("kernel/*/nvidia.ko"))]
        return [path.read_text().strip() for path in found]

    def works(self) -> bool:
        """Tell whether NVML would answer: the loaded modules are of the user space's version."""
        libraries = self.listdir("/usr/lib/x86_64-linux-gnu")
        return libraries == [f"libnvidia-ml.so.{self.loaded().split(' ')[0]}"]

    # --- its commands ---

    def which(self, name: str) -> str | None:
        if name in GENUINE or name in ("systemctl", "modprobe", "rmmod"):
            return super().which(name) or f"/usr/bin/{name}"
        return self.at(f"/usr/bin/{name}") if self.exists(f"/usr/bin/{name}") else None

    def read_bytes(self, path: str) -> bytes | None:
        found = re.fullmatch(r"/lib/modules/([^/]+)/modules.dep", path)
        if found and self.exists(f"/lib/modules/{found[1]}"):  # what depmod writes
            base = self.root / "lib/modules" / found[1]
            rows = [f"{one.relative_to(base)}:\n" for one in sorted(base.rglob("*.ko"))]
            return "".join(["kernel/fs/ext4/ext4.ko:\n", *rows]).encode()
        return super().read_bytes(path)

    def run(self, argv, *, check=True, env=None, timeout=None, stdin=None):  # type: ignore[no-untyped-def]
        words = tuple(argv)
        self.ran.append(words)
        if words[0] in GENUINE:
            done = self._genuine(words, env or {})
        else:
            done = getattr(self, f"_{words[0]}", self._unknown)(words)
        if check and done.rc != 0:
            raise NodeError(f"{' '.join(words)} failed with status {done.rc}", cause=done.err)
        return done

    def _genuine(self, words: tuple[str, ...], env: dict[str, str]) -> Completed:
        dpkg = [f"--root={self.root}", "--force-script-chrootless", "--force-not-root"]
        dpkg += ["--force-unsafe-io"]
        options = dpkg
        if words[0].startswith("apt-"):
            options = ["-o", f"Dir={self.root}", "-o", "APT::Sandbox::User=root"]
            options += ["-o", f"Dir::State::status={self.root}/var/lib/dpkg/status"]
            options += ["-o", "APT::Architecture=amd64", "-o", "APT::Architectures::=amd64"]
            # Signatures are what test_repository is about.
            options += ["-o", "APT::Get::AllowUnauthenticated=true"]
            options += ["-o", "Acquire::AllowInsecureRepositories=true"]
            options += [word for one in dpkg for word in ("-o", f"DPkg::Options::={one}")]
        if words[0] == "dpkg-query":
            options = [f"--root={self.root}"]
        rest = [word.replace(OWN, self.at(OWN)) for word in words[1:]]
        other, more = os.environ.get("GPUNODE_APT", ""), dict(env)
        program = words[0]
        if other and program.startswith("apt-"):
            program = f"{other}/usr/bin/{program}"
            more["LD_LIBRARY_PATH"] = f"{other}/usr/lib/x86_64-linux-gnu"
            options += ["-o", f"Dir::Bin::methods={other}/usr/lib/apt/methods"]
        return Host().run([program, *options, *rest], check=False, env=more)

    @staticmethod
    def _unknown(words: tuple[str, ...]) -> Completed:
        return Completed(127, "", f"{words[0]}: not found")

    def _systemctl(self, words: tuple[str, ...]) -> Completed:
        if words[1] in ("start", "enable"):
            self.active = True
        if words[1] in ("stop", "disable"):
            self.active = False
        states = f"ActiveState={'active' if self.active else 'inactive'}\nUnitFileState=static\n"
        return Completed(0, states if words[1] == "show" else "", "")

    def _modprobe(self, words: tuple[str, ...]) -> Completed:
        kernel = (self.read("/proc/sys/kernel/osrelease") or "").strip()
        there = self.modules(kernel)
        if not there:
            words_of = (
                f"modprobe: FATAL: Module {words[1]} not found in directory /lib/modules/{kernel}"
            )
            return Completed(1, "", words_of)
        version, kind = there[0].split(" ")
        self.put("sys/module/nvidia/version", f"{version}\n")
        self.put("proc/driver/nvidia/version", BANNER.format(TYPES[kind], version))
        return Completed(0, "", "")

    def _rmmod(self, _words: tuple[str, ...]) -> Completed:
        self.remove("/sys/module/nvidia")
        self.remove("/proc/driver/nvidia")
        return Completed(0, "", "")
