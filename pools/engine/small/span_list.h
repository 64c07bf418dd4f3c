/* SPDX-License-Identifier: MIT */
/*
 * Lists of spans: circular through prev, terminated by NULL through next, so that one pointer gives
 * head and tail. A span is on at most one list. No locks: the owner of the list serialises access.
 */
#ifndef PS_SMALL_SPAN_LIST_H
#define PS_SMALL_SPAN_LIST_H

#include "pools/engine/small/span.h"

/* The last span of a non-empty list. */
static inline struct ps_span *ps_span_list_tail(const struct ps_span *head) {
    return ps_span_of_run(head->run.prev);
}

/* The next span of a list, NULL after the last. */
static inline struct ps_span *ps_span_list_next(const struct ps_span *span) {
    return span->run.next != NULL ? ps_span_of_run(span->run.next) : NULL;
}

static inline void ps_span_list_push_tail(struct ps_span **head, struct ps_span *span) {
    struct ps_run *run = &span->run;
    run->next = NULL;
    if (*head == NULL) {
        run->prev = run;
        *head = span;
        return;
    }
    struct ps_run *first = &(*head)->run;
    run->prev = first->prev;
    run->prev->next = run;
    first->prev = run;
}

static inline void ps_span_list_remove(struct ps_span **head, struct ps_span *span) {
    struct ps_run *run = &span->run;
    if (*head == span) {
        *head = ps_span_list_next(span);
    } else {
        run->prev->next = run->next;
    }
    if (run->next != NULL) {
        run->next->prev = run->prev;
    } else if (*head != NULL) {
        (*head)->run.prev = run->prev;
    }
    run->prev = NULL;
    run->next = NULL;
}

#endif
