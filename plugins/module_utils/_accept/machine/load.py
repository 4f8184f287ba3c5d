# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The load test as a process of its own, which may hang in the driver, or take it down, without the module.

Its argument is a ``LoadRequest`` as JSON. For each part it prints a line of JSON, as soon as the part has ended: its
``part``, the GPU's ``uuid``, and what was measured, or why it failed. Times of kernels and copies are those of CUDA
events. The functions are those of cuda.h.
"""

from __future__ import annotations

import array
import collections
import contextlib
import ctypes
import functools
import json
import operator
import os
import sys
import time
import typing as t

from .. import kernels
from ..kernels import BLOCKS, PATTERNS, THREADS

OUT_OF_MEMORY, PEER_ACCESS_ALREADY_ENABLED = 2, 704  # CUresult
MULTIPROCESSOR_COUNT, MAJOR, MINOR = 16, 75, 76  # CUdevice_attribute
NO_MPS = "/nonexistent"  # a process without a control daemon at its pipe is no client of MPS
ROUND_SECONDS = 0.1  # that the kernel of a round takes
FIRST_ITERATIONS, MOST_ITERATIONS = 64, 1 << 24  # of a round
PIECE, SPARE = 1 << 30, 256 << 20  # bytes of memory: allocated at once, and left to the driver
COPIED, COPIES = 256 << 20, 4  # bytes of a copy whose bandwidth is measured, and how many of them
SEED_STEP = 0x5BD1E995  # from a round or a piece of memory to the next
WORD, GIGA, TERA = 4, 1e9, 1e12


class LoadRequest(t.NamedTuple):
    """What one process is to do.

    Attributes:
        gpus: The UUIDs of the GPUs, of which it sees no other.
        links: Whether to measure the GPUs' links to the host and to each other, in place of the GPUs themselves.
        seconds: How long each kernel of arithmetic runs.
        cpus: The CPUs of each GPU's NUMA node, by its UUID, empty where they are not known.
    """

    gpus: t.Tuple[str, ...]
    links: bool = False
    seconds: float = 10.0
    cpus: t.Mapping[str, t.Tuple[int, ...]] = {}


class CudaError(Exception):
    """A function of the driver failed with this code."""

    def __init__(self, function: str, name: str, code: int) -> None:
        super().__init__(f"{function}: {name}")
        self.code = code


class Cuda:
    """The driver's library; a function that fails raises CudaError."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name: str) -> t.Callable[..., None]:
        function = getattr(self._library, name)

        def call(*arguments: t.Any) -> None:
            code = function(*arguments)
            if code:
                text = ctypes.c_char_p()
                self._library.cuGetErrorName(code, ctypes.byref(text))
                raise CudaError(name, (text.value or str(code).encode()).decode(), code)

        return call


