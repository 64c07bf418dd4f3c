/* SPDX-License-Identifier: MIT */
/*
 * Lists of spans: circular through prev, ended by NULL through next, so one pointer gives head and
 * tail. A span is on at most one list. No locks: the list's owner serialises.
 */
#ifndef PS_SMALL_SPAN_LIST_H
#define PS_SMALL_SPAN_LIST_H

#include "pools/small/span.h"

static inline void ps_span_list_push_tail(struct ps_span **head, struct ps_span *span) {
    span->next = NULL;
    if (*head == NULL) {
        span->prev = span;
        *head = span;
        return;
    }
    span->prev = (*head)->prev;
    span->prev->next = span;
    (*head)->prev = span;
}

static inline void ps_span_list_remove(struct ps_span **head, struct ps_span *span) {
    struct ps_span *next = span->next;
    if (*head == span) {
        *head = next;
    } else {
        span->prev->next = next;
    }
    if (next != NULL) {
        next->prev = span->prev;
    } else if (*head != NULL) {
        (*head)->prev = span->prev;
    }
    span->prev = NULL;
    span->next = NULL;
}

#endif
