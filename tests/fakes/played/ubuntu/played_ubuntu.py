# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""An Ubuntu 24.04 machine in a folder: genuine apt and dpkg, small packages, kernels that boot."""

from __future__ import annotations

from tests.fakes.played.apt_machine import AptMachine
from tests.fakes.played.machines import AptMachines


class Ubuntu(AptMachine):
    """A machine of Ubuntu's."""

    os_release = (
        'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n'
    )
    main, all_parts = "main universe", "main restricted multiverse"

    @staticmethod
    def kernels(kernel: str, flavour: str) -> tuple[str, ...]:
        return (f"linux-{flavour}", f"linux-image-{kernel}")


Machines = AptMachines[Ubuntu]
