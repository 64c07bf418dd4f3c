/* SPDX-License-Identifier: MIT */
/*
 * The example of ring.h: one thread parses requests, another answers them and drops each with all
 * its memory. Exits 0 when all is as it should be.
 */
#include <poolshim/ring.h>
#include <pthread.h>
#include <string.h>

enum { REQUESTS = 20000, QUEUE = 128 };

struct request {
    struct ps_ring_frame *frame;
    unsigned number;
    unsigned word_count;
    char **words;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct request *waiting[QUEUE];
    unsigned first;
    unsigned count;
} queue = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct request *parse(struct ps_ring *ring, unsigned number) {
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    struct request *request = ps_ring_alloc(ring, sizeof *request);
    *request = (struct request){.frame = frame, .number = number, .word_count = number % 20};
    request->words = ps_ring_alloc(ring, request->word_count * sizeof *request->words);
    for (unsigned i = 0; i < request->word_count; i++) {
        request->words[i] = ps_ring_alloc_aligned(ring, i + 2, 1);
        memset(request->words[i], 'a', i + 1);
        request->words[i][i + 1] = '\0';
    }
    ps_ring_seal(ring);
    return request;
}

static void *answer(void *total) {
    for (unsigned number = 0; number < REQUESTS; number++) {
        pthread_mutex_lock(&queue.mutex);
        while (queue.count == 0) {
            pthread_cond_wait(&queue.changed, &queue.mutex);
        }
        struct request *request = queue.waiting[queue.first++ % QUEUE];
        queue.count--;
        pthread_cond_signal(&queue.changed);
        pthread_mutex_unlock(&queue.mutex);
        for (unsigned i = 0; i < request->word_count; i++) {
            *(size_t *)total += strlen(request->words[i]);
        }
        ps_ring_release(request->frame); /* the request, its table and its words */
    }
    return NULL;
}

int main(void) {
    struct ps_ring *ring = ps_ring_create(NULL);
    pthread_t thread;
    size_t total = 0;
    size_t expected = 0;
    if (ring == NULL || pthread_create(&thread, NULL, answer, &total) != 0) {
        return 1;
    }
    for (unsigned number = 0; number < REQUESTS; number++) {
        struct request *request = parse(ring, number);
        expected += request->word_count * (request->word_count + 1) / 2;
        pthread_mutex_lock(&queue.mutex);
        while (queue.count == QUEUE) {
            pthread_cond_wait(&queue.changed, &queue.mutex);
        }
        queue.waiting[(queue.first + queue.count++) % QUEUE] = request;
        pthread_cond_signal(&queue.changed);
        pthread_mutex_unlock(&queue.mutex);
    }
    ps_ring_destroy(ring); /* queued requests remain valid */
    pthread_join(thread, NULL);
    return total == expected ? 0 : 1;
}
