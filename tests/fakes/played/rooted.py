# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A machine whose files are real ones below a folder, and what only a machine has: systemd, depmod, modprobe."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible_collections.gpu.node.plugins.module_utils._base.errors import NodeError
from ansible_collections.gpu.node.plugins.module_utils._machine.host import Completed, Host

KEYS = "/etc/apt/keyrings"
GPU = "sys/bus/pci/devices/0000:18:00.0"
H100, B200, V100 = "0x2330", "0x2901", "0x1db4"
BANNER = "NVRM version: NVIDIA UNIX {}Kernel Module for x86_64  {}  Release Build\n"
UNITS = "run/systemd/units"
STATIC = ("nvidia-persistenced.service",)  # udev starts it, as the packages of Ubuntu have it
PERSISTENT = "GPU-10000000-0000-0000-0000-000000000000, 0, Enabled\n"
TYPES = {"open": "Open ", "proprietary": ""}


class Rooted(Host):
    """A machine with a GPU whose files lie below a folder; a subclass runs genuine programs in ``_genuine``.

    ``broken`` are the units that do not start, ``answers`` those of other programs by their names.
    """

    genuine: tuple[str, ...] = ()
    libraries = "/usr/lib/x86_64-linux-gnu"
    modules_of = ("updates/dkms/nvidia.ko", "kernel/*/nvidia.ko")

    def __init__(self, root: Path, os_release: str, kernel: str, gpu: str) -> None:
        super().__init__()
        self.root = root
        self.ran: list[tuple[str, ...]] = []
        self.broken: set[str] = set()
        self.answers: dict[str, Completed | Callable[[tuple[str, ...]], Completed]] = {
            "nvidia-smi": Completed(0, PERSISTENT, "")
        }
        self.put("etc/os-release", os_release)
        self.put(f"{GPU}/vendor", "0x10de\n")
        self.put(f"{GPU}/device", f"{gpu}\n")
        self.put(f"{GPU}/class", "0x030200\n")
        self.put("proc/sys/kernel/osrelease", f"{kernel}\n")

    def at(self, path: str) -> str:
        return f"{self.root}{path}"

    def read_bytes(self, path: str) -> bytes | None:
        found = re.fullmatch(r"/lib/modules/([^/]+)/modules.dep", path)
        if found and self.exists(f"/lib/modules/{found[1]}"):  # what depmod writes
            base = self.root / "lib/modules" / found[1]
            rows = [f"{one.relative_to(base)}:\n" for one in sorted(base.rglob("*.ko"))]
            return "".join(["kernel/fs/ext4/ext4.ko:\n", *rows]).encode()
        return super().read_bytes(self.at(path))

    def write(self, path: str, text: str, **values):  # type: ignore[no-untyped-def]
        # The key's path, which apt takes as it is named.
        text = text.replace(KEYS, self.at(KEYS)) if path.endswith(".sources") else text
        return super().write(self._there(path), text, **values)

    def _there(self, path: str) -> str:
        """Return a path below the folder, which the base class may give already."""
        return path if path.startswith(str(self.root)) else self.at(path)

    def read(self, path: str) -> str | None:
        text = super().read(path)
        return text.replace(self.at(KEYS), KEYS) if text and path.endswith(".sources") else text

    def listdir(self, path: str) -> list[str]:
        return super().listdir(self.at(path))

    def exists(self, path: str) -> bool:
        return super().exists(self.at(path))

    def readlink(self, path: str) -> str | None:
        return super().readlink(self.at(path))

    def itself(self, path: str):  # type: ignore[no-untyped-def]
        return super().itself(self.at(path))

    def dress(self, path: str, mode: int) -> None:
        super().dress(self.at(path), mode)

    def status(self, path: str):  # type: ignore[no-untyped-def]
        return super().status(self.at(path))

    def mtime(self, path: str) -> float | None:
        return super().mtime(self.at(path))

    def lock_holder(self, path: str) -> int | None:
        return super().lock_holder(self.at(path))

    def symlink(self, target: str, path: str) -> None:
        super().symlink(target, self.at(path))

    def makedirs(self, path: str, mode: int = 0o755) -> None:
        super().makedirs(self._there(path), mode)

    def remove(self, path: str) -> bool:
        return super().remove(self.at(path))

    @contextlib.contextmanager
    def lock(self, path: str, *, timeout: float = 0, inherit: bool = False) -> Iterator[None]:
        yield

    # --- what a person does ---

    def put(self, path: str, text: str) -> None:
        """Write a file below the folder."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

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

    # --- what is there ---

    def loaded(self) -> str:
        """Return version and type of the loaded modules, empty where there are none."""
        text = self.read("/proc/driver/nvidia/version") or ""
        found = re.search(r"(Open )?Kernel Module for x86_64  (\S+)", text)
        return f"{found[2]} {'open' if found[1] else 'proprietary'}" if found else ""

    def modules(self, kernel: str) -> list[str]:
        """Return version and type of each module of a kernel; the first is loaded."""
        base = self.root / "lib/modules" / kernel
        found = [path for one in self.modules_of for path in sorted(base.glob(one))]
        return [path.read_text().strip() for path in found]

    def works(self) -> bool:
        """Return whether NVML would answer: the loaded modules are of the user space's version."""
        libraries = self.listdir(self.libraries)
        return libraries == [f"libnvidia-ml.so.{self.loaded().split(' ', maxsplit=1)[0]}"]

    def units(self) -> set[str]:
        """Return the units that were started."""
        return set(self.listdir(f"/{UNITS}"))

    def files(self) -> dict[str, bytes]:
        """Return all that is in the folder, by path, but for logs and what apt keeps of lists that it has parsed."""
        there = [one for one in self.root.rglob("*") if one.is_file() and one.suffix != ".bin"]
        kept = (
            one for one in there if one.name != "lock" and self.root / "var/log" not in one.parents
        )
        return {str(one): one.read_bytes() for one in kept}

    # --- its commands ---

    def which(self, name: str) -> str | None:
        if name in self.genuine or name in ("systemctl", "modprobe", "rmmod"):
            return super().which(name) or f"/usr/bin/{name}"
        folders = ("/usr/bin", "/usr/sbin")
        return next(
            (self.at(f"{one}/{name}") for one in folders if self.exists(f"{one}/{name}")), None
        )

    def run(self, argv, *, check=True, env=None, timeout=None, stdin=None):  # type: ignore[no-untyped-def]
        words = tuple(argv)
        self.ran.append(words)
        if words[:2] == ("/bin/sh", "-c"):
            done = Completed(0, "", "")  # no device node is missing
        elif words[0] in self.genuine:
            done = self._genuine(words, env or {}, stdin)
        else:
            answer = self.answers.get(words[0]) or getattr(self, f"_{words[0]}", self._unknown)
            done = answer if isinstance(answer, Completed) else answer(words)
        if check and done.rc != 0:
            raise NodeError(f"{' '.join(words)} failed with status {done.rc}", cause=done.err)
        return done

    def _genuine(self, words: tuple[str, ...], env: dict[str, str], stdin: str | None) -> Completed:
        raise NotImplementedError

    @staticmethod
    def _unknown(words: tuple[str, ...]) -> Completed:
        return Completed(127, "", f"{words[0]}: not found")

    def _systemctl(self, words: tuple[str, ...]) -> Completed:
        unit = words[2] if words[1] == "show" else words[-1]
        if words[1] in ("start", "enable") and unit in self.broken:
            return Completed(1, "", f"Job for {unit} failed.")
        if words[1] in ("start", "enable"):
            self.put(f"{UNITS}/{unit}", "")
        if words[1] in ("stop", "disable"):
            self.remove(f"/{UNITS}/{unit}")
        on = unit in self.units()
        enabled = "static" if unit in STATIC else "enabled" if on else "disabled"
        states = f"ActiveState={'active' if on else 'inactive'}\nUnitFileState={enabled}\n"
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
