/* SPDX-License-Identifier: MIT */
/*
 * See front_thread.h.
 */
#include "pools/engine/heap/front_thread.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/number.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/lock.h"

/* A block above the classes counts for so much, if there are no samples. */
#define LARGE_BYTES ((size_t)2 << 10)
#define COUNTED_BYTES_MOST ((size_t)1 << 48)     /* more does not exist */
#define LIMITED_MEDIUM_BYTES ((size_t)128 << 10) /* of a front, where memory is limited */
#define MARKED_BLOCKS 512                        /* of a streak: more of them are not touched */

/* clang-format off */
PS_HIDDEN PS_THREAD_LOCAL_LINE(struct ps_front_words, ps_front_thread) =
    PS_THREAD_LOCAL_INIT({.windows = &ps_windows_none, .own = &ps_front_none});
/* clang-format on */
struct ps_windows ps_windows_none;

static struct ps_front_words *first_words; /* of the thread that started the engine */
static bool is_first_alone;                /* no other thread has begun that it knows of */
static uint32_t x_others_have_begun;
static uint32_t x_users; /* threads that may use fronts of ids; one that ends unnoticed for good */

void ps_front_engine_start(void) {
    ps_slab_has_tags = ps_mode.hook.has_fast_free;
    if (ps_limit_is_on()) {
        ps_front_bound_medium(LIMITED_MEDIUM_BYTES);
    }
    ps_front_start();
    first_words = &ps_front_thread;
    is_first_alone = true;
}

/* ---- samples ---- */

/* Counts what a thread has requested up to an event. Its first event gives it a record. */
static void count_requested(int64_t bytes) {
    bool has_record = ps_front_thread.windows != &ps_windows_none;
    if (PS_UNLIKELY(!has_record) && (bytes <= 0 || !ps_front_has_windows())) {
        return;
    }
    uint64_t *allocated = &ps_front_thread.windows->bytes.x_allocated;
    /* relaxed: this thread writes; other processes read. */
    ps_store_relaxed(allocated, *allocated + (uint64_t)bytes);
}

/* The same, of a counted thread. */
static PS_COLD bool count_exactly(void) {
    struct ps_front_words *words = &ps_front_thread;
    bool is_due = false;
    int64_t bytes = ps_counting_note_event();
    if (ps_mode.hook.count_bytes != NULL) {
        (void)ps_mode.hook.count_bytes(&words->sampler, bytes, &is_due);
    }
    if (!ps_counting_arm()) { /* the next request begins a countdown */
        words->armed_bytes = 1;
        words->left_bytes = 0;
    }
    return is_due;
}

bool ps_front_count_bytes(void) {
    struct ps_front_words *words = &ps_front_thread;
    bool is_due = false;
    int64_t next = PS_FRONT_EVENT_BYTES;
    int64_t bytes = (int64_t)words->armed_bytes - words->left_bytes;
    words->large_most_bytes = LARGE_BYTES;
    if (PS_UNLIKELY(words->armed_bytes == PS_COUNTING_ARMED)) {
        return count_exactly();
    }
    count_requested(bytes);
    if (ps_mode.hook.count_bytes != NULL) {
        int64_t sample_bytes = ps_mode.hook.count_bytes(&words->sampler, bytes, &is_due);
        next = sample_bytes < next ? sample_bytes : next;
        if (PS_UNLIKELY(sample_bytes != INT64_MAX)) {
            words->large_most_bytes = COUNTED_BYTES_MOST;
        }
    }
    words->armed_bytes = next > 1 ? (uint32_t)next : 1; /* not 0 */
    words->left_bytes = next;
    return is_due;
}

/* ---- the thread ---- */

/* True if the thread may have windows and streaks: its destructors will run, and have not. Asked
 * when it is about to get the first, since libc may allocate to note that. */
bool ps_front_end_is_noted(void) {
    struct ps_front_words *words = &ps_front_thread;
    if (PS_LIKELY(words->end != PS_FRONT_END_UNKNOWN)) {
        return words->end == PS_FRONT_END_NOTED;
    }
    words->end = PS_FRONT_END_ASKED;
    bool will_end = ps_thread_will_end(); /* false before there is a key */
    words->end = will_end ? PS_FRONT_END_NOTED : PS_FRONT_END_UNKNOWN;
    return words->end == PS_FRONT_END_NOTED;
}

