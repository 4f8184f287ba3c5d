/* Copyright (c) 2026, the gpu.node authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * An interpreter of the PTX that the product's kernels are written in, on memory of the machine: one thread after the
 * other, each until it ends or waits for its block. Instructions are as in the PTX ISA; one that is not known ends the
 * process. A product of matrices is none here: what is added to the sums is a value that depends on the thread's part
 * of both matrices.
 */
#ifndef PTX_H
#define PTX_H
#include <stdint.h>

struct ptx_module;

struct ptx_launch {
  unsigned blocks, threads, multiprocessors;
  void **arguments;
  /* Called with each value that a unit of a multiprocessor computes, and each word that memory takes. */
  uint32_t (*computed)(unsigned multiprocessor, unsigned thread, uint32_t value);
  uint32_t (*stored)(uint64_t address, uint32_t value);
};

struct ptx_module *ptx_parse(const char *text);
int ptx_has(const struct ptx_module *module, const char *name);
void ptx_run(const struct ptx_module *module, const struct ptx_launch *launch);
#endif
