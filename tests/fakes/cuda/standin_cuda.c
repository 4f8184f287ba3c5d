/* Copyright (c) 2026, the gpu.node authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * The calls of CUDA's driver API that a sum of two vectors takes, with the signatures of cuda.h, on memory of the
 * machine. What can be wrong with it is asked for by NODE_CUDA: the name of a call that fails, or "sum".
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int fails(const char *name) {
  const char *told = getenv("NODE_CUDA");
  return told && !strcmp(told, name) ? 802 : 0;
}

#define BEGIN \
  if (fails(__func__)) return 802;

int cuGetErrorName(int code, const char **text) {
  *text = code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int cuInit(unsigned flags) {
  BEGIN return flags || !getenv("CUDA_VISIBLE_DEVICES");
}
int cuDeviceGet(int *device, int ordinal) {
  BEGIN *device = 7;
  return ordinal;
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
  BEGIN *place = (uint64_t)(uintptr_t)calloc(1, size);
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