bool ps_front_has_windows(void) {
    struct ps_front_words *words = &ps_front_thread;
    if (words->windows == &ps_windows_none && ps_front_end_is_noted()) {
        struct ps_windows *windows = ps_windows_acquire();
        words->windows = windows != NULL ? windows : &ps_windows_none;
    }
    return words->windows != &ps_windows_none;
}

/* Covers the beginning of threads, and the emptying of fronts by the only one. */
static struct ps_lock users_lock = PS_LOCK_INIT(PS_RANK_FRONT_USERS);

void ps_front_begin(void) {
    struct ps_front_words *words = &ps_front_thread;
    struct ps_front *own = words == first_words ? ps_front_table.x_own : NULL;
    if (own == NULL) {
        ps_lock_acquire(&users_lock);
        ps_add_seq_cst(&x_users, 1u);
        ps_lock_release(&users_lock);
    } else { /* ld.so has reset the words of the first thread, which has begun and is counted: it
              * copies the initial values after IFUNC resolvers may have allocated */
        words->is_announced = true;
        ps_store_relaxed(&words->x_is_counted, 1u); /* relaxed: this thread's own */
    }
    if (words == first_words && is_first_alone) {
        words->own = own != NULL ? own : ps_front_make();
        ps_store_release(&ps_front_table.x_own, words->own); /* release: a reader of its counts */
    } else {
        words->own = NULL;
        ps_store_relaxed(&x_others_have_begun, 1u); /* relaxed: a hint for the first thread */
    }
    if (words->windows == NULL) { /* ld.so has not copied the initial values yet */
        words->windows = &ps_windows_none;
    }
    (void)ps_front_count_bytes();
    if (PS_LIKELY(ps_mode.hook.has_fast_alloc)) {
        words->fast_limit = ps_min(PS_FEW_BYTES, ps_size_class_max_bytes) + 1;
    }
    if (ps_front_end_is_noted()) { /* last, both: they may allocate */
        ps_thread_count();
    }
}

/* True if no other thread may use fronts: others have not begun, or their destructors have run.
 * None begins before end_alone. */
static bool begin_alone(void) {
    ps_lock_acquire(&users_lock);
    /* acquire: pairs with the end of other threads; makes what they have pushed visible. */
    bool is_alone = ps_load_acquire(&x_users) == 1 && ps_front_thread.own != &ps_front_none &&
                    users_lock.depth == 0;
    if (!is_alone) {
        ps_lock_release(&users_lock);
    }
    return is_alone;
}

void ps_front_return_shared(bool is_all, bool may_sleep) {
    bool is_alone = begin_alone();
    if (is_alone || may_sleep) {
        ps_front_return_idle(is_all, is_alone);
    }
    if (is_alone) {
        ps_lock_release(&users_lock);
    }
}

void ps_front_share_own(void) {
    struct ps_front_words *words = &ps_front_thread;
    if (words->own != NULL && words->own == ps_front_table.x_own) {
        struct ps_front *own = words->own;
        is_first_alone = false;
        words->own = NULL;
        ps_front_share(own);
        ps_store_relaxed(&ps_front_table.x_own, NULL); /* relaxed: a census may count it twice */
    }
}

/* A thread that has not allocated may be past its destructors, unless it was announced. */
PS_COLD bool ps_front_begin_to_free(void) {
    bool may_begin = ps_front_thread.end != PS_FRONT_END_OVER && ps_front_thread.is_announced;
    if (may_begin) {
        ps_front_begin();
    }
    return may_begin;
}

/* ---- free streaks ---- */

/* Marks the blocks, which are free: a second free of one is found at once. */
static void mark_blocks(char *lowest, size_t count, size_t block_bytes, const char *first) {
    for (size_t i = 0; i < count; i++) {
        char *block = lowest + i * block_bytes;
        if (PS_UNLIKELY(block != first && ps_mark_is_set(block))) {
            ps_slab_misuse(ps_slab_of(block), block, PS_MISUSE_FREE);
        }
        ps_mark_set(block);
    }
}

