/* Copyright (c) 2026, the gpu.node authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The calls of CUDA's driver API that the product makes, with the signatures of cuda.h, on memory of the machine; the
 * kernels are run from their PTX. What can be wrong is asked for by NODE_CUDA: the name of a call that fails, or
 *
 *   sum       a thread adds wrong             bit      a thread of a multiprocessor computes one wrong bit: of its
 *                                                      NODE_CUDA_AT-th value the bit NODE_CUDA_BIT
 *   cell      a cell of memory has a bit that stays on        hang     a GPU never ends what it began
 *   memory, threads   limits of MPS that are not in force     no_peers GPUs can't access each other
 *
 * of the GPU that NODE_CUDA_GPU names, or of each. NODE_CUDA_MULTIPROCESSORS and NODE_CUDA_MEMORY, in MiB, are how
 * much of a GPU there is: little, as the kernels are interpreted.
 *
 * A process whose CUDA_MPS_PIPE_DIRECTORY has a control daemon is its client, and any other works without MPS. Limits are
 * as they were seen on an H100 with driver 580 (docs/evidence/mps.md): the context takes 576 MiB of the memory limit,
 * and 15, 15.2, 16, and 25 percent of the threads are 18, 20, 20, and 32 of 132 multiprocessors.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ptx.h"

enum { MULTIPROCESSOR_COUNT = 16, MAJOR = 75, MINOR = 76 };
enum { OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, NOT_READY = 802 };
enum { CONTEXT = 576, MULTIPROCESSORS = 4, MEMORY = 260, FIRST_DEVICE = 7, HEADER = 256 };
enum { BAD_MULTIPROCESSOR = 3, BAD_THREAD = 5, CELLS = 1 << 16, BAD_CELL = 1234 };
static size_t allocated;
static uint64_t cells; /* the newest memory that is large enough for the bad cell: none that kernels leave results in */

static unsigned number(const char *name, unsigned usual) {
  const char *text = getenv(name);
  return text ? (unsigned)atoi(text) : usual;
}

static int fails(const char *name) {
  const char *fault = getenv("NODE_CUDA"), *gpu = getenv("NODE_CUDA_GPU"), *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (gpu && (!visible || !strstr(visible, gpu))) return 0;
  return fault && !strcmp(fault, name) ? NOT_READY : 0;
}

static int devices(void) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  int count = visible && *visible;
  for (; visible && *visible; visible++) count += *visible == ',';
  return count;
}

#define BEGIN \
  if (fails(__func__)) return NOT_READY;

static int is_client(void) {
  const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int channel = socket(AF_UNIX, SOCK_STREAM, 0);
  snprintf(address.sun_path, sizeof address.sun_path, "%s/control", pipe ? pipe : "/tmp/nvidia-mps");
  int refused = connect(channel, (struct sockaddr *)&address, sizeof address);
  close(channel);
  return !refused;
}

