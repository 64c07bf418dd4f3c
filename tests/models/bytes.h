/* SPDX-License-Identifier: MIT */
/*
 * See bytes.c.
 */
#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Plain read and write, atomic load and store. */
enum access { READ, WRITE, LOAD, STORE };

void bytes_begin(void); /* an execution */
void bytes_end(void);   /* of it: everything written is as before */

/* Fails on a data race, and where the bytes are dead. */
void bytes_touch(uintptr_t address, size_t bytes, enum access access);

/* True when an atomic step of another thread on the byte is not ordered with one of the calling
 * thread. */
bool bytes_is_met(uintptr_t address, bool is_store);

/* The step of the last plain write of a byte, and its thread; 0: none. */
uint32_t bytes_last_write(uintptr_t address, uint8_t *writer);

/* Up to 8 bytes. */
uint64_t bytes_get(uintptr_t address, size_t bytes);
void bytes_put(uintptr_t address, size_t bytes, uint64_t value);

/* Saves bytes before another thread writes them. */
void bytes_save(uintptr_t address, size_t bytes);

#endif
