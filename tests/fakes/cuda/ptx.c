/* Copyright (c) 2026, the gpu.node authors
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ptx.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 16, REGISTERS = 128, PARAMETERS = 8, NAME = 24, INSTRUCTIONS = 1024, SHARED = 64 << 10 };

/* The instructions, and the special registers. */
#define OPCODES(_) \
  _(LD_PARAM_U32, "ld.param.u32") _(LD_PARAM_U64, "ld.param.u64") _(LD_GLOBAL_U32, "ld.global.u32") \
  _(LD_GLOBAL_F32, "ld.global.f32") _(LD_SHARED, "ld.shared.u32") _(ST_GLOBAL_U32, "st.global.u32") \
  _(ST_GLOBAL_F32, "st.global.f32") _(ST_SHARED, "st.shared.u32") _(RED_ADD, "red.global.add.u32") \
  _(RED_OR, "red.global.or.b32") _(MOV_B32, "mov.b32") _(MOV_U32, "mov.u32") _(MOV_F32, "mov.f32") \
  _(MOV_B64, "mov.b64") _(MOV_F64, "mov.f64") _(CVTA, "cvta.to.global.u64") _(WIDEN, "cvt.u64.u32") \
  _(NARROW, "cvt.u32.u64") _(TO_DOUBLE, "cvt.f64.f32") _(MAD, "mad.lo.u32") _(MUL, "mul.lo.u32") \
  _(MUL_WIDE, "mul.wide.u32") _(ADD_U32, "add.u32") _(ADD_U64, "add.u64") _(ADD_S64, "add.s64") \
  _(ADD_F32, "add.f32") _(NEG_F32, "neg.f32") _(SUB, "sub.u32") _(AND, "and.b32") _(OR, "or.b32") _(XOR, "xor.b32") _(SHL_B32, "shl.b32") \
  _(SHL_B64, "shl.b64") _(SHR, "shr.u32") _(FMA_F32, "fma.rn.f32") _(FMA_F64, "fma.rn.f64") \
  _(MMA, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") _(NE, "setp.ne.u32") _(EQ, "setp.eq.u32") \
  _(GE, "setp.ge.u64") _(BRA, "bra") _(BAR, "bar.sync") _(RET, "ret")
#define SPECIALS(_) \
  _(TID, "%tid.x") _(CTAID, "%ctaid.x") _(NTID, "%ntid.x") _(NCTAID, "%nctaid.x") _(SMID, "%smid")
#define ENUMERATOR(name, text) name,
#define TEXT(name, text) text,
enum opcode { OPCODES(ENUMERATOR) UNKNOWN_OPCODE };
enum special { SPECIALS(ENUMERATOR) NOT_SPECIAL };
static const char *const opcodes[] = {OPCODES(TEXT)}, *const specials[] = {SPECIALS(TEXT)};

enum kind { REGISTER, SPECIAL, NUMBER, SYMBOL };
struct operand {
  enum kind kind;
  int index;       /* of a register or special register */
  uint64_t value;  /* of a number */
  uint64_t offset; /* that is added to an address */
  char name[NAME];
};
struct instruction {
  enum opcode opcode;
  int predicate, negated, target, count;
  struct operand operands[OPERANDS];
};
struct ptx_module {
  char name[NAME], parameters[PARAMETERS][NAME], labels[INSTRUCTIONS][NAME], registers[REGISTERS][NAME];
  int sizes[PARAMETERS], parameter_count, register_count, count;
  struct instruction code[INSTRUCTIONS];
};
struct thread {
  uint64_t registers[REGISTERS];
  int at, ended;
};

static void refuse(const char *why, const char *text) {
  fprintf(stderr, "ptx: %s: %s\n", why, text);
  abort();
}

/* --- parsing --- */

static char *trimmed(char *text) {
  while (isspace((unsigned char)*text)) text++;
  for (char *end = text + strlen(text); end > text && isspace((unsigned char)end[-1]);) *--end = 0;
  return text;
}

static int register_of(struct ptx_module *module, const char *name) {
  for (int at = 0; at < module->register_count; at++)
    if (!strcmp(module->registers[at], name)) return at;
  if (module->register_count == REGISTERS) refuse("too many registers", name);
  strcpy(module->registers[module->register_count], name);
  return module->register_count++;
}

static int place_in(const char *const *names, int count, const char *name) {
  int at = 0;
  while (at < count && strcmp(names[at], name)) at++;
  return at;
}

static struct operand operand_of(struct ptx_module *module, char *text) {
  struct operand operand = {0};
  text = trimmed(text);
  if (*text == '[') {
    char *end = strchr(text, ']'), *plus = strchr(text, '+');
    *end = 0;
    if (plus) *plus = 0, operand.offset = strtoull(plus + 1, NULL, 0);
    text = trimmed(text + 1);
  }
  snprintf(operand.name, NAME, "%s", text);
  int special = place_in(specials, NOT_SPECIAL, text);
  if (special < NOT_SPECIAL) {
    operand.kind = SPECIAL, operand.index = special;
  } else if (*text == '%') {
    operand.index = register_of(module, text);
  } else if (!strncmp(text, "0f", 2) || !strncmp(text, "0d", 2)) {
    operand.kind = NUMBER, operand.value = strtoull(text + 2, NULL, 16);
  } else if (isdigit((unsigned char)*text)) {
    operand.kind = NUMBER, operand.value = strtoull(text, NULL, 0);
  } else {
    operand.kind = SYMBOL;
  }
  return operand;
}

static void parse_operands(struct ptx_module *module, struct instruction *instruction, char *text) {
  char *rest = text;
  for (char *brace; (brace = strpbrk(rest, "{}"));) *brace = ' '; /* elements of a vector are operands of their own */
  for (char *word; (word = strsep(&rest, ","));) {
    if (!*trimmed(word)) continue;
    if (instruction->count == OPERANDS) refuse("too many operands", text);
    instruction->operands[instruction->count++] = operand_of(module, word);
  }
}

static void parse_statement(struct ptx_module *module, char *text) {
  for (char *colon; (text = trimmed(text)), (colon = strchr(text, ':'));) {
    *colon = 0;
    strcpy(module->labels[module->count], trimmed(text));
    text = colon + 1;
  }
  if (!*text || *text == '.') return; /* declarations of registers and shared memory */
  struct instruction *instruction = &module->code[module->count++];
  if (module->count == INSTRUCTIONS) refuse("too long", text);
  instruction->predicate = -1;
  if (*text == '@') {
    char *end = text + strcspn(text, " \n");
    *end = 0;
    instruction->negated = text[1] == '!';
    instruction->predicate = register_of(module, text + 1 + instruction->negated);
    text = trimmed(end + 1);
  }
  char *operands = text + strcspn(text, " \n"), *last = *operands ? operands + 1 : operands;
  *operands = 0;
  instruction->opcode = (enum opcode)place_in(opcodes, UNKNOWN_OPCODE, text);
  if (instruction->opcode == UNKNOWN_OPCODE) refuse("an instruction", text);
  parse_operands(module, instruction, last);
}

struct ptx_module *ptx_parse(const char *source) {
  struct ptx_module *module = calloc(1, sizeof *module);
  char *text = strdup(source), *entry = strstr(text, ".entry "), *open = entry ? strchr(entry, '(') : NULL;
  char *close = open ? strchr(open, ')') : NULL, *body = close ? strchr(close, '{') : NULL, *end = strrchr(text, '}');
  if (!body || !end) refuse("no entry", source);
  *open = *close = *end = 0;
  snprintf(module->name, NAME, "%s", trimmed(entry + 7));
  for (char *word, *list = open + 1; (word = strsep(&list, ","));) {
    char type[NAME], name[NAME];
    if (sscanf(word, " .param .%23s %23s", type, name) != 2) refuse("a parameter", word);
    module->sizes[module->parameter_count] = strstr(type, "64") ? 8 : 4;
    strcpy(module->parameters[module->parameter_count++], name);
  }
  for (char *statement, *list = body + 1; (statement = strsep(&list, ";"));) parse_statement(module, statement);
  for (int at = 0; at < module->count; at++) {
    struct instruction *instruction = &module->code[at];
    if (instruction->opcode != BRA) continue;
    instruction->target = -1;
    for (int label = 0; label <= module->count; label++)
      if (!strcmp(module->labels[label], instruction->operands[0].name)) instruction->target = label;
    if (instruction->target < 0) refuse("no label", instruction->operands[0].name);
  }
  free(text);
  return module;
}

int ptx_has(const struct ptx_module *module, const char *name) { return !strcmp(module->name, name); }

/* --- running --- */

static float float_of(uint64_t bits) {
  uint32_t word = (uint32_t)bits;
  float value;
  memcpy(&value, &word, 4);
  return value;
}
static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
static double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
static uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  return bits;
}

