# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Presets of repositories, which a user would otherwise have to look up for each system.

The source and the date of each fact are in docs/driver/repositories.md.
"""

from __future__ import annotations

import functools
import typing as t

from ..distributions import BY_ID
from ..errors import InputError
from ..text.masking import masked_text
from .repository import ADDRESS, RPM_FAMILIES, URL

Values = t.Mapping[str, t.Any]
BOTH = ("x86_64", "aarch64")
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
TOOLKIT = "https://nvidia.github.io/libnvidia-container"
# By the name of the key's file, which is the end of its fingerprint. None if only that end is known here.
PINNED: t.Mapping[str, t.Optional[str]] = {
    "3bf863cc": "EB693B3035CD5710E231E123A4B469963BF863CC",
    "8793F200": "02182E60104FCDC26EAE1B8597A5D4CB8793F200",
    "60DF8A40": "14BAFBC7562AD710CA04E69905FBB6DA60DF8A40",
    "D42D0685": "610C7B14E068A878070DA4E99CD0A493D42D0685",
    "3A8B5622": "CF65941A859D4B4E6870F188736A284B3A8B5622",
    "73CD9B30": "129994480EC63D2789BC98E490DFED2F73CD9B30",
    "CDF6BA43": None,
    "1940C73E": None,
}
# The folders, each with the key that signs it and the machines that it is for.
FOLDERS: t.Mapping[str, t.Tuple[str, t.Tuple[str, ...]]] = {
    "debian12": ("3bf863cc", BOTH),
    "debian13": ("8793F200", BOTH),
    "ubuntu2204": ("3bf863cc", BOTH),
    "ubuntu2404": ("3bf863cc", BOTH),
    "ubuntu2604": ("60DF8A40", BOTH),
    "rhel8": ("D42D0685", BOTH),
    "rhel9": ("D42D0685", BOTH),
    "rhel10": ("CDF6BA43", BOTH),
    "fedora42": ("D42D0685", BOTH),
    "fedora43": ("1940C73E", BOTH),
    "fedora44": ("73CD9B30", ("x86_64",)),
    "amzn2023": ("D42D0685", BOTH),
    "sles15": ("D42D0685", BOTH),
    "opensuse15": ("D42D0685", ("x86_64",)),
    "suse16": ("3A8B5622", BOTH),
}
SUSE = {
    ("sles", "15"): "sles15",
    ("sles", "16"): "suse16",
    ("opensuse-leap", "15"): "opensuse15",
    ("opensuse-leap", "16"): "suse16",
}
# arm64 here is a server with SBSA firmware; Jetson boards have folders of their own.
CUDA_MACHINES = {"x86_64": "x86_64", "aarch64": "sbsa"}
DEBIAN_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
TOOLKIT_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"


class System(t.NamedTuple):
    """The system of a node: ID and VERSION_ID of os-release, the machine by uname, and the family.

    ``title`` is its name in messages.
    """

    id: str
    version: str
    machine: str
    family: str
    title: str


class Preset(t.NamedTuple):
    """The repository of a preset for a system, and its key, relative to ``base_url``."""

    base_url: str
    folder: str
    key: str
    key_fingerprint: t.Optional[str]
    signed_metadata: bool = False
    signed_packages: bool = True


Presets = t.Mapping[str, t.Callable[[System], Preset]]


def _driver(system: System) -> Preset:
    folder = cuda_folder(system)
    key, machines = FOLDERS.get(folder, ("", ()))
    if system.machine not in machines:
        raise _unknown(system, f"{', '.join(FOLDERS)}, most for x86_64 and aarch64")
    folder = f"{folder}/{CUDA_MACHINES[system.machine]}"
    return Preset(CUDA, folder, f"{folder}/{key}.pub", PINNED[key])


def cuda_folder(system: System) -> str:
    """Return the name of the folder of a system's release in NVIDIA's repository."""
    major = system.version.split(".")[0]
    known = BY_ID.get(system.id)
    if known and known.folder:
        return known.folder + major
    return SUSE.get((system.id, major), system.id + system.version.replace(".", ""))


def _toolkit(channel: str, system: System) -> Preset:
    """Return NVIDIA's repository of the container toolkit, one for all systems of a format."""
    if system.machine not in BOTH:
        raise _unknown(system, "x86_64 and aarch64")
    debian, rpm = f"deb/{DEBIAN_MACHINES[system.machine]}", f"rpm/{system.machine}"
    folder = f"{channel}/{rpm if system.family in RPM_FAMILIES else debian}"
    # NVIDIA signs the lists, and not the packages.
    return Preset(TOOLKIT, folder, "gpgkey", TOOLKIT_KEY, True, False)


def _unknown(system: System, known: str) -> InputError:
    here = f"this is {system.title} on {system.machine}"
    instead = "leave preset out, and give url, key and key_fingerprints of a repository for it"
    expected = f"a system that it has a repository for ({known}), and {here}; {instead}"
    return InputError.of("repository.preset", "nvidia", expected)


DRIVER_PRESETS: Presets = {"nvidia": _driver}
TOOLKIT_PRESETS: Presets = {
    "nvidia": functools.partial(_toolkit, "stable"),
    "nvidia-experimental": functools.partial(_toolkit, "experimental"),
}


def expand(values: Values, presets: Presets, system: t.Callable[[], System]) -> Values:
    """Return the options of a repository with the values of its preset, which the user's own override.

    Raises:
        InputError: if an option is invalid, with its key.
    """
    name, base_url = values.get("preset"), values.get("base_url")
    if name is None:
        if base_url is not None:
            expected = "preset with it, or url for a repository of your own"
            raise InputError.of("repository.base_url", masked_text(base_url), expected)
        return values
    if name not in presets:
        expected = f"{' or '.join(presets)}, or url and key of a repository of your own instead"
        raise InputError.of("repository.preset", name, expected)
    if values.get("url") is not None:
        expected = f"none with preset: {name}; a mirror of it is named by base_url"
        raise InputError.of("repository.url", masked_text(values["url"]), expected)
    if base_url is not None and not URL.fullmatch(base_url):
        raise InputError.of("repository.base_url", masked_text(base_url), ADDRESS)
    return _merged(values, presets[name](system()))


def _merged(values: Values, preset: Preset) -> Values:
    base = (values.get("base_url") or preset.base_url).rstrip("/")
    set_values = {key: value for key, value in values.items() if value not in (None, [])}
    if not (preset.key_fingerprint or "key_fingerprints" in set_values or "key" in set_values):
        raise InputError.of(
            "repository.key_fingerprints",
            [],
            f"the fingerprint of the key at {preset.base_url}/{preset.key}, of which only the end is known here; "
            "compare with what NVIDIA publishes before you write it there",
        )
    return {
        **values,
        "url": f"{base}/{preset.folder}",
        "key": f"{base}/{preset.key}",
        "key_fingerprints": [preset.key_fingerprint] if preset.key_fingerprint else [],
        "signed_metadata": preset.signed_metadata,
        "signed_packages": preset.signed_packages,
        **set_values,
        "named": "base_url",
    }
