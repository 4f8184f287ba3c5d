// Copyright (c) 2026, the gpu.node authors
// SPDX-License-Identifier: Apache-2.0
//
// libnvidia-ml.so.1 without a GPU: every call is forwarded to the nvsim daemon, which holds all state.
//
// NVML's arguments are integers and pointers, six at most, so that one body serves all functions. A
// request carries the function's name, the six raw words and the memory that the function reads
// through pointers (named by its input spec); the reply carries the return code and what to store
// through which pointer. Handles are addresses in an arena that every client maps at the same place.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "nvsim.h"

#define ARENA_BASE 0x4e5600000000ULL
#define ARENA_SIZE (1UL << 24)
#define MAX_MESSAGE (1u << 20)
#define DEFAULT_SOCKET "/run/nvsim/nvsim.sock"

enum { BEHIND = 8 };
enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, UNKNOWN = 999 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int references;
static unsigned generation = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t connection_key;
static __thread int connection = -1;
static __thread unsigned connection_generation;

// The descriptor belongs to the parent's conversation: a child opens its own.
static void after_fork(void) { generation++; }

static void close_connection(void *value) {
  (void)value;
  if (connection >= 0) close(connection);
  connection = -1;
}

static void set_up(void) {
  mmap((void *)ARENA_BASE, ARENA_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  pthread_key_create(&connection_key, close_connection);
  pthread_atfork(NULL, NULL, after_fork);
}

// In containers no link leads to the name that has the version: the file is mounted under all of its names.
static void version_of_other_name(const char *path, char *out, size_t size) {
  struct stat own, other;
  const char *mark = strstr(path, ".so.");
  char pattern[4096];
  glob_t names;
  if (!mark || stat(path, &own)) return;
  snprintf(pattern, sizeof pattern, "%.*s.so.*.*", (int)(mark - path), path);
  if (glob(pattern, 0, NULL, &names)) return;
  for (size_t i = 0; i < names.gl_pathc; i++)
    if (!stat(names.gl_pathv[i], &other) && other.st_ino == own.st_ino && other.st_dev == own.st_dev)
      snprintf(out, size, "%s", strstr(names.gl_pathv[i], ".so.") + 4);
  globfree(&names);
}

// The library's own version is in its file name, as with the genuine one.
static void own_version(char *out, size_t size) {
  Dl_info info;
  char path[4096];
  const char *version = "";
  if (dladdr((void *)own_version, &info) && realpath(info.dli_fname, path)) {
    const char *mark = strstr(path, ".so.");
    if (mark) version = mark + 4;
  }
  snprintf(out, size, "%s", version);
  if (!strchr(version, '.')) version_of_other_name(path, out, size);
}

static int put_all(int fd, const void *data, size_t size) {
  const char *at = data;
  while (size) {
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return -1;
    at += sent;
    size -= (size_t)sent;
  }
  return 0;
}

static int get_all(int fd, void *data, size_t size) {
  char *at = data;
  while (size) {
    ssize_t got = recv(fd, at, size, 0);
    if (got <= 0) return -1;
    at += got;
    size -= (size_t)got;
  }
  return 0;
}

static int connect_daemon(void) {
  const char *path = getenv("NVSIM_SOCKET");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path ? path : DEFAULT_SOCKET);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  char version[64] = {0};
  own_version(version, sizeof version);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) || put_all(fd, version, sizeof version)) {
    close(fd);
    return -1;
  }
  return fd;
}

static int ensure_connection(void) {
  pthread_once(&once, set_up);
  if (connection >= 0 && connection_generation != generation) close_connection(NULL);
  if (connection < 0) {
    connection = connect_daemon();
    connection_generation = generation;
    pthread_setspecific(connection_key, (void *)1);
  }
  return connection;
}

static uint32_t load_u32(W pointer) {
  uint32_t value;
  memcpy(&value, (const void *)pointer, sizeof value);
  return value;
}

// The size of what an input token names: sN text, uN number, vN versioned struct, xN:S fixed, aN:C:S array,
// and pN text that the first word of a struct points to, which is told as argument BEHIND + N.
static size_t input_size(const char *token, const W *words, int *argument, const void **from) {
  unsigned index = 0, count = 0, size = 0;
  sscanf(token + 1, "%u:%u:%u", &index, &count, &size);
  *argument = (int)index;
  W pointer = words[index];
  if (pointer && token[0] == 'p') {
    *argument += BEHIND;
    memcpy(&pointer, (const void *)pointer, sizeof pointer);
  }
  *from = (const void *)pointer;
  if (!pointer) return 0;
  switch (token[0]) {
    case 'p':
    case 's': return strlen((const char *)pointer) + 1;
    case 'u': return 4;
    case 'v': return load_u32(pointer) & 0xffffff;
    case 'x': return count;
    case 'a': return (size_t)(uint32_t)words[count] * size;
    default: return 0;
  }
}

