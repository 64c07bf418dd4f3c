/* SPDX-License-Identifier: MIT */
/*
 * Registers of the first arguments on 64-bit ARM, and their names in a note.
 */

#define PS_PROBE_IN_FIRST __asm__("x0")
#define PS_PROBE_IN_SECOND __asm__("x1")
#define PS_PROBE_IN_THIRD __asm__("x2")
#define PS_PROBE_ONE "8@x0"
#define PS_PROBE_THREE "8@x0 8@x1 8@x2"
#define PS_PROBE(note) note
