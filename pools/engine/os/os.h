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

/* The same at an address. False when something is there, or the system refuses; then nothing has
 * changed. */
bool ps_os_reserve_at(void *base, size_t bytes);

/* The same as ps_os_reserve without any access, so that not even mlockall() populates it:
 * ps_os_protect gives access, which the system may refuse. */
void *ps_os_reserve_closed(size_t bytes, size_t align);

/* Unmaps. Returns false, with the range still mapped, when the system refuses (for example at the
 * limit of mappings). */
bool ps_os_release(void *base, size_t bytes);

/*
 * Drops the memory of a range and retains the addresses.
 * Returns true when every byte now reads as zero. False: the system has refused; pages before a
 * locked one may read as zero, the rest is unchanged.
 */
bool ps_os_purge(void *base, size_t bytes);

/*
 * Revokes or restores access to a range; its contents are preserved. Returns false when the system
 * refuses (for example at the limit of mappings); the range may then have changed in part. Restored
 * access is that of memory with tags once ps_mte_start has succeeded (mte.h).
 */
bool ps_os_protect(void *base, size_t bytes, bool is_accessible);

/* Makes a range permanently read-only. Returns false, with the range unchanged, when the system
 * refuses. */
bool ps_os_freeze(void *base, size_t bytes);

/* Approximate number of resident bytes of a range; `bytes` when the system does not report it. */
size_t ps_os_resident(void *base, size_t bytes);

/* Grows or shrinks a mapping in place. Returns false, with the mapping unchanged, when that is
 * impossible. */
bool ps_os_resize(void *base, size_t old_bytes, size_t new_bytes);

/*
 * Moves the pages of [from, from + old_bytes) to `to`, a reservation of new_bytes (>= old_bytes)
 * which they replace; `from` is unmapped. Returns false with `from` unchanged; `to` no longer
 * belongs to the caller then, because the system may have unmapped it before it refused.
 */
bool ps_os_move(void *from, size_t old_bytes, void *to, size_t new_bytes);

/* Advises huge pages for a range (is_wanted) or against them. Best effort. */
void ps_os_advise_huge(void *base, size_t bytes, bool is_wanted);

/*
 * Maps huge pages that the system has set aside (hugetlb): zeroed, readable and writable memory,
 * with all of its pages taken, since a touch without a page ends the process (SIGBUS). bytes: > 0,
 * a multiple of page_bytes, which is a size that ps_hugetlb_probe accepts; the address is one, too.
 * ps_os_release returns the pages. NULL: there are not so many, and nothing has changed. Cost:
 * clears the pages, about 0.1 ms for 2 MiB.
 */
void *ps_os_map_huge(size_t bytes, size_t page_bytes);

enum ps_os_placing {
    PS_OS_PLACED,  /* the range is such memory now */
    PS_OS_REFUSED, /* there are not so many pages; the range has no access */
    PS_OS_LOST,    /* likewise, and the range may belong to another mapping: not to be used again */
};

/* The same at addresses of ps_os_reserve_closed or ps_os_close, which it replaces. base: a multiple
 * of page_bytes. */
enum ps_os_placing ps_os_place_huge(void *base, size_t bytes, size_t page_bytes);

/* Replaces a range by one without memory and access, as of ps_os_reserve_closed. Returns false,
 * with the range unchanged, when the system refuses. */
bool ps_os_close(void *base, size_t bytes);

/* The system's page size in bytes, read at run time; a power of two. */
size_t ps_os_page_bytes(void);

/* Memory of the machine in bytes. */
uint64_t ps_os_memory_bytes(void);

/* The resident bytes of this process (RSS), from /proc; 0 where that cannot be read. Costs four
 * system calls. */
uint64_t ps_os_rss_bytes(void);

/* Milliseconds on a clock that never goes backward, even if the system's does: cheap, with a
 * resolution of a few milliseconds. */
uint64_t ps_os_now_ms(void);

/* Microseconds on a precise monotonic clock; the other one may be late by some periods. Costs tens
 * of nanoseconds; a system call where the processor has no usable counter. */
uint64_t ps_os_now_us(void);

/* The system's number of the calling thread, for reports. One system call. */
uint32_t ps_os_thread_number(void);

/* The number of the processor that runs the calling thread, which may be another one a moment
 * later. A nanosecond; a system call where libc has not registered the thread (ps_os_rseq_offset).
 */
uint32_t ps_os_cpu(void);

/* From a thread's pointer to the area by which the kernel knows its restartable sequences (rseq.h),
 * as libc registers each thread; 0: it does not. */
ptrdiff_t ps_os_rseq_offset(void);

/* How many processors the calling thread may run on. One system call. */
uint32_t ps_os_cpus(void);

/* Sets the name of the calling thread in the system, up to 15 bytes. Best effort. */
void ps_os_name_thread(const char *name);

/* True on the first thread of the process; the only thread of a fork's child is one. */
bool ps_os_is_first_thread(void);

/* True when the address is mapped, in any way; touching an unmapped one is fatal. */
bool ps_os_is_mapped(const void *address);

/*
 * Returns a zero word that reads as zero again in the child of a fork, whatever the parent stored
 * in it; not in a process that shares its memory. Costs a page; NULL when the system has no such
 * memory (Linux before 4.14).
 */
uint32_t *ps_os_word_wiped_by_fork(void);

/* 64 unpredictable bits from the system; weaker ones if it has none. */
uint64_t ps_os_random(void);

/* Writes all bytes to a descriptor, retries on interruption, and stops silently on errors. */
void ps_os_write(int fd, const char *text, size_t bytes);

/* Blocks while *word == expected; may return early. */
void ps_os_wait(uint32_t *word, uint32_t expected);

/* The same, for so many milliseconds at most. */
void ps_os_wait_ms(uint32_t *word, uint32_t expected, uint64_t ms);

/* Unblocks one thread that is blocked on the word. */
void ps_os_wake_one(uint32_t *word);

#endif