void ps_front_close_streak(void) {
    struct ps_front_words *words = &ps_front_thread;
    ptrdiff_t step = words->streak_step;
    if (step == 0) {
        return;
    }
    char *first = words->streak_first;
    char *next = words->streak_next;
    words->streak_next = NULL;
    words->streak_step = 0;
    size_t count = (size_t)((next - first) / step);
    char *lowest = step > 0 ? first : next - step;
    if (count < MARKED_BLOCKS) {
        mark_blocks(lowest, count, (size_t)(step > 0 ? step : -step), first);
    }
    ps_store_give_range(ps_slab_of(lowest)->class_index, lowest, count);
}

/* The step of a sequence that three frees form; 0: they do not. */
static ptrdiff_t step_of(size_t class_index, const char *newest, void *const *before) {
    const struct ps_size_class *class = &ps_size_classes[class_index];
    ptrdiff_t step = newest - (const char *)before[0];
    bool is_step =
        step == (ptrdiff_t) class->block_bytes || step == -(ptrdiff_t) class->block_bytes;
    return class->has_streaks && ps_slab_has_tags && is_step &&
                   (const char *)before[0] - (const char *)before[1] == step
               ? step
               : 0;
}

bool ps_front_open_streak(size_t class_index, char *newest, void *const *before, size_t count) {
    ptrdiff_t step = count >= 2 ? step_of(class_index, newest, before) : 0;
    if (step == 0 || !ps_front_end_is_noted()) {
        return false;
    }
    struct ps_front_words *words = &ps_front_thread;
    ps_front_close_streak();
    words->streak_first = newest;
    words->streak_step = step;
    words->streak_next = newest + step;
    return true;
}

/* ---- periodic work ---- */

void ps_front_share_beside_others(void) {
    if (PS_UNLIKELY(ps_load_relaxed(&x_others_have_begun) != 0)) { /* relaxed: a hint */
        ps_front_share_own();
    }
}

void ps_front_scan(bool is_all) {
    struct ps_front_words *words = &ps_front_thread;
    ps_front_close_streak();
    if (words->own != NULL && words->own == ps_front_table.x_own) {
        ps_front_return_own(words->own, is_all);
    }
}

void ps_front_flush(void) {
    struct ps_windows *windows = ps_front_thread.windows;
    ps_front_scan(true);
    if (windows != &ps_windows_none) {
        ps_windows_empty(windows);
    }
}

void ps_front_thread_ended(void) {
    struct ps_front_words *words = &ps_front_thread;
    struct ps_windows *windows = words->windows;
    words->end = PS_FRONT_END_OVER; /* first: what follows may be interrupted by a call */
    ps_front_close_streak();
    ps_front_share_own();
    words->fast_limit = 0;
    if (words->own == &ps_front_counting) {
        words->own = NULL;
    }
    words->windows = &ps_windows_none;
    if (windows != &ps_windows_none) {
        ps_windows_release(windows);
    }
    if (words->own != &ps_front_none) { /* last: the child of a fork takes back what users have */
        words->own = &ps_front_none;    /* first */
        ps_front_number_return();
        ps_add_seq_cst(&x_users, (uint32_t)-1); /* orders what it has pushed, for the last one */
    }
}

/* ---- forks ---- */

void ps_front_engine_fork_child(void) {
    struct ps_front_words *words = &ps_front_thread;
    (void)ps_lock_fork_child(&users_lock);
    struct ps_front *own = ps_front_table.x_own;
    /* relaxed, both: one thread. */
    bool had_others = own == NULL || words->own != own || ps_load_relaxed(&x_users) > 1;
    ps_store_relaxed(&x_users, words->own != &ps_front_none ? 1u : 0u);
    if (had_others) {
        ps_front_fork_child(words->own);
        ps_windows_fork_child();
        if (ps_mode.hook.fork_blocks != NULL) {
            ps_mode.hook.fork_blocks();
        }
    }
    ps_store_fork_child(had_others);
    ps_store_purge_fork_child();
    if (words->own != own && own != NULL) { /* of a thread that is not here */
        ps_front_drop(own);
        ps_front_table.x_own = NULL;
        is_first_alone = false;
    }
}
