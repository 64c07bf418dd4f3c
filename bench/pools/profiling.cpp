// SPDX-License-Identifier: MIT
// foonathan's profiling, row by row as it prints it: nodes of 1, 4, 8 and 256 bytes, 256, 512 and
// 1024 of them, and arrays of 1, 4 and 8 nodes of 1, 4 and 8 bytes, 256 and 512 of them. 2 bytes,
// which it has not, are added. In each order: one by one (single), all before the first is freed in
// the same order (bulk), in reverse (bulk_reversed), shuffled (butterfly). Timed: the best of 1024
// samples on a fresh pool, made and destroyed outside of the time. Contestants have the names of
// its columns; poolshim's follow. nodes.cpp has the cases that the tables of ratios are
// made from.
#include "nodes.hpp"

#include <poolshim/stack.h>

#if __has_include(<foonathan/memory/memory_stack.hpp>)
#include <foonathan/memory/memory_stack.hpp>
#endif

namespace {

using nodes_bench::Order;

constexpr double SAMPLE_COUNT = 1024;

class New {
  public:
    New(std::size_t bytes, std::size_t) : bytes_(bytes) {}
    void *alloc(std::size_t length) { return ::operator new(bytes_ *length); }
    void free(void *object, std::size_t) { ::operator delete(object); }

  private:
    std::size_t bytes_;
};

#if __has_include(<foonathan/memory/memory_stack.hpp>)
// Frees nothing, as the original does through its traits.
class Stack {
  public:
    Stack(std::size_t bytes, std::size_t count) : bytes_(bytes), stack_(count * bytes + 1024) {}
    void *alloc(std::size_t length) { return stack_.allocate(bytes_ * length, 1); }
    void free(void *, std::size_t) {}

  private:
    std::size_t bytes_;
    foonathan::memory::memory_stack<> stack_;
};
#endif

class PsStack {
  public:
    PsStack(std::size_t bytes, std::size_t count) : bytes_(bytes) {
        ps_stack_options options{};
        options.chunks.first_bytes = count * bytes + 1024;
        stack_ = ps_stack_create(&options);
        contest::require(stack_);
        ps_stack_push(stack_);
    }
    PsStack(const PsStack &) = delete;
    ~PsStack() { ps_stack_destroy(stack_); }
    void *alloc(std::size_t length) { return ps_stack_alloc_aligned(stack_, bytes_ * length, 1); }
    void free(void *, std::size_t) {}

  private:
    std::size_t bytes_;
    ps_stack *stack_;
};

constexpr const char *ORDERS[] = {"single", "bulk", "bulk_reversed", "butterfly"};

struct Row {
    Order order;
    std::size_t count;
    std::size_t bytes;
    std::size_t length; // of an array; 0: nodes

    std::string name() const {
        std::string text = std::string(ORDERS[static_cast<int>(order)]) + "_" +
                           std::to_string(count) + "*" + std::to_string(bytes);
        return length == 0 ? text : text + "*" + std::to_string(length);
    }
};

template <class Pool> double sample_of(const Row &row) {
    std::size_t length = row.length == 0 ? 1 : row.length;
    Pool pool(row.bytes, row.count * length);
    return nodes_bench::sample(pool, row.order, row.count, length);
}

template <class Pool> void enter(const char *pool, const Row &row) {
    auto pass = [row](double scale) {
        double best = sample_of<Pool>(row);
        for (double i = 1; i < SAMPLE_COUNT * scale; i++) {
            best = std::min(best, sample_of<Pool>(row));
        }
        return best;
    };
    contest::Register("profiling", row.name(), pool, pass, 2);
}

void enter_all(const Row &row) {
    enter<nodes_bench::Malloc>("Heap", row);
    enter<New>("New", row);
#if __has_include(<foonathan/memory/memory_stack.hpp>)
    if (row.length == 0) {
        enter<nodes_bench::FoonathanSmall>("Small", row);
    }
    enter<nodes_bench::FoonathanNode>("Node", row);
    enter<nodes_bench::FoonathanArray>("Array", row);
    enter<Stack>("Stack", row);
#endif
    enter<nodes_bench::PsPool>("ps_pool", row);
    enter<PsStack>("ps_stack", row);
}

const bool are_entered = [] {
    for (Order order : {Order::single, Order::bulk, Order::reversed, Order::butterfly}) {
        for (std::size_t count : {256, 512, 1024}) {
            for (std::size_t bytes : {1, 2, 4, 8, 256}) {
                enter_all({order, count, bytes, 0});
            }
        }
        for (std::size_t count : {256, 512}) {
            for (std::size_t bytes : {1, 4, 8}) {
                for (std::size_t length : {1, 4, 8}) {
                    enter_all({order, count, bytes, length});
                }
            }
        }
    }
    return true;
}();

} // namespace

int main(int argc, char **argv) { return contest::main(argc, argv); }
