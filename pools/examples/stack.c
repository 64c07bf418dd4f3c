/* SPDX-License-Identifier: MIT */
/*
 * The stack of the thread: the median of numbers in a text, with all that is needed for it in a
 * frame; and a function that gives its caller a text in the caller's frame.
 */
#include <poolshim/stack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static double median(const double *values, size_t count) {
    PS_SCOPE; /* a frame that ends with the block, on every way out of it */
    double *sorted = ps_t_new(double, count);
    if (sorted == NULL || count == 0) {
        return 0;
    }
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    return sorted[count / 2];
}

/* t_: the result is in the caller's frame. An array at the top of the stack grows in place. */
static char *t_report(const char *text) {
    double *values = NULL;
    size_t count = 0;
    for (char *end; *text != '\0'; text = *end == ' ' ? end + 1 : end) {
        values = ps_t_realloc(values, count * sizeof *values, (count + 1) * sizeof *values);
        if (values == NULL) {
            return NULL;
        }
        values[count++] = strtod(text, &end);
    }
    return ps_t_printf("%zu numbers, median %g", count, median(values, count));
}

int main(void) {
    for (int round = 0; round < 1000; round++) {
        PS_SCOPE;
        char *report = t_report("3 1 4 1 5 9 2 6 5");
        if (report == NULL || strcmp(report, "9 numbers, median 4") != 0) {
            return EXIT_FAILURE;
        }
        if (round == 0) {
            puts(report);
        }
    }
    struct ps_stack_stats stats;
    ps_stack_stats(ps_t(), &stats);
    return stats.used_bytes == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
