# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""A program of its own: ask the driver for its GPUs, and have one of them add two vectors.

It is handed to a Python on its command line, inside a container or beside one, and needs the standard library alone.
It prints a line of JSON: the UUIDs of the GPUs, why there are none, and why the sum came out wrong or was not tried.
"""

from __future__ import annotations

import array
import ctypes
import errno
import glob
import json
import os
import sys
import typing as t

FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/lib",
)
CONTROL = "/dev/nvidiactl"
HOST = "/host"  # what is below it in a container is the machine's
COUNT = 256
# What a client of MPS has from its share, and what cuda.h calls the answers.
PIPE, MEMORY, THREADS = (
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)
MULTIPROCESSOR_COUNT, OUT_OF_MEMORY = 16, 2
ROUNDING = 2  # multiprocessors, which is as fine as GPUs divide them
# c[i] = a[i] + b[i] for one block of threads, in the form that every driver compiles for its GPU.
KERNEL = b"""
.version 6.0
.target sm_30
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c)
{
  .reg .f32 %f<4>;
  .reg .b32 %r<2>;
  .reg .b64 %d<8>;
  ld.param.u64 %d1, [a];
  ld.param.u64 %d2, [b];
  ld.param.u64 %d3, [c];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d4, %r1, 4;
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  cvta.to.global.u64 %d3, %d3;
  add.s64 %d5, %d1, %d4;
  add.s64 %d6, %d2, %d4;
  add.s64 %d7, %d3, %d4;
  ld.global.f32 %f1, [%d5];
  ld.global.f32 %f2, [%d6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%d7], %f3;
  ret;
}
\0"""


class DriverError(Exception):
    """A call into the driver failed, with this code."""

    code = 0


def library(name: str) -> t.Any:
    """Load a library of the driver: in a container from where images have them, on the machine as the loader does."""
    if not os.path.isdir(HOST):
        return ctypes.CDLL(name)
    for folder in FOLDERS:
        files = sorted(glob.glob(f"{folder}/{name}") or glob.glob(f"{folder}/{name}.*"))
        if files:
            return ctypes.CDLL(files[0])
    raise DriverError(f"{name} is not in the container")


def uuids() -> t.List[str]:
    """Return the UUIDs of the GPUs that NVML has."""
    nvml = library("libnvidia-ml.so.1")
    nvml.nvmlErrorString.restype = ctypes.c_char_p

    def call(name: str, *arguments: t.Any) -> None:
        code = getattr(nvml, name)(*arguments)
        if code:
            raise DriverError(f"{name}: {nvml.nvmlErrorString(code).decode('utf-8', 'replace')}")

    call("nvmlInit_v2")
    count = ctypes.c_uint()
    call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    names = []
    for index in range(min(count.value, 1024)):
        handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
        call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        call("nvmlDeviceGetUUID", handle, text, ctypes.c_uint(len(text)))
        names.append(text.value.decode("ascii", "replace"))
    return names


class Cuda:
    """The driver's CUDA library; every call raises DriverError where it fails."""

    def __init__(self) -> None:
        self._library = library("libcuda.so.1")

    def __getattr__(self, name: str) -> t.Callable[..., None]:
        function = getattr(self._library, name)

        def call(*arguments: t.Any) -> None:
            code = function(*arguments)
            if code:
                error = DriverError(f"{name}: {self._word(code)}")
                error.code = code
                raise error

        return call

    def _word(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(text))
        return (text.value or str(code).encode()).decode("ascii", "replace")


def add(device: str) -> str:
    """Add two vectors on a GPU or MIG device. Returns what is wrong with the sum, nothing where it is right."""
    os.environ["CUDA_VISIBLE_DEVICES"] = device
    whole = _multiprocessors_without_mps() if os.environ.get(THREADS) else 0
    cuda, number, context = Cuda(), ctypes.c_int(), ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(number), 0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), number)
    try:
        cuda.cuCtxSetCurrent(context)
        return _add(cuda) or _unlimited_threads(cuda, number, whole) or _unlimited_memory(cuda)
    finally:
        cuda.cuDevicePrimaryCtxRelease_v2(number)


def _multiprocessors(cuda: Cuda, number: ctypes.c_int) -> int:
    count = ctypes.c_int()
    cuda.cuDeviceGetAttribute(ctypes.byref(count), MULTIPROCESSOR_COUNT, number)
    return count.value