int cuGetErrorName(int code, const char **text) {
  *text = code == NOT_READY       ? "CUDA_ERROR_SYSTEM_NOT_READY"
          : code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                  : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int cuInit(unsigned flags) {
  BEGIN return flags || !devices();
}
int cuDeviceGet(int *device, int ordinal) {
  BEGIN *device = FIRST_DEVICE + ordinal;
  return ordinal < devices() ? 0 : INVALID_DEVICE;
}
static int unknown(int device) { return device < FIRST_DEVICE || device >= FIRST_DEVICE + devices(); }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  BEGIN if (unknown(device)) return 1;
  const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  int count = (int)number("NODE_CUDA_MULTIPROCESSORS", MULTIPROCESSORS);
  if (percentage && is_client() && !fails("threads")) count = (int)(count * atof(percentage) / 100) / 2 * 2;
  *value = attribute == MULTIPROCESSOR_COUNT ? count : attribute == MAJOR ? 9 : 0;
  return attribute != MULTIPROCESSOR_COUNT && attribute != MAJOR && attribute != MINOR;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  BEGIN *context = context;
  return unknown(device);
}
int cuDevicePrimaryCtxRelease_v2(int device) { return unknown(device); }
int cuCtxSetCurrent(void *context) { BEGIN return !context; }
int cuDeviceCanAccessPeer(int *can, int device, int peer) {
  BEGIN *can = !fails("no_peers");
  return unknown(device) || unknown(peer);
}
int cuCtxEnablePeerAccess(void *context, unsigned flags) { BEGIN return !context || flags; }
int cuModuleLoadData(void **module, const void *image) {
  BEGIN *module = ptx_parse(image);
  return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  BEGIN *function = module;
  return !ptx_has(module, name);
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  BEGIN *total = (size_t)number("NODE_CUDA_MEMORY", MEMORY) << 20;
  *free = *total > allocated ? *total - allocated : 0;
  return 0;
}
int cuMemAlloc_v2(uint64_t *place, size_t size) {
  BEGIN const char *limit = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  if (limit && is_client() && !fails("memory")) {
    size_t mib = 0;
    if (sscanf(limit, "0=%zuM", &mib) == 1 && allocated + size > (mib - CONTEXT) << 20) return OUT_OF_MEMORY;
  }
  allocated += size;
  size_t *memory = calloc(1, size + HEADER);
  *memory = size;
  *place = (uint64_t)(uintptr_t)memory + HEADER;
  if (size >= sizeof(uint32_t) * CELLS) cells = *place;
  return 0;
}
int cuMemFree_v2(uint64_t place) {
  size_t *memory = (size_t *)(uintptr_t)(place - HEADER);
  if (place == cells) cells = 0;
  allocated -= *memory;
  free(memory);
  return 0;
}
int cuMemHostAlloc(void **place, size_t size, unsigned flags) {
  BEGIN *place = malloc(size);
  return !*place || flags;
}
int cuMemFreeHost(void *place) {
  free(place);
  return 0;
}
int cuMemsetD32_v2(uint64_t place, unsigned value, size_t count) {
  BEGIN for (size_t at = 0; at < count; at++) ((uint32_t *)(uintptr_t)place)[at] = value;
  return 0;
}
static void copy(uint64_t to, uint64_t from, size_t size) {
  memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
}
int cuMemcpyHtoD_v2(uint64_t place, const void *from, size_t size) {
  BEGIN copy(place, (uintptr_t)from, size);
  return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t place, size_t size) {
  BEGIN copy((uintptr_t)to, place, size);
  return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t place, const void *from, size_t size, void *stream) {
  BEGIN copy(place, (uintptr_t)from, size);
  return !!stream;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t place, size_t size, void *stream) {
  BEGIN copy((uintptr_t)to, place, size);
  return !!stream;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream) {
  BEGIN copy(to, from, size);
  return !!stream;
}
int cuMemcpyPeerAsync(uint64_t to, void *target, uint64_t from, void *source, size_t size, void *stream) {
  BEGIN copy(to, from, size);
  return !target || !source || stream;
}

static int synchronized(void) {
  while (fails("hang")) sleep(1);
  return 0;
}
int cuCtxSynchronize(void) { BEGIN return synchronized(); }
int cuEventCreate(void **event, unsigned flags) {
  BEGIN *event = calloc(1, sizeof(struct timespec));
  return !*event || flags;
}
int cuEventDestroy_v2(void *event) {
  free(event);
  return 0;
}
int cuEventRecord(void *event, void *stream) {
  BEGIN clock_gettime(CLOCK_MONOTONIC, event);
  return !!stream;
}
int cuEventSynchronize(void *event) { BEGIN return !event || synchronized(); }
int cuEventElapsedTime(float *milliseconds, const struct timespec *start, const struct timespec *end) {
  BEGIN *milliseconds = (float)((end->tv_sec - start->tv_sec) * 1e3 + (end->tv_nsec - start->tv_nsec) / 1e6);
  return 0;
}

static unsigned values; /* that the bad thread has computed since its kernel was launched */

static uint32_t computed(unsigned multiprocessor, unsigned thread, uint32_t value) {
  if (fails("sum") && thread == 3) return value + (1u << 20);
  if (multiprocessor != BAD_MULTIPROCESSOR || thread != BAD_THREAD || !fails("bit")) return value;
  return values++ == number("NODE_CUDA_AT", 0) ? value ^ 1u << number("NODE_CUDA_BIT", 0) : value;
}
static uint32_t stored(uint64_t address, uint32_t value) {
  return cells && address == cells + sizeof value * BAD_CELL && fails("cell") ? value | 1u << 7 : value;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  BEGIN if (!function || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || stream || extra) return 1;
  unsigned multiprocessors = number("NODE_CUDA_MULTIPROCESSORS", MULTIPROCESSORS);
  values = 0;
  struct ptx_launch launch = {gx, bx, multiprocessors, arguments, computed, stored};
  ptx_run(function, &launch);
  return 0;
}