static size_t build_request(char *request, const char *name, const char *spec, const W *words) {
  size_t at = 4;
  size_t length = strlen(name);
  request[at++] = (char)length;
  memcpy(request + at, name, length);
  at += length;
  memcpy(request + at, words, 6 * sizeof(W));
  at += 6 * sizeof(W);
  char *inputs = request + at++;
  *inputs = 0;
  while (*spec) {
    int argument;
    const void *from;
    size_t size = input_size(spec, words, &argument, &from);
    if (size && at + size + 5 < MAX_MESSAGE) {
      uint32_t size32 = (uint32_t)size;
      request[at++] = (char)argument;
      memcpy(request + at, &size32, 4);
      memcpy(request + at + 4, from, size);
      at += 4 + size;
      ++*inputs;
    }
    spec += strcspn(spec, " ");
    spec += strspn(spec, " ");
  }
  uint32_t body = (uint32_t)(at - 4);
  memcpy(request, &body, 4);
  return at;
}

static int exchange(int fd, const char *request, size_t size, const W *words, char *reply) {
  uint32_t length;
  if (put_all(fd, request, size) || get_all(fd, &length, 4) || length < 5 || length > MAX_MESSAGE || get_all(fd, reply, length))
    return -1;
  int32_t code;
  memcpy(&code, reply, 4);
  unsigned outputs = (unsigned char)reply[4];
  size_t at = 5;
  while (outputs--) {
    uint32_t stored;
    int argument = reply[at];
    memcpy(&stored, reply + at + 1, 4);
    if (words[argument]) memcpy((void *)words[argument], reply + at + 5, stored);
    at += 5 + stored;
  }
  return code;
}

int nvsim_forward(const char *name, const char *spec, const W *words) {
  char *request = malloc(2 * (size_t)MAX_MESSAGE);
  if (!request) return UNKNOWN;
  int code = -1;
  size_t size = build_request(request, name, spec, words);
  // A daemon that was restarted is found again; its state is on disk.
  for (int tries = 0; tries < 2 && code < 0; tries++) {
    int fd = ensure_connection();
    if (fd < 0) break;
    code = exchange(fd, request, size, words, request + MAX_MESSAGE);
    if (code < 0) close_connection(NULL);
  }
  free(request);
  return code < 0 ? DRIVER_NOT_LOADED : code;
}

int nvsim_call(const char *name, const char *spec, const W *words) {
  if (!__atomic_load_n(&references, __ATOMIC_SEQ_CST)) return UNINITIALIZED;
  return nvsim_forward(name, spec, words);
}

static int initialize(W flags) {
  W words[6] = {flags};
  int code = nvsim_forward("nvmlInitWithFlags", "", words);
  if (code == OK) __atomic_add_fetch(&references, 1, __ATOMIC_SEQ_CST);
  return code;
}

PUBLIC int nvmlInit(void) { return initialize(0); }
PUBLIC int nvmlInit_v2(void) { return initialize(0); }
PUBLIC int nvmlInitWithFlags(unsigned flags) { return initialize(flags); }

// Nobody is told who shuts down more often than he initialised.
PUBLIC int nvmlShutdown(void) {
  pthread_mutex_lock(&lock);
  int last = references == 1;
  if (references > 0) references--;
  pthread_mutex_unlock(&lock);
  if (last) close_connection(NULL);
  return OK;
}

// The one question that needs neither nvmlInit nor a driver, as with the genuine library.
PUBLIC int nvmlSystemGetNVMLVersion(char *version, unsigned length) {
  char own[64] = {0}, text[80];
  if (!version) return INVALID_ARGUMENT;
  own_version(own, sizeof own);
  /* CUDA's version is first, as it came with the branch. */
  int size = snprintf(text, sizeof text, "%d.%s", atoi(own) < 580 ? 12 : 13, own);
  if ((unsigned)size >= length) return INSUFFICIENT_SIZE;
  memcpy(version, text, (size_t)size + 1);
  return OK;
}

PUBLIC const char *nvmlErrorString(int code) {
  switch (code) {
#define TEXT(number, text) case number: return text;
#include "errors.h"
    default: return "Unknown Error";
  }
}
