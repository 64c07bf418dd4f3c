// SPDX-License-Identifier: MIT
// A work queue: threads take jobs from a list that is guarded by a mutex; the jobs themselves come
// from a pool that bounds how many there are, without a lock.
#include <cstdio>
#include <mutex>
#include <poolshim/bounded.hpp>
#include <thread>
#include <vector>

struct job {
    explicit job(int n) : number(n) {}
    int number;
};
using jobs = ps::bounded<job>;

int main() {
    jobs pool(100);
    std::mutex mutex;
    std::vector<jobs::pointer> queue; // owners: a job ends where it is done
    bool is_over = false;
    long sum = 0;
    std::vector<std::thread> workers;
    for (int i = 0; i < 3; i++) {
        workers.emplace_back([&] {
            for (;;) {
                std::lock_guard<std::mutex> lock(mutex);
                if (!queue.empty()) {
                    jobs::pointer mine = std::move(queue.back());
                    queue.pop_back();
                    sum += mine->number;
                } else if (is_over) {
                    return;
                }
            }
        });
    }
    int refused = 0;
    for (int number = 1; number <= 1000;) {
        jobs::pointer made = pool.make(number);
        if (!made) { // all are in the queue or in the caches of workers
            refused++;
            std::this_thread::yield();
            continue;
        }
        number++;
        std::lock_guard<std::mutex> lock(mutex);
        queue.push_back(std::move(made));
    }
    {
        std::lock_guard<std::mutex> lock(mutex);
        is_over = true;
    }
    for (std::thread &worker : workers) {
        worker.join();
    }
    std::printf("sum %ld, refused %d times\n", sum, refused);
    return sum == 500500 && pool.stats().used_count == 0 ? 0 : 1;
}