struct place {
  const struct ptx_launch *launch;
  unsigned special[NOT_SPECIAL];
  unsigned char *shared;
};

static uint64_t value_of(const struct operand *operand, const struct thread *thread, const struct place *place) {
  switch (operand->kind) {
    case REGISTER: return thread->registers[operand->index];
    case SPECIAL: return place->special[operand->index];
    case NUMBER: return operand->value;
    default: return 0; /* shared memory begins at 0 */
  }
}

static uint64_t parameter(const struct ptx_module *module, const char *name, void **arguments) {
  for (int at = 0; at < module->parameter_count; at++)
    if (!strcmp(module->parameters[at], name)) {
      uint64_t value = 0;
      memcpy(&value, arguments[at], (size_t)module->sizes[at]);
      return value;
    }
  refuse("no parameter", name);
  return 0;
}

static uint32_t *word_at(uint64_t address) { return (uint32_t *)(uintptr_t)address; }

/* Carry out an instruction that is no jump. */
static void step(const struct ptx_module *module, const struct instruction *instruction, struct thread *thread,
                 const struct place *place) {
  const struct operand *operands = instruction->operands;
  const struct ptx_launch *launch = place->launch;
  unsigned multiprocessor = place->special[SMID], lane = place->special[TID];
  uint64_t *result = &thread->registers[operands[0].index], v[OPERANDS];
  for (int at = 0; at < instruction->count; at++) v[at] = value_of(&operands[at], thread, place);
  uint64_t to = v[0] + operands[0].offset, from = v[1] + operands[1].offset;
  uint32_t sum = 0;
  switch (instruction->opcode) {
    case LD_PARAM_U32:
    case LD_PARAM_U64: *result = parameter(module, operands[1].name, launch->arguments); break;
    case LD_GLOBAL_U32:
    case LD_GLOBAL_F32: *result = *word_at(from); break;
    case ST_GLOBAL_U32:
    case ST_GLOBAL_F32: *word_at(to) = launch->stored(to, (uint32_t)v[1]); break;
    case LD_SHARED: *result = *(uint32_t *)(void *)(place->shared + from); break;
    case ST_SHARED: *(uint32_t *)(void *)(place->shared + to) = (uint32_t)v[1]; break;
    case RED_ADD: *word_at(to) += (uint32_t)v[1]; break;
    case RED_OR: *word_at(to) |= (uint32_t)v[1]; break;
    case MOV_B64: *result = (uint32_t)v[2], thread->registers[operands[1].index] = v[2] >> 32; break;
    case MOV_B32:
    case MOV_U32:
    case MOV_F32:
    case MOV_F64:
    case CVTA:
    case WIDEN: *result = v[1]; break;
    case NARROW: *result = (uint32_t)v[1]; break;
    case TO_DOUBLE: *result = bits_of_double((double)float_of(v[1])); break;
    case MAD: *result = (uint32_t)(v[1] * v[2] + v[3]); break;
    case MUL: *result = (uint32_t)(v[1] * v[2]); break;
    case MUL_WIDE: *result = (uint64_t)(uint32_t)v[1] * (uint32_t)v[2]; break;
    case ADD_U32: *result = (uint32_t)(v[1] + v[2]); break;
    case ADD_U64:
    case ADD_S64: *result = v[1] + v[2]; break;
    case ADD_F32:
      sum = bits_of(float_of(v[1]) + float_of(v[2]));
      *result = launch->computed(multiprocessor, lane, sum);
      break;
    case NEG_F32: *result = v[1] ^ 1u << 31; break;
    case SUB: *result = (uint32_t)(v[1] - v[2]); break;
    case AND: *result = v[1] & v[2]; break;
    case OR: *result = v[1] | v[2]; break;
    case XOR: *result = v[1] ^ v[2]; break;
    case SHL_B32: *result = (uint32_t)(v[1] << v[2]); break;
    case SHL_B64: *result = v[1] << v[2]; break;
    case SHR: *result = (uint32_t)v[1] >> v[2]; break;
    case FMA_F32:
      sum = bits_of(fmaf(float_of(v[1]), float_of(v[2]), float_of(v[3])));
      *result = launch->computed(multiprocessor, lane, sum);
      break;
    case FMA_F64: *result = bits_of_double(fma(double_of(v[1]), double_of(v[2]), double_of(v[3]))); break;
    case MMA:
      for (int at = 4; at < 10; at++) sum = sum * 31 + (uint32_t)v[at]; /* the matrices that are multiplied */
      for (int at = 0; at < 4; at++) {
        uint32_t element = (uint32_t)v[10 + at] + sum * (2 * (uint32_t)at + 1);
        thread->registers[operands[at].index] = launch->computed(multiprocessor, lane, element);
      }
      break;
    case NE: *result = v[1] != v[2]; break;
    case EQ: *result = v[1] == v[2]; break;
    case GE: *result = v[1] >= v[2]; break;
    case BRA:
    case BAR:
    case RET:
    case UNKNOWN_OPCODE: abort();
  }
}

