// Copyright (c) 2026, the gpu.node authors
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdint.h>

typedef uint64_t W;
#define PUBLIC __attribute__((visibility("default")))

// Forward a call, initialised or not; nvsim_call refuses where nvmlInit was not called.
int nvsim_forward(const char *name, const char *spec, const W *words);
int nvsim_call(const char *name, const char *spec, const W *words);

#define FORWARD(name, spec)                                              \
  PUBLIC int name(W a, W b, W c, W d, W e, W f) {                        \
    W words[6] = {a, b, c, d, e, f};                                     \
    return nvsim_call(#name, spec, words);                               \
  }
