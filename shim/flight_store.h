/* SPDX-License-Identifier: MIT */
/*
 * The files of flight records in their directory:
 *
 *   poolshim-<time>-<process>.pb        of a process that runs, or did not end by exit
 *   poolshim-<time>-<process>-exit.pb   of one that did
 *
 * The time is UTC, as 20261129T164200. The newest of each kind are left, by the time of their last
 * change. Called by flight.c, one thread at a time. Calls the kernel only, allocates nothing.
 */
#ifndef PS_SHIM_FLIGHT_STORE_H
#define PS_SHIM_FLIGHT_STORE_H

#include <stddef.h>
#include <stdint.h>

#define PS_FLIGHT_FILES 32 /* of a kind */
#define PS_FLIGHT_NAME_BYTES 64
#define PS_FLIGHT_TIME_BYTES 16

/* A time as in the names of files. */
void ps_flight_time(char out[PS_FLIGHT_TIME_BYTES], uint64_t seconds);

/* 0 if the directory can be opened, or an error as the kernel returns it. */
long ps_flight_check(const char *directory);

/* Makes this process's file, removes those beyond PS_FLIGHT_FILES, and maps it. name: is written;
 * until ps_flight_publish the file's begins with a dot, so that no reader finds it unfinished.
 * Returns the memory, or an error as the kernel returns it. Cost: a reading of the directory. */
long ps_flight_make(const char *directory, char name[PS_FLIGHT_NAME_BYTES], size_t bytes);

/* Gives the file its name. */
void ps_flight_publish(const char *directory, const char *name);

/* Marks the file as changed now, which keeps it from being removed. */
void ps_flight_touch(const char *directory, const char *name);

/* Cuts the file to so many bytes, and renames it. */
void ps_flight_finish(const char *directory, const char *name, size_t bytes);

#endif