def _multiprocessors_without_mps() -> int:
    """Return how many multiprocessors the device has, 0 if that is unknown. A child asks, which makes no context."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.environ[PIPE] = "/nowhere"
            del os.environ[THREADS]
            cuda, number = Cuda(), ctypes.c_int()
            cuda.cuInit(0)
            cuda.cuDeviceGet(ctypes.byref(number), 0)
            os.write(writer, str(_multiprocessors(cuda, number)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="ascii") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    return int(answer or 0)


def _unlimited_threads(cuda: Cuda, number: ctypes.c_int, whole: int) -> str:
    """Return how a client of MPS may use more multiprocessors than its share has, nothing if it may not."""
    percentage = os.environ.get(THREADS)
    count = _multiprocessors(cuda, number) if percentage and whole else 0
    if count <= whole * float(percentage or 100) / 100 + ROUNDING:
        return ""
    return f"{count} of {whole} multiprocessors can be used, and its limit is {percentage} percent"


def _unlimited_memory(cuda: Cuda) -> str:
    """Return how a client of MPS may have more memory than its share has, nothing if it may not.

    So much is asked for as the limit is, of which the context has a part already.
    """
    mib = os.environ.get(MEMORY, "").partition("=")[2].rstrip("M")
    if not mib.isdecimal():
        return ""
    place = ctypes.c_uint64()
    try:
        cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(int(mib) << 20))
    except DriverError as error:
        if error.code != OUT_OF_MEMORY:
            raise
        return ""
    cuda.cuMemFree_v2(place)
    return f"{mib} MiB could be allocated beside the context, and its limit is {mib} MiB"


def _add(cuda: Cuda) -> str:
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuModuleLoadData(ctypes.byref(module), KERNEL)
    cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"add")
    size = ctypes.c_size_t(4 * COUNT)
    places = [ctypes.c_uint64() for _each in range(3)]
    values = [array.array("f", map(float, range(at, at + COUNT))) for at in (0, 1000)]
    for place in places:
        cuda.cuMemAlloc_v2(ctypes.byref(place), size)
    for at, values_of_vector in enumerate(values):
        cuda.cuMemcpyHtoD_v2(places[at], values_of_vector.tobytes(), size)
    arguments = (ctypes.c_void_p * 3)(
        *(ctypes.addressof(values_of_vector) for values_of_vector in places)
    )
    cuda.cuLaunchKernel(kernel, 1, 1, 1, COUNT, 1, 1, 0, None, arguments, None)
    cuda.cuCtxSynchronize()
    there = ctypes.create_string_buffer(4 * COUNT)
    cuda.cuMemcpyDtoH_v2(there, places[2], size)
    for place in places:
        cuda.cuMemFree_v2(place)
    sums = array.array("f", there.raw)
    wrong = [at for at in range(COUNT) if sums[at] != values[0][at] + values[1][at]]
    return f"{len(wrong)} of {COUNT} sums are wrong" if wrong else ""


def undriven() -> str:
    """Return why nothing but NVML can answer here whatever the GPUs do, empty where the kernel's driver does."""
    try:
        os.close(os.open(CONTROL, os.O_RDWR))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV):
            return f"the kernel has no driver behind {CONTROL}"
    return ""  # of all else CUDA says what it makes of it


def untried() -> str:
    """Return why CUDA is not tried, empty where it is."""
    try:
        return undriven() or (library("libcuda.so.1") and "")
    except (DriverError, OSError) as error:
        return str(error)


def look(device: str) -> t.Dict[str, t.Any]:
    """Return what there is to tell; ``device`` is what adds, empty for none."""
    answer: t.Dict[str, t.Any] = {"uuids": [], "problem": "", "cuda": None, "untried": ""}
    try:
        answer["uuids"] = uuids()
    except (DriverError, OSError, AttributeError) as error:
        answer["problem"] = str(error)
    if not device or answer["problem"]:
        return answer
    answer["untried"] = untried()
    if not answer["untried"]:
        try:
            answer["cuda"] = add(device)
        except (DriverError, OSError, AttributeError) as error:
            answer["cuda"] = str(error)
    return answer


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look(sys.argv[1] if sys.argv[1:] else "")) + "\n")