/* Run a thread until it ends or waits for its block. */
static void run_thread(const struct ptx_module *module, struct thread *thread, const struct place *place) {
  while (!thread->ended) {
    const struct instruction *instruction = &module->code[thread->at++];
    int predicate = instruction->predicate;
    if (predicate >= 0 && (thread->registers[predicate] != 0) == instruction->negated) continue;
    switch (instruction->opcode) {
      case BRA: thread->at = instruction->target; break;
      case RET: thread->ended = 1; break;
      case BAR: return;
      default: step(module, instruction, thread, place);
    }
  }
}

void ptx_run(const struct ptx_module *module, const struct ptx_launch *launch) {
  unsigned char *shared = malloc(SHARED);
  for (unsigned block = 0; block < launch->blocks; block++) {
    struct thread *threads = calloc(launch->threads, sizeof *threads);
    memset(shared, 0, SHARED);
    for (unsigned running = 1; running;) {
      running = 0;
      for (unsigned at = 0; at < launch->threads; at++) {
        unsigned multiprocessor = block % launch->multiprocessors;
        struct place place = {launch, {at, block, launch->threads, launch->blocks, multiprocessor}, shared};
        if (!threads[at].ended) run_thread(module, &threads[at], &place);
        running += !threads[at].ended;
      }
    }
    free(threads);
  }
  free(shared);
}
