/* SPDX-License-Identifier: MIT */
/*
 * operator new while system calls fail: the handler is asked first, then bad_alloc is thrown, the
 * nothrow forms give null, and a container that could not grow is as it was.
 */
#include "blocks.h"
#include "marker.h"

#include <memory>
#include <new>
#include <vector>

namespace {

constexpr std::size_t slot_count = 64;
constexpr std::size_t steps = 1000;

struct alignas(4096) page_object {
    unsigned char bytes[200 * 1024];
};

struct block blocks[slot_count];
std::size_t refused_count;
std::size_t handler_count;
std::size_t handler_limit; // so often the handler frees something; then it gives up

/* Frees a block if it may; else lets bad_alloc be thrown, as the default would. */
void handler() {
    handler_count++;
    if (handler_limit-- == 0) {
        throw std::bad_alloc();
    }
    block_end(&blocks[handler_count % slot_count]);
}

void *raw_new(std::size_t bytes, uint64_t kind) {
    switch (kind % 6) {
    case 0:
        return ::operator new(bytes);
    case 1:
        return ::operator new[](bytes);
    case 2:
        return ::operator new(bytes, std::align_val_t{64});
    case 3:
        return ::operator new[](bytes, std::align_val_t{4096});
    case 4:
        return ::operator new(bytes, std::nothrow);
    default:
        return ::operator new(bytes, std::align_val_t{4096}, std::nothrow);
    }
}

/* Null: refused, by an exception or by null, whichever the form is for. */
void *refusable_new(std::size_t bytes, uint64_t kind) {
    std::size_t handlers_before = handler_count;
    handler_limit = kind % 3;
    bool is_nothrow = kind % 6 >= 4;
    void *address = nullptr;
    bool has_thrown = false;
    try {
        address = raw_new(bytes, kind);
    } catch (const std::bad_alloc &) {
        has_thrown = true;
    }
    CLAIM(is_nothrow ? !has_thrown : has_thrown == (address == nullptr));
    if (address == nullptr) {
        CLAIM(handler_count > handlers_before); // no refusal that the handler was not asked about
        refused_count++;
        blocks_check(blocks, slot_count);
    }
    return address;
}

void use_container(std::vector<std::unique_ptr<page_object>> &pages) {
    std::size_t before = pages.size();
    handler_limit = 0;
    try {
        auto page = std::make_unique<page_object>();
        page->bytes[1] = static_cast<unsigned char>(before);
        pages.push_back(std::move(page));
        CLAIM(claim_is_aligned(pages.back().get(), 4096));
    } catch (const std::bad_alloc &) {
        refused_count++;
        CLAIM(pages.size() == before);
        pages.clear();
        pages.shrink_to_fit();
    }
    for (std::size_t i = 0; i < pages.size(); i++) {
        CLAIM(pages[i]->bytes[1] == static_cast<unsigned char>(i));
    }
}

void run_load() {
    uint64_t random = 2026;
    std::vector<std::unique_ptr<page_object>> pages;
    for (std::size_t step = 0; step < steps; step++) {
        struct block *block = &blocks[block_random(&random) % slot_count];
        std::size_t bytes = block_random(&random) % (block_random(&random) % (2 * MIB) + 1);
        if (step % 16 == 0) {
            use_container(pages);
        } else if (block->address != nullptr) {
            block_end(block);
        } else {
            void *address = refusable_new(bytes, block_random(&random));
            block_end(block); // the handler may have been here
            *block = {static_cast<unsigned char *>(address), bytes, step};
            if (address != nullptr) {
                block_fill(block);
            }
        }
        if (pages.size() > 20) {
            pages.clear();
        }
    }
    for (auto &block : blocks) {
        block_end(&block);
    }
}

} // namespace

int main() {
    std::set_new_handler(handler);
    (void)marker_say(MARKER_BEGIN);
    run_load();
    long faults = marker_say(MARKER_END);
    std::size_t refused_by_faults = refused_count;
    CLAIM(faults > 0 || refused_count == 0);
    run_load();
    CLAIM(refused_count == refused_by_faults);
    dprintf(1, "refused %zu\nrss_kib %zu\n", refused_count, claim_rss_bytes() / KIB);
    return 0;
}
