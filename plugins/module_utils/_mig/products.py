# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The GPUs that can be partitioned, by their PCI ids, and their profiles, for nodes without a driver.

Sources: NVIDIA, MIG User Guide (610), Supported GPUs and Supported MIG Profiles; the ids by product are those of the
device filters in mig-parted's configurations, as the GPU Operator ships them. Other products are not known.
"""

from __future__ import annotations

import typing as t

from .._base.gpu import GiProfile, architecture

Profiles = t.Tuple[GiProfile, ...]
# Of Ampere only GA100 can, whose ids are below those of GA10x; Hopper can, and of Blackwell some.
NEVER = ("kepler", "maxwell", "pascal", "volta", "turing", "ada")
GA10X = 0x2200


def _profile(number: int, name: str, most: int, starts: t.Iterable[int], size: int) -> GiProfile:
    places = tuple((at, size) for at in starts)
    return GiProfile(number, 0, name, int(name[0]), most, 0, places)


def _of_seven(eighth: int, quarter: int, half: int, whole: int) -> Profiles:
    """Return the profiles of a GPU of seven slices; memory in GB, as in the profiles' names."""
    return (
        _profile(19, f"1g.{eighth}gb", 7, range(7), 1),
        _profile(20, f"1g.{eighth}gb+me", 1, range(7), 1),
        _profile(15, f"1g.{quarter}gb", 4, range(0, 8, 2), 2),
        _profile(14, f"2g.{quarter}gb", 3, range(0, 6, 2), 2),
        _profile(9, f"3g.{half}gb", 2, (0, 4), 4),
        _profile(5, f"4g.{half}gb", 1, (0,), 4),
        _profile(0, f"7g.{whole}gb", 1, (0,), 8),
    )


A30 = (
    _profile(14, "1g.6gb", 4, range(4), 1),
    _profile(21, "1g.6gb+me", 1, range(4), 1),
    _profile(5, "2g.12gb", 2, (0, 2), 2),
    _profile(6, "2g.12gb+me", 1, (0, 2), 2),
    _profile(0, "4g.24gb", 1, (0,), 4),
)
PRODUCTS: t.Mapping[str, t.Tuple[t.Tuple[int, ...], Profiles]] = {
    "A30": ((0x20B7,), A30),
    "A100 40GB": ((0x20B0, 0x20B1), _of_seven(5, 10, 20, 40)),
    "A800 40GB": ((0x20F6,), _of_seven(5, 10, 20, 40)),
    "A100 80GB": ((0x20B2, 0x20B5), _of_seven(10, 20, 40, 80)),
    "A800 80GB": ((0x20F3, 0x20F5), _of_seven(10, 20, 40, 80)),
    "H100 80GB": ((0x2330, 0x2331), _of_seven(10, 20, 40, 80)),
    "H800 80GB": ((0x2322,), _of_seven(10, 20, 40, 80)),
    "H200 141GB": ((0x2335,), _of_seven(18, 35, 71, 141)),
}


class Product(t.NamedTuple):
    """A GPU that can be partitioned, and the profiles that it has with one driver or another."""

    name: str
    profiles: Profiles


BY_ID = {
    number: Product(name, profiles) for name, (ids, profiles) in PRODUCTS.items() for number in ids
}


def product(device_id: int) -> t.Optional[Product]:
    """Return the product with a PCI device id, None if it is not known."""
    return BY_ID.get(device_id)


def never(device_id: int) -> bool:
    """Return whether no driver can partition GPUs with a PCI device id."""
    family = architecture(device_id)
    return family in NEVER or (family == "ampere" and device_id >= GA10X)
