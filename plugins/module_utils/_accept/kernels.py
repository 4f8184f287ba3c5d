# Copyright (c) 2026, the gpu.node authors
# SPDX-License-Identifier: Apache-2.0

"""The kernels of the load test, in PTX, which every driver compiles for its GPU.

A kernel of arithmetic computes the same in each of its blocks. What the units of a multiprocessor compute is mixed
into an integer that forgets nothing, by a congruence modulo 2**32, so that one wrong bit at any time changes it.
"""

from __future__ import annotations

import struct
import typing as t

THREADS = 512  # of a block
BLOCKS = 2  # that a multiprocessor has at a time
FMAS = 64  # of float32, in a thread and iteration of the kernel
NEAR = [struct.pack(">f", lane / 1024).hex() for lane in range(8)]
TENSOR_CAPABILITY = (8, 0)  # the first with m16n8k16 of float16

# Of thread r1 in block r2, r8 is the integer, and r11 and r12 are the slots in shared memory of it and the next thread.
_BEGIN = """
.version 7.0
.target %(target)s
.address_size 64
.visible .entry %(name)s(
  .param .u64 results, .param .u64 processors, .param .u32 seed, .param .u32 iterations
)
{
  .reg .pred %%p<3>;
  .reg .b32 %%r<24>;
  .reg .f32 %%f<10>;
  .reg .f64 %%d<3>;
  .reg .b64 %%rd<5>;
  .shared .align 4 .b8 slots[%(slots)s];
  ld.param.u64 %%rd1, [results];
  ld.param.u64 %%rd2, [processors];
  ld.param.u32 %%r3, [seed];
  ld.param.u32 %%r4, [iterations];
  cvta.to.global.u64 %%rd1, %%rd1;
  cvta.to.global.u64 %%rd2, %%rd2;
  mov.u32 %%r1, %%tid.x;
  mov.u32 %%r2, %%ctaid.x;
  mov.u32 %%r5, %%ntid.x;
  mad.lo.u32 %%r6, %%r2, %%r5, %%r1;
  mad.lo.u32 %%r8, %%r1, 0x9E3779B1, %%r3;
  mov.u32 %%r10, slots;
  shl.b32 %%r11, %%r1, 2;
  add.u32 %%r11, %%r10, %%r11;
  add.u32 %%r12, %%r1, 1;
  sub.u32 %%r13, %%r5, 1;
  and.b32 %%r12, %%r12, %%r13;
  shl.b32 %%r12, %%r12, 2;
  add.u32 %%r12, %%r10, %%r12;
  mov.f64 %%d0, 0d3FF0000000000000;
AGAIN:
"""
# The integer takes up r9 and the eight sums, passes through shared memory to the next thread, and at the end goes to
# global memory, where rd1 has a word for each thread and rd2 the multiprocessor of each block.
_END = """
  mov.b32 %r22, %f0;
  xor.b32 %r9, %r9, %r22;
  mov.b32 %r22, %f1;
  mad.lo.u32 %r9, %r9, 31, %r22;
  mov.b32 %r22, %f2;
  mad.lo.u32 %r9, %r9, 31, %r22;
  mov.b32 %r22, %f3;
  mad.lo.u32 %r9, %r9, 31, %r22;
  mov.b32 %r22, %f4;
  mad.lo.u32 %r9, %r9, 31, %r22;
  mov.b32 %r22, %f5;
  mad.lo.u32 %r9, %r9, 31, %r22;
  mov.b32 %r22, %f6;
  mad.lo.u32 %r9, %r9, 31, %r22;
  mov.b32 %r22, %f7;
  mad.lo.u32 %r9, %r9, 31, %r22;
  xor.b32 %r8, %r8, %r9;
  mad.lo.u32 %r8, %r8, 1664525, 1013904223;
  st.shared.u32 [%r11], %r8;
  bar.sync 0;
  ld.shared.u32 %r14, [%r12];
  bar.sync 0;
  mad.lo.u32 %r8, %r8, 3, %r14;
  sub.u32 %r4, %r4, 1;
  setp.ne.u32 %p1, %r4, 0;
  @%p1 bra AGAIN;
  mul.wide.u32 %rd3, %r6, 4;
  add.u64 %rd3, %rd1, %rd3;
  st.global.u32 [%rd3], %r8;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra END;
  mov.u32 %r15, %smid;
  mul.wide.u32 %rd4, %r2, 4;
  add.u64 %rd4, %rd2, %rd4;
  st.global.u32 [%rd4], %r15;
END:
  ret;
}
"""
# Eight sums next to 2 * u, where u in [1, 1.5) is of bits of the integer. From there sums drift away by 3/2 * sum - u.
# They stay within [2, 4), so that a wrong bit is never rounded away, but grows.
_FLOAT = f"""
  shr.u32 %r9, %r8, 10;
  or.b32 %r9, %r9, 0x3F800000;
  mov.b32 %f8, %r9;
  neg.f32 %f9, %f8;
{"".join(f"  fma.rn.f32 %f{lane}, %f8, 0f40000000, 0f{NEAR[lane]};" for lane in range(8))}
{"".join(f"  fma.rn.f32 %f{lane}, %f{lane}, 0f3FC00000, %f9;" for lane in range(8)) * (FMAS // 8 - 1)}
  cvt.f64.f32 %d2, %f8;
  fma.rn.f64 %d0, %d0, 0d3FE8000000000000, %d2;
  mov.b64 {{%r20, %r21}}, %d0;
  xor.b32 %r9, %r20, %r21;
"""
_PRODUCT = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_SUMS = ("{%f0, %f1, %f2, %f3}", "{%f4, %f5, %f6, %f7}")
_PRODUCTS = (
    (_SUMS[0], "%r16, %r17, %r18, %r19", "%r20, %r21"),
    (_SUMS[1], "%r16, %r17, %r18, %r19", "%r22, %r23"),
    (_SUMS[0], "%r17, %r16, %r19, %r18", "%r22, %r23"),
    (_SUMS[1], "%r17, %r16, %r19, %r18", "%r20, %r21"),
    (_SUMS[0], "%r18, %r19, %r16, %r17", "%r20, %r21"),
    (_SUMS[1], "%r18, %r19, %r16, %r17", "%r22, %r23"),
    (_SUMS[0], "%r19, %r18, %r17, %r16", "%r22, %r23"),
    (_SUMS[1], "%r19, %r18, %r17, %r16", "%r20, %r21"),
)
# Two sums of products of matrices, with elements in [1, 1.25) of bits of the integer, whose signs alternate. They stay
# within [128, 256), so that a wrong bit is never rounded away.
_TENSOR = f"""
{"".join(f"  mov.f32 %f{lane}, 0f43400000;" for lane in range(8))}
{
    "".join(
        f"  mad.lo.u32 %r{register}, %r8, {2 * register + 1}, {register};"
        f"  and.b32 %r{register}, %r{register}, 0x00FF00FF;"
        f"  or.b32 %r{register}, %r{register}, 0x3C003C00;"
        for register in range(16, 22)
    )
}
  or.b32 %r22, %r20, 0x80008000;
  or.b32 %r23, %r21, 0x80008000;
{
    "".join(
        f"  {_PRODUCT} {sums}, {{{left}}}, {{{right}}}, {sums};" for sums, left, right in _PRODUCTS
    )
}
  mov.u32 %r9, %r16;
"""
_VALUES = {"slots": 4 * THREADS}
ARITHMETIC: t.Mapping[str, str] = {
    "float": _BEGIN % {**_VALUES, "name": "float", "target": "sm_50"} + _FLOAT + _END,
    "tensor": _BEGIN % {**_VALUES, "name": "tensor", "target": "sm_80"} + _TENSOR + _END,
}
# Operations of a thread in an iteration. A warp of 32 multiplies 16x16 by 16x8 elements at a time.
OPERATIONS: t.Mapping[str, int] = {
    "float": 2 * FMAS,
    "tensor": 2 * 16 * 16 * 8 * len(_PRODUCTS) // 32,
}
# The word at an index is index * factor + offset, modulo 2**32. Threads go through the words in strides of the grid.
_WORDS = """
.version 6.0
.target sm_50
.address_size 64
.visible .entry %(name)s(
  .param .u64 words, .param .u64 count, .param .u32 factor, .param .u32 offset, .param .u64 wrong
)
{
  .reg .pred %%p<3>;
  .reg .b32 %%r<12>;
  .reg .b64 %%rd<10>;
  ld.param.u64 %%rd1, [words];
  ld.param.u64 %%rd2, [count];
  ld.param.u32 %%r1, [factor];
  ld.param.u32 %%r2, [offset];
  ld.param.u64 %%rd3, [wrong];
  cvta.to.global.u64 %%rd1, %%rd1;
  cvta.to.global.u64 %%rd3, %%rd3;
  mov.u32 %%r3, %%tid.x;
  mov.u32 %%r4, %%ctaid.x;
  mov.u32 %%r5, %%ntid.x;
  mov.u32 %%r6, %%nctaid.x;
  mad.lo.u32 %%r7, %%r4, %%r5, %%r3;
  mul.lo.u32 %%r8, %%r5, %%r6;
  cvt.u64.u32 %%rd4, %%r7;
  cvt.u64.u32 %%rd5, %%r8;
NEXT:
  setp.ge.u64 %%p1, %%rd4, %%rd2;
  @%%p1 bra END;
  cvt.u32.u64 %%r9, %%rd4;
  mad.lo.u32 %%r9, %%r9, %%r1, %%r2;
  shl.b64 %%rd6, %%rd4, 2;
  add.u64 %%rd6, %%rd1, %%rd6;
%(body)s
GOOD:
  add.u64 %%rd4, %%rd4, %%rd5;
  bra NEXT;
END:
  ret;
}
"""
# Of wrong words their number, and which bits of them were ever wrong.
_CHECK = """
  ld.global.u32 %r10, [%rd6];
  setp.eq.u32 %p2, %r10, %r9;
  @%p2 bra GOOD;
  xor.b32 %r10, %r10, %r9;
  red.global.add.u32 [%rd3], 1;
  red.global.or.b32 [%rd3+4], %r10;
"""
MEMORY: t.Mapping[str, str] = {
    "fill": _WORDS % {"name": "fill", "body": "  st.global.u32 [%rd6], %r9;"},
    "check": _WORDS % {"name": "check", "body": _CHECK},
}
# Factor and offset: all bits off and on, neighbours that differ, and words that name their place, so that an address
# that leads to another cell is found too.
PATTERNS: t.Tuple[t.Tuple[int, int], ...] = (
    (0, 0x00000000),
    (0, 0xFFFFFFFF),
    (0xFFFFFFFF, 0x55555555),
    (0x9E3779B1, 0x00000000),
    (0x85EBCA77, 0xFFFFFFFF),
)
