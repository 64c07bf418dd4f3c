/* SPDX-License-Identifier: MIT */
/*
 * The OS contract: everything the engine requires of the operating system. One body per system
 * (os_linux.c); tests replace it with a fake that fails the Nth call and owns the clock.
 *
 * No function here allocates, takes a lock or changes errno. Addresses and sizes are multiples of
 * the OS page unless stated. Any thread may call any of them at any time.
 */
#ifndef PS_OS_OS_H
#define PS_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Maps zeroed, readable and writable memory without committing it.
 * bytes: > 0, multiple of the page. align: power of two, at least the page.
 * Returns the address, or NULL when the system refuses; then nothing has changed.
 */
void *ps_os_reserve(size_t bytes, size_t align);

/* The same without any access, so that not even mlockall() puts memory behind it: ps_os_protect
 * gives it, which the system may refuse. */
void *ps_os_reserve_closed(size_t bytes, size_t align);

/* Unmaps. False when the system refuses (too many mappings, say): the range is still mapped. */
bool ps_os_release(void *base, size_t bytes);

/*
 * Drops the memory behind a range and keeps the addresses.
 * Returns true when every byte now reads as zero; false when the range is unchanged.
 */
bool ps_os_purge(void *base, size_t bytes);

/*
 * Takes all access to a range away, or gives it back; what lies there stays. False when the system
 * refuses (too many mappings, say): the range may have changed in part.
 */
bool ps_os_protect(void *base, size_t bytes, bool is_accessible);

/* Makes a range read-only for good. False when the system refuses: it is as it was. */
bool ps_os_freeze(void *base, size_t bytes);

/* How many bytes of a range are in memory now, about; `bytes` when the system does not report it.
 */
size_t ps_os_resident(void *base, size_t bytes);

/* Grows or shrinks a mapping where it stands. False when that is impossible; nothing changed. */
bool ps_os_resize(void *base, size_t old_bytes, size_t new_bytes);

/*
 * Moves the pages of [from, from + old_bytes) to `to`, which is a reservation of new_bytes
 * (>= old_bytes) and is replaced by it; `from` is unmapped. False: `from` is unchanged, `to` is
 * not the caller's any more: the system may have unmapped it before it refused.
 */
bool ps_os_move(void *from, size_t old_bytes, void *to, size_t new_bytes);

/* Advises huge pages for a range (is_wanted) or against them. Best effort. */
void ps_os_advise_huge(void *base, size_t bytes, bool is_wanted);

/* The system's page size in bytes, read at run time; a power of two. */
size_t ps_os_page_bytes(void);

/* Milliseconds on a monotonic clock; cheap, a few milliseconds coarse. */
uint64_t ps_os_now_ms(void);

/* The calling thread's number in the system, for reports: a system call. */
uint32_t ps_os_thread_number(void);

/* Whether the calling thread is the first of its process, as the only one of a fork's child is. */
bool ps_os_is_first_thread(void);

/* Whether there is memory at an address now, of any kind; false: touching it is fatal. */
bool ps_os_is_mapped(const void *address);

/*
 * A word, 0 now, that is 0 again in the child of a fork, whatever the parent has written there: not
 * in a process that shares memory with this one. Costs a page; NULL when the system has no such
 * memory (Linux before 4.14).
 */
uint32_t *ps_os_word_wiped_by_fork(void);

/* 64 unpredictable bits from the system; weaker ones where the system has none. */
uint64_t ps_os_random(void);

/* Writes all of it to a descriptor, retrying on interruption; errors end the attempt silently. */
void ps_os_write(int fd, const char *text, size_t bytes);

/* Blocks while *word == expected; may return early for no reason. */
void ps_os_wait(uint32_t *word, uint32_t expected);

/* Unblocks one thread that waits on the word. */
void ps_os_wake_one(uint32_t *word);

#endif
