/* SPDX-License-Identifier: MIT */
/*
 * A small world below the pools: a few chunks, each returned once and dead from then on. For models
 * of pools/ring and pools/intrusive.
 */
#ifndef CHUNKS_H
#define CHUNKS_H

/* Chunks taken and not given back. */
unsigned chunks_out(void);

#endif
