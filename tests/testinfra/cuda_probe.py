# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""What a CUDA program sees and gets, through the driver's own library: no toolkit is needed.

Prints JSON. Runs on a node by itself, so it imports nothing but the standard library. Argument: how
many MiB to allocate, in pieces of 64 MiB.
"""

import ctypes
import json
import sys

MIB = 1024**2
PIECE = 64 * MIB
MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
OUT_OF_MEMORY = 2


def main(wanted):
    """Print what was seen."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(json.dumps({"problem": f"no CUDA: {error}"}))
        return

    def call(name, *arguments):
        code = getattr(cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} answers {code}")

    try:
        print(json.dumps(look(cuda, call, wanted)))
    except (RuntimeError, AttributeError) as error:
        print(json.dumps({"problem": str(error)}))


def look(cuda, call, wanted):
    """Return what the first device shows, and how many MiB it gave."""
    device, count, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    total, free, seen = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
    name, processors = ctypes.create_string_buffer(96), ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDeviceGetName", name, len(name), device)
    call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuDeviceGetAttribute", ctypes.byref(count), MULTIPROCESSORS, device)
    processors.value = count.value
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(seen))
    given = 0
    while given < wanted:
        place = ctypes.c_uint64()
        code = cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(PIECE))
        if code == OUT_OF_MEMORY:
            break
        if code:
            raise RuntimeError(f"cuMemAlloc answers {code}")
        given += PIECE // MIB
    return {
        "name": name.value.decode(),
        "total_mib": total.value // MIB,
        "info_total_mib": seen.value // MIB,
        "info_free_mib": free.value // MIB,
        "multiprocessors": processors.value,
        "given_mib": given,
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
