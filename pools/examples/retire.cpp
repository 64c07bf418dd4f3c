// SPDX-License-Identifier: MIT
// A stack that threads push to and pop from without a lock. Its nodes come from a pool and return
// to it when no thread can read them any more, so the stack needs no counter against ABA.
#include <atomic>
#include <cstdio>
#include <poolshim/bounded.hpp>
#include <poolshim/retire.hpp>
#include <thread>
#include <vector>

class stack {
  public:
    // False: the pool is exhausted.
    bool push(int value) {
        node *fresh = pool_.create(node{value, head_.load(std::memory_order_relaxed)});
        while (fresh != nullptr &&
               !head_.compare_exchange_weak(fresh->next, fresh, std::memory_order_release,
                                            std::memory_order_relaxed)) {
        }
        return fresh != nullptr;
    }

    // False: the stack is empty.
    bool pop(int *value) {
        node *top;
        {
            ps::retire_scope scope(domain_);
            top = head_.load(std::memory_order_acquire);
            while (top != nullptr &&
                   !head_.compare_exchange_weak(top, top->next, std::memory_order_acq_rel,
                                                std::memory_order_acquire)) {
            }
        }
        if (top == nullptr) {
            return false;
        }
        *value = top->value;
        while (!domain_.retire(top, pool_)) {
            std::this_thread::yield();
        }
        return true;
    }

  private:
    struct node {
        int value;
        node *next;
    };
    ps::bounded<node> pool_{10000};
    ps::retire_domain domain_; // ends before the pool
    std::atomic<node *> head_{nullptr};
};

int main() {
    static stack values;
    std::atomic<long> sum{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++) {
        threads.emplace_back([&] {
            for (int i = 1; i <= 5000; i++) {
                sum += values.push(i) ? i : 0;
                int value = 0;
                sum -= i % 2 == 0 && values.pop(&value) ? value : 0;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (int value = 0; values.pop(&value);) {
        sum -= value;
    }
    std::printf("difference %ld\n", sum.load());
    return sum == 0 ? 0 : 1;
}
