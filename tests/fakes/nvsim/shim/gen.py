# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""Write the shim's repetitive C from functions.txt: forward.c and slots.h."""

from __future__ import annotations

import sys
from pathlib import Path

SLOTS = 511


def main() -> None:
    """Read functions.txt beside this file and write into the folder named by the argument."""
    out = Path(sys.argv[1])
    lines = (Path(__file__).parent / "functions.txt").read_text().splitlines()
    forward = ['#include "nvsim.h"']
    for line in lines:
        if line and not line.startswith("#"):
            name, _space, spec = line.partition(" ")
            forward.append(f'FORWARD({name}, "{spec}")')
    (out / "forward.c").write_text("\n".join(forward) + "\n")
    ones = "\n".join(f"ONE({n})" for n in range(1, SLOTS + 1))
    refs = "\n".join(f"REF({n})" for n in range(1, SLOTS + 1))
    table = f"static void *const slots[] = {{(void *)0x1000,\n{refs}\n}};"
    (out / "slots.h").write_text(f"{ones}\n{table}\n")


if __name__ == "__main__":
    main()
