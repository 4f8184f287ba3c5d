/* Copyright (c) 2026, the gpu.node authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The calls of CUDA's driver API that a sum of two vectors takes, with the signatures of cuda.h, on memory of the
 * machine. What can be wrong with it is asked for by NODE_CUDA: the name of a call that fails, or "sum"; "memory" and
 * "threads" are limits of MPS that are not in force.
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
#include <unistd.h>

enum { MULTIPROCESSOR_COUNT = 16, OUT_OF_MEMORY = 2, CONTEXT = 576, MULTIPROCESSORS = 132 };
static size_t allocated;

static int fails(const char *name) {
  const char *told = getenv("NODE_CUDA");
  return told && !strcmp(told, name) ? 802 : 0;
}

#define BEGIN \
  if (fails(__func__)) return 802;

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
  *text = code == 802             ? "CUDA_ERROR_SYSTEM_NOT_READY"
          : code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
                                  : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int cuInit(unsigned flags) {
  BEGIN return flags || !getenv("CUDA_VISIBLE_DEVICES");
}
int cuDeviceGet(int *device, int ordinal) {
  BEGIN *device = 7;
  return ordinal;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  BEGIN if (attribute != MULTIPROCESSOR_COUNT || device != 7) return 1;
  const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  *value = MULTIPROCESSORS;
  if (percentage && is_client() && !fails("threads")) *value = (int)(MULTIPROCESSORS * atof(percentage) / 100) / 2 * 2;
  return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  BEGIN *context = context;
  return device != 7;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device != 7; }
int cuCtxSetCurrent(void *context) { BEGIN return !context; }
int cuModuleLoadData(void **module, const void *image) {
  BEGIN *module = (void *)image;
  return !strstr(image, ".visible .entry add(");
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  BEGIN *function = module;
  return strcmp(name, "add");
}
int cuMemAlloc_v2(uint64_t *place, size_t size) {
  BEGIN const char *limit = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  if (limit && is_client() && !fails("memory")) {
    size_t mib = 0;
    if (sscanf(limit, "0=%zuM", &mib) == 1 && allocated + size > (mib - CONTEXT) << 20) return OUT_OF_MEMORY;
  }
  allocated += size;
  *place = (uint64_t)(uintptr_t)calloc(1, size);
  return !*place;
}
int cuMemFree_v2(uint64_t place) {
  free((void *)(uintptr_t)place);
  return 0;
}
int cuMemcpyHtoD_v2(uint64_t place, const void *from, size_t size) {
  BEGIN memcpy((void *)(uintptr_t)place, from, size);
  return 0;
}
int cuMemcpyDtoH_v2(void *to, uint64_t place, size_t size) {
  BEGIN memcpy(to, (void *)(uintptr_t)place, size);
  return 0;
}
int cuCtxSynchronize(void) { BEGIN return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  BEGIN if (!function || gx != 1 || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || stream || extra) return 1;
  float *given[3];
  for (int at = 0; at < 3; at++) given[at] = (float *)(uintptr_t) * (uint64_t *)arguments[at];
  for (unsigned at = 0; at < bx; at++) given[2][at] = given[0][at] + given[1][at] + (fails("sum") && at == 3);
  return 0;
}
