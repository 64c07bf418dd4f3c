/* SPDX-License-Identifier: MIT */
/*
 * See choices.c.
 */
#ifndef CHOICES_H
#define CHOICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An execution. seed not 0: a random one, which leaves no trace. */
void choices_begin(uint64_t seed);

bool choices_are_random(void);

/* So far the execution has made choices of the last one only. */
bool choices_are_repeated(void);

/* One of 0 .. count - 1; a choice even if there is only one. */
unsigned choices_choose(unsigned count);

/* The next list of choices; false: there is none. */
bool choices_advance(void);

/* Notes the state of the execution; false: it has been noted before. */
bool choices_is_new(void);
size_t choices_states(void);

/* Starts from the beginning. */
void choices_forget(void);

#endif
