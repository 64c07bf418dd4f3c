/* SPDX-License-Identifier: MIT */
/*
 * Registers of the first arguments on x86-64, and their names in a note.
 */

#define PS_PROBE_IN_FIRST __asm__("rdi")
#define PS_PROBE_IN_SECOND __asm__("rsi")
#define PS_PROBE_IN_THIRD __asm__("rdx")
#define PS_PROBE_ONE "8@%%rdi"
#define PS_PROBE_THREE "8@%%rdi 8@%%rsi 8@%%rdx"
#define PS_PROBE(note) note
