// Copyright (c) 2026, the gpu.node authors
// SPDX-License-Identifier: Apache-2.0
//
// The private table of functions that nvidia-smi asks the library for. Only the slots that it cannot
// do without are served: the handle of a GPU by its index, how near two GPUs
// are by their PCI addresses, lists of processes, and what it asks around a reset.
#include <stddef.h>
#include <string.h>

#include "nvsim.h"

#define SLOTS 511
enum { NOT_SUPPORTED = 3, NOT_FOUND = 6 };
enum {
  SLOT_PRIMARY = 20,
  SLOT_ANCESTOR_BY_PCI = 23,
  SLOT_BEFORE_RESET = 32,
  SLOT_HANDLE_BY_INDEX = 81,
  SLOT_RESET = 168,
  SLOT_FABRIC_BEFORE_RESET = 169,
  SLOT_GROUP = 182,
  SLOT_GROUP_LACKS = 183,
  SLOT_GROUP_FREE = 184,
  SLOT_NEXT_TO_RESET = 197,
  SLOT_COMPUTE = 213,
  SLOT_GRAPHICS = 214,
  SLOT_MPS = 215
};

static const unsigned char TABLE_ID[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                           0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};

enum { MOST_GPUS = 256, ADDRESS = 20 };
static __thread W group[MOST_GPUS];
static __thread unsigned group_size;

// Keep the GPUs that are to be reset together.
static int take_group(W handles, unsigned count) {
  group_size = count < MOST_GPUS ? count : MOST_GPUS;
  memcpy(group, (const void *)handles, group_size * sizeof *group);
  return 0;
}

// Tell the PCI addresses of those that have to be reset with them, into buffers of the caller's.
static int group_lacks(char **addresses, unsigned *count) {
  char found[MOST_GPUS * ADDRESS] = {0};
  W words[6] = {group_size, (W)group, (W)found, (W)count};
  int code = nvsim_call("nvsimResetGroup", "a1:0:8", words);
  for (unsigned i = 0; !code && i < *count; i++) strcpy(addresses[i], found + i * ADDRESS);
  return code;
}

static int no(W pointer) {
  memset((void *)pointer, 0, sizeof(unsigned));
  return 0;
}

static int slot(int number, W a, W b, W c) {
  W words[6] = {a, b, c};
  switch (number) {
    case SLOT_HANDLE_BY_INDEX: return nvsim_call("nvmlDeviceGetHandleByIndex_v2", "", words);
    case SLOT_ANCESTOR_BY_PCI: return nvsim_call("nvsimCommonAncestorByPciBusId", "s0 s1", words);
    case 26: return 0;
    case SLOT_PRIMARY: return no(b);
    case SLOT_BEFORE_RESET: return no(c);
    case SLOT_FABRIC_BEFORE_RESET: return no(a);
    case SLOT_GROUP: return no(a) || take_group(b, (unsigned)c);
    case SLOT_GROUP_LACKS: return group_lacks((char **)b, (unsigned *)c);
    case SLOT_GROUP_FREE: return 0;
    case SLOT_NEXT_TO_RESET: return 0;
    case SLOT_RESET: return nvsim_call("nvsimResetGpus", "a1:0:8", words);
    case SLOT_COMPUTE: return nvsim_call("nvsimComputeProcesses", "u1", words);
    case SLOT_GRAPHICS: return nvsim_call("nvmlDeviceGetGraphicsRunningProcesses_v3", "u1", words);
    case SLOT_MPS: return nvsim_call("nvmlDeviceGetMPSComputeRunningProcesses_v3", "u1", words);
    default: return NOT_SUPPORTED;
  }
}

#define ONE(n) static int slot_##n(W a, W b, W c) { return slot(n, a, b, c); }
#define REF(n) (void *)slot_##n,
#include "slots.h"

PUBLIC int nvmlInternalGetExportTable(const void **table, const void *id) {
  if (!table || !id) return 2;
  if (memcmp(id, TABLE_ID, sizeof TABLE_ID) != 0) return NOT_FOUND;
  *table = slots;
  return 0;
}
