# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Makers of machines: as they are installed, or with the driver, each made once and copied from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.fakes.packages.driver_runs import converge
from tests.fakes.played import memory
from tests.fakes.played.apt_machine import AptMachine
from tests.fakes.played.debs import Deb, Mirror
from tests.fakes.played.rooted import H100

M = TypeVar("M", bound=AptMachine)


class AptMachines(Generic[M]):
    """Makes machines of a kind in a folder; ``mirror`` are the options of their mirror."""

    def __init__(self, kind: type[M], place: Path, codename: str, **mirror: Any) -> None:
        self._kind, self._place, self._codename, self._mirror = kind, place, codename, mirror

    def __call__(
        self, packages: Iterable[Deb], kernel: str, gpu: str = H100, flavour: str = ""
    ) -> M:
        """Return a machine that runs a kernel, with the archive's packages."""
        return self._made(tuple(packages), kernel, gpu, flavour, "", lambda _node: None)

    def driven(self, packages: Iterable[Deb], kernel: str, gpu: str = H100, **options: Any) -> M:
        """Return such a machine with the driver that these options bring."""

        def bring(node: M) -> None:
            assert converge(node, **options).steps == ()

        named = repr(sorted(options.items()))
        return self._made(tuple(packages), kernel, gpu, "", named, bring)

    def by_hand(self, packages: Iterable[Deb], kernel: str, *names: str, gpu: str = H100) -> M:
        """Return such a machine on which a person has installed packages, and booted."""

        def install(node: M) -> None:
            node.enable()
            node.apt("install", *names)
            node.boot()

        return self._made(tuple(packages), kernel, gpu, "", repr(names), install)

    def _made(
        self,
        offered: tuple[Deb, ...],
        kernel: str,
        gpu: str,
        flavour: str,
        more: str,
        make: Callable[[M], None],
    ) -> M:
        mirror = Mirror(self._place / "mirror", self._codename, **self._mirror)
        node = self._kind(self._place / "node", mirror, kernel, gpu, flavour)
        key = self._kind, self._codename, offered, kernel, gpu, flavour

        def install() -> None:
            mirror.publish(offered)
            node.install()

        def whole() -> None:
            memory.once(key, self._place, install)
            make(node)

        memory.once((*key, more), self._place, whole)
        node.ran.clear()
        return node