class Device:
    """A GPU with its primary context, memory, and kernels. ``close`` gives all of it back."""

    def __init__(self, cuda: Cuda, ordinal: int) -> None:
        self.cuda, self.ordinal, self.context = cuda, ctypes.c_int(), ctypes.c_void_p()
        cuda.cuDeviceGet(ctypes.byref(self.ordinal), ordinal)
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), self.ordinal)
        self._allocated: t.List[ctypes.c_uint64] = []

    def close(self) -> None:
        """Give back the context, with what was allocated in it."""
        self.cuda.cuDevicePrimaryCtxRelease_v2(self.ordinal)

    def use(self) -> None:
        """Make the context that of the calls that follow."""
        self.cuda.cuCtxSetCurrent(self.context)

    def attribute(self, number: int) -> int:
        """Return an attribute, by its number in CUdevice_attribute."""
        value = ctypes.c_int()
        self.cuda.cuDeviceGetAttribute(ctypes.byref(value), number, self.ordinal)
        return value.value

    def free_memory(self) -> int:
        """Return the bytes of memory that are free."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Return the address of so many bytes of memory."""
        place = ctypes.c_uint64()
        self.cuda.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size))
        self._allocated.append(place)
        return place

    def free(self) -> None:
        """Free all memory that was allocated."""
        for place in self._allocated:
            self.cuda.cuMemFree_v2(place)
        self._allocated.clear()

    def read(self, place: ctypes.c_uint64, count: int) -> t.Sequence[int]:
        """Return so many integers of 32 bits from its memory."""
        there = ctypes.create_string_buffer(WORD * count)
        self.cuda.cuMemcpyDtoH_v2(there, place, ctypes.c_size_t(WORD * count))
        return array.array("I", there.raw)

    def kernel(self, text: str, name: str) -> ctypes.c_void_p:
        """Return a kernel of this name, compiled for this GPU."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.cuModuleLoadData(ctypes.byref(module), text.encode())
        self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        return function

    def launch(self, kernel: ctypes.c_void_p, blocks: int, *values: t.Any) -> None:
        """Start a kernel with these arguments, which are of ctypes."""
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        size = (blocks, 1, 1, THREADS, 1, 1)
        self.cuda.cuLaunchKernel(kernel, *size, 0, None, pointers, None)

    def seconds(self, work: t.Callable[[], None]) -> float:
        """Return how long the GPU takes for what ``work`` starts."""
        start, end = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (start, end):
            self.cuda.cuEventCreate(ctypes.byref(event), 0)
        self.cuda.cuEventRecord(start, None)
        work()
        self.cuda.cuEventRecord(end, None)
        self.cuda.cuEventSynchronize(end)
        milliseconds = ctypes.c_float()
        self.cuda.cuEventElapsedTime(ctypes.byref(milliseconds), start, end)
        for event in (start, end):
            self.cuda.cuEventDestroy_v2(event)
        return max(milliseconds.value, 1e-3) / 1000

    def bandwidth(self, copy: t.Callable[[None], None], size: int) -> float:
        """Return the bandwidth of copies in 10**9 bytes a second.

        Args:
            copy: Starts a copy in a stream, None for the usual one.
            size: The bytes that a copy reads, or reads and writes.
        """

        def copies() -> None:
            for _copy in range(COPIES):
                copy(None)

        copy(None)
        return COPIES * size / self.seconds(copies) / GIGA


# --- a GPU itself ---


def compute(device: Device, name: str, seconds: float) -> t.Dict[str, t.Any]:
    """Have all multiprocessors compute the same, in many rounds, and compare their results.

    Returns:
        On how many ``multiprocessors`` the kernel ran and how many ``expected`` to; the number of ``rounds``; the
        number of ``wrong_words`` by multiprocessor; and ``tflops``, 10**12 operations a second of float32, or of
        float16 in tensor cores.
    """
    kernel = device.kernel(kernels.ARITHMETIC[name], name)
    expected = device.attribute(MULTIPROCESSOR_COUNT)
    blocks = BLOCKS * expected
    results, processors = device.allocate(WORD * blocks * THREADS), device.allocate(WORD * blocks)
    used: t.Set[int] = set()
    wrong: t.Counter[int] = collections.Counter()
    iterations, rounds, completed, spent = FIRST_ITERATIONS, 0, 0, 0.0
    until = time.monotonic() + seconds
    while not rounds or time.monotonic() < until:
        seed = ctypes.c_uint32(rounds * SEED_STEP)
        arguments = (results, processors, seed, ctypes.c_uint32(iterations))
        launch = functools.partial(device.launch, kernel, blocks, *arguments)
        took = device.seconds(launch)
        places, values = device.read(processors, blocks), device.read(results, blocks * THREADS)
        used.update(places)
        for place, count in count_wrong(places, values).items():
            wrong[place] += count
        rounds, completed, spent = rounds + 1, completed + iterations, spent + took
        iterations = max(1, min(MOST_ITERATIONS, int(iterations * ROUND_SECONDS / took)))
    device.free()
    return {
        "multiprocessors": len(used),
        "expected": expected,
        "rounds": rounds,
        "wrong_words": dict(wrong),
        "tflops": blocks * THREADS * kernels.OPERATIONS[name] * completed / spent / TERA,
    }


def count_wrong(places: t.Sequence[int], values: t.Sequence[int]) -> t.Dict[int, int]:
    """Return the number of wrong values by multiprocessor: those that differ from what most blocks have.

    Args:
        places: The multiprocessor of each block.
        values: The values of all blocks, as many of each.
    """
    size = len(values) // len(places)
    blocks = [tuple(values[at : at + size]) for at in range(0, len(values), size)]
    usual = collections.Counter(blocks).most_common(1)[0][0]
    wrong: t.Counter[int] = collections.Counter()
    for index, place in enumerate(places):
        if blocks[index] != usual:
            wrong[place] += sum(map(operator.ne, blocks[index], usual))
    return dict(wrong)


def verify_memory(device: Device) -> t.Dict[str, t.Any]:
    """Write each pattern to as much memory as is free, and read it back.

    Returns:
        How many ``bytes`` were tested, how many words were ``wrong``, and which ``bits`` of them.
    """
    fill, check = (device.kernel(kernels.MEMORY[name], name) for name in ("fill", "check"))
    counters = device.allocate(2 * WORD)
    device.cuda.cuMemsetD32_v2(counters, 0, ctypes.c_size_t(2))
    pieces = []
    left = device.free_memory() - SPARE
    while left >= WORD:
        size = min(PIECE, left) // WORD * WORD
        try:
            pieces.append((device.allocate(size), ctypes.c_uint64(size // WORD)))
        except CudaError as error:  # what is free is in pieces, too
            if error.code != OUT_OF_MEMORY:
                raise
            break
        left -= size
    blocks = BLOCKS * device.attribute(MULTIPROCESSOR_COUNT)
    for factor, offset in kernels.PATTERNS:
        for kernel in (fill, check):  # all is written before any of it is read
            for number, (place, length) in enumerate(pieces):
                first = ctypes.c_uint32(offset + number * SEED_STEP * bool(factor))
                device.launch(
                    kernel, blocks, place, length, ctypes.c_uint32(factor), first, counters
                )
    device.cuda.cuCtxSynchronize()
    wrong, bits = device.read(counters, 2)
    device.free()
    return {
        "bytes": sum(WORD * length.value for _place, length in pieces),
        "wrong": wrong,
        "bits": bits,
    }


def measure_memory(device: Device) -> t.Dict[str, t.Any]:
    """Return ``gb_per_s``, the bandwidth of copies within the memory, where what is read and written counts."""
    size = min(COPIED, device.free_memory() // 4)
    source, target = device.allocate(size), device.allocate(size)
    copy = functools.partial(
        device.cuda.cuMemcpyDtoDAsync_v2, target, source, ctypes.c_size_t(size)
    )
    bandwidth = device.bandwidth(copy, 2 * size)
    device.free()
    return {"gb_per_s": bandwidth}


# --- its links ---


class Buffer:
    """Memory of a GPU with a pattern, which copies over a link are to bring back whole."""

    def __init__(self, device: Device) -> None:
        self.device, self.size = device, min(COPIED, device.free_memory() // 4 // WORD * WORD)
        self.place, self._counters = device.allocate(self.size), device.allocate(2 * WORD)
        self._kernels = {name: device.kernel(text, name) for name, text in kernels.MEMORY.items()}

    def fill(self) -> None:
        """Write the pattern."""
        self._run("fill", self.size)

    def clear(self) -> None:
        """Write zeros."""
        self.device.use()
        self.device.cuda.cuMemsetD32_v2(self.place, 0, ctypes.c_size_t(self.size // WORD))

    def count_wrong(self, size: int) -> int:
        """Return how many words of its first bytes differ from the pattern."""
        self.device.use()
        self.device.cuda.cuMemsetD32_v2(self._counters, 0, ctypes.c_size_t(2))
        self._run("check", size)
        return self.device.read(self._counters, 2)[0]

    def _run(self, name: str, size: int) -> None:
        factor, offset = (ctypes.c_uint32(value) for value in PATTERNS[-1])
        length = ctypes.c_uint64(size // WORD)
        self.device.use()
        arguments = (self.place, length, factor, offset, self._counters)
        self.device.launch(self._kernels[name], BLOCKS, *arguments)


def measure_host(buffer: Buffer, cpus: t.Collection[int]) -> t.Dict[str, t.Any]:
    """Return the bandwidth of copies from and to memory of the host that is near the GPU, and what they made wrong.

    Returns:
        ``to_device`` and ``to_host`` in 10**9 bytes a second, and the number of ``wrong`` words.
    """
    device, size = buffer.device, ctypes.c_size_t(buffer.size)
    with contextlib.suppress(OSError):  # a service may be kept from these CPUs
        os.sched_setaffinity(0, cpus)
    buffer.fill()
    host = ctypes.c_void_p()
    device.cuda.cuMemHostAlloc(ctypes.byref(host), size, 0)

    try:
        copy = functools.partial(device.cuda.cuMemcpyDtoHAsync_v2, host, buffer.place, size)
        to_host = device.bandwidth(copy, buffer.size)
        buffer.clear()
        copy = functools.partial(device.cuda.cuMemcpyHtoDAsync_v2, buffer.place, host, size)
        to_device = device.bandwidth(copy, buffer.size)
        wrong = buffer.count_wrong(buffer.size)
    finally:
        device.cuda.cuMemFreeHost(host)
    return {"to_device": to_device, "to_host": to_host, "wrong": wrong}


def measure_peer(source: Buffer, target: Buffer) -> t.Dict[str, t.Any]:
    """Return the bandwidth of copies from one GPU to another that it can access, ``gb_per_s``, and ``wrong`` words."""
    cuda, device = source.device.cuda, source.device
    can = ctypes.c_int()
    cuda.cuDeviceCanAccessPeer(ctypes.byref(can), device.ordinal, target.device.ordinal)
    if not can.value:
        return {"absent": "the GPUs can't access each other"}
    source.fill()
    target.clear()
    device.use()
    try:
        cuda.cuCtxEnablePeerAccess(target.device.context, 0)
    except CudaError as error:
        if error.code != PEER_ACCESS_ALREADY_ENABLED:
            raise
    size = min(source.size, target.size)
    ends = (target.place, target.device.context, source.place, device.context)
    copy = functools.partial(cuda.cuMemcpyPeerAsync, *ends, ctypes.c_size_t(size))
    bandwidth = device.bandwidth(copy, size)
    return {"gb_per_s": bandwidth, "wrong": target.count_wrong(size)}


# --- the process ---


def report(part: str, uuid: str, outcome: t.Mapping[str, t.Any], peer: str = "") -> None:
    """Print that a part has begun, or its outcome."""
    line = {"part": part, "uuid": uuid, "peer": peer, **outcome}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def run_part(
    part: str,
    uuid: str,
    measure: t.Callable[..., t.Optional[t.Dict[str, t.Any]]],
    *args: t.Any,
    peer: str = "",
) -> None:
    """Measure a part. Prints that it has begun, and then what it has measured or its error."""
    report(part, uuid, {"begun": True}, peer)
    try:
        outcome = measure(*args) or {}
    except (CudaError, OSError, AttributeError) as error:
        outcome = {"error": str(error)}
    report(part, uuid, outcome, peer)


def load_gpu(cuda: Cuda, request: LoadRequest) -> None:
    """Test the first of the GPUs."""
    uuid = request.gpus[0]
    devices: t.List[Device] = []

    def start() -> None:
        cuda.cuInit(0)
        devices.append(Device(cuda, 0))

    run_part("start", "", start)
    for device in devices:
        device.use()
        capability = device.attribute(MAJOR), device.attribute(MINOR)
        run_part("float", uuid, compute, device, "float", request.seconds)
        if capability < kernels.TENSOR_CAPABILITY:
            version = ".".join(map(str, capability))
            absent = f"compute capability {version} has no such tensor cores"
            report("tensor", uuid, {"absent": absent})
        else:
            run_part("tensor", uuid, compute, device, "tensor", request.seconds)
        run_part("memory", uuid, verify_memory, device)
        run_part("bandwidth", uuid, measure_memory, device)
        device.close()


def load_links(cuda: Cuda, request: LoadRequest) -> None:
    """Measure the links of the GPUs, one after the other, as several at a time would share them."""
    buffers: t.Dict[str, Buffer] = {}
    run_part("start", "", cuda.cuInit, 0)

    def measure(uuid: str, ordinal: int) -> t.Dict[str, t.Any]:
        device = Device(cuda, ordinal)
        device.use()
        buffers[uuid] = Buffer(device)
        return measure_host(buffers[uuid], request.cpus.get(uuid, ()))

    for ordinal, uuid in enumerate(request.gpus):
        run_part("host", uuid, measure, uuid, ordinal)
    for uuid, source in buffers.items():
        for peer, target in buffers.items():
            if peer != uuid:
                run_part("peer", uuid, measure_peer, source, target, peer=peer)
    for buffer in buffers.values():
        buffer.device.close()


def main(argument: str) -> None:
    """Do what is asked for."""
    request = LoadRequest(**json.loads(argument))
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(request.gpus)
    os.environ["CUDA_MPS_PIPE_DIRECTORY"] = NO_MPS
    try:
        cuda = Cuda()
    except OSError as error:
        report("start", "", {"absent": str(error)})
        return
    if request.links:
        load_links(cuda, request)
    else:
        load_gpu(cuda, request)


if __name__ == "__main__":
    main(sys.argv[1])
