/* SPDX-License-Identifier: MIT */
/*
 * No probes: the registers are the choice of the compiler, and there is no note.
 */

#define PS_PROBE_IN_FIRST
#define PS_PROBE_IN_SECOND
#define PS_PROBE_IN_THIRD
#define PS_PROBE_ONE ""
#define PS_PROBE_THREE ""
#define PS_PROBE(note) ""
