// SPDX-License-Identifier: MIT
// The book of an exchange: orders to buy and to sell at a price, matched first in, first out, and
// cancelled by number. An order belongs to the book and to the reports of its trades, which a
// client reads later, when the order may have left the book.
//
//     malloc   std::shared_ptr by make_shared; std::map and std::unordered_map
//     pmr      std::allocate_shared, the containers too, on a pool resource
//     pools    ps::intrusive_pool with its counted references; the containers on ps::size_pools
#include "variants.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <poolshim/adapters.hpp>
#include <poolshim/intrusive.hpp>
#include <poolshim/pools.hpp>
#include <unordered_map>
#include <vector>

namespace {

using Price = std::uint32_t;
using Number = std::uint64_t;
enum Side { BUY, SELL };

struct Terms {
    Number number;
    Side side;
    Price price;
    std::uint32_t quantity;
};

// Base: what a variant adds to its orders.
template <class Base> struct OrderOf : Base {
    explicit OrderOf(const Terms &of) : terms(of) {}
    Terms terms;
    OrderOf *next = nullptr; // of the same price
    OrderOf *previous = nullptr;
    char client[32] = {};
};

// --- Where orders and the nodes of containers come from
// -------------------------------------------

struct Nothing {};

struct MallocMemory {
    using Order = OrderOf<Nothing>;
    using Reference = std::shared_ptr<Order>;
    template <class K, class T, class Less> using Map = std::map<K, T, Less>;
    template <class K, class T> using Table = std::unordered_map<K, T>;

    Reference make(const Terms &terms) { return std::make_shared<Order>(terms); }
    template <class Container> Container container() { return Container(); }
};

class PmrMemory {
  public:
    using Order = OrderOf<Nothing>;
    using Reference = std::shared_ptr<Order>;
    template <class K, class T, class Less> using Map = std::pmr::map<K, T, Less>;
    template <class K, class T> using Table = std::pmr::unordered_map<K, T>;

    Reference make(const Terms &terms) {
        return std::allocate_shared<Order>(std::pmr::polymorphic_allocator<Order>(&pool_), terms);
    }
    template <class Container> Container container() { return Container(&pool_); }

  private:
    std::pmr::unsynchronized_pool_resource pool_;
};

class PoolMemory {
  public:
    using Order = OrderOf<ps::intrusive_item<>>;
    using Reference = ps::ref<Order>;
    template <class T> using Allocator = ps::allocator<T, ps::size_pools>;
    template <class K, class T, class Less>
    using Map = std::map<K, T, Less, Allocator<std::pair<const K, T>>>;
    template <class K, class T>
    using Table =
        std::unordered_map<K, T, std::hash<K>, std::equal_to<K>, Allocator<std::pair<const K, T>>>;

    Reference make(const Terms &terms) { return orders_.allocate(terms); }
    template <class Container> Container container() {
        return Container(typename Container::allocator_type(nodes_));
    }

  private:
    ps::intrusive_pool<Order> orders_;
    ps::size_pools nodes_;
};

// --- The book
// -------------------------------------------------------------------------------------

// The orders of a price, oldest first. Owns none.
template <class Order> class Level {
  public:
    Order *oldest() const { return oldest_; }
    bool empty() const { return oldest_ == nullptr; }
    void append(Order *order) {
        order->previous = newest_;
        (newest_ != nullptr ? newest_->next : oldest_) = order;
        newest_ = order;
    }
    void remove(Order *order) {
        (order->previous != nullptr ? order->previous->next : oldest_) = order->next;
        (order->next != nullptr ? order->next->previous : newest_) = order->previous;
    }

  private:
    Order *oldest_ = nullptr;
    Order *newest_ = nullptr;
};

template <class Memory> class Book {
  public:
    using Order = typename Memory::Order;
    using Reference = typename Memory::Reference;

    // Matches the order with those of the other side, and enters the rest. trade(Reference &,
    // quantity) is called for each order of the book that it meets.
    template <class Trade> void enter(Terms terms, Trade trade) {
        if (terms.side == BUY) {
            match(
                asks_, terms, [&](Price price) { return price <= terms.price; }, trade);
        } else {
            match(
                bids_, terms, [&](Price price) { return price >= terms.price; }, trade);
        }
        if (terms.quantity == 0) {
            return;
        }
        Reference order = memory_.make(terms);
        if (terms.side == BUY) {
            bids_[terms.price].append(order.get());
        } else {
            asks_[terms.price].append(order.get());
        }
        orders_.emplace(terms.number, std::move(order));
    }

    // The quantity that was left; 0: it has been traded or cancelled.
    std::uint32_t cancel(Number number) {
        auto found = orders_.find(number);
        if (found == orders_.end()) {
            return 0;
        }
        Order *order = found->second.get();
        std::uint32_t left = order->terms.quantity;
        if (order->terms.side == BUY) {
            leave(bids_, order);
        } else {
            leave(asks_, order);
        }
        orders_.erase(found);
        return left;
    }

    std::uint64_t quantity() const {
        std::uint64_t sum = 0;
        for (const auto &[number, order] : orders_) {
            sum += order->terms.quantity;
        }
        return sum;
    }
    bool is_crossed() const {
        return !bids_.empty() && !asks_.empty() && bids_.begin()->first >= asks_.begin()->first;
    }

  private:
    template <class Less> using Side = typename Memory::template Map<Price, Level<Order>, Less>;
    using Orders = typename Memory::template Table<Number, Reference>;

    template <class Levels, class IsMet, class Trade>
    void match(Levels &levels, Terms &terms, IsMet is_met, Trade &trade) {
        while (terms.quantity != 0 && !levels.empty() && is_met(levels.begin()->first)) {
            Order *order = levels.begin()->second.oldest();
            std::uint32_t traded = std::min(terms.quantity, order->terms.quantity);
            terms.quantity -= traded;
            order->terms.quantity -= traded;
            auto found = orders_.find(order->terms.number);
            trade(found->second, traded);
            if (order->terms.quantity == 0) {
                leave(levels, order);
                orders_.erase(found);
            }
        }
    }
    template <class Levels> void leave(Levels &levels, Order *order) {
        auto level = levels.find(order->terms.price);
        level->second.remove(order);
        if (level->second.empty()) {
            levels.erase(level);
        }
    }

    Memory memory_;
    Side<std::greater<Price>> bids_ = memory_.template container<Side<std::greater<Price>>>();
    Side<std::less<Price>> asks_ = memory_.template container<Side<std::less<Price>>>();
    Orders orders_ = memory_.template container<Orders>();
};

// --- The work
// -------------------------------------------------------------------------------------

struct Totals {
    std::uint64_t entered = 0, traded = 0, cancelled = 0, reported = 0;
};

template <class Memory> class Exchange {
  public:
    // An order at a price near the middle, or the end of one of the last 65,536.
    void step() {
        Number number = ++newest_;
        if (number > 1000 && random_.below(100) < 45) {
            totals_.cancelled += book_.cancel(number - 1 - random_.below(WINDOW));
            return;
        }
        Terms terms{number, random_.below(2) == 0 ? BUY : SELL, 0, 1 + random_.below(100)};
        std::uint32_t off = random_.below(200);
        terms.price = terms.side == BUY ? 10010 - off : 9990 + off;
        totals_.entered += terms.quantity;
        book_.enter(terms, [&](const auto &order, std::uint32_t traded) { report(order, traded); });
    }

    std::uint64_t result() {
        for (std::size_t i = 0; i < REPORTS; i++) {
            read(reports_[i]);
        }
        variants::require(!book_.is_crossed(), "an order that should have been traded");
        variants::require(totals_.reported == totals_.traded, "a report was lost");
        variants::require(totals_.entered ==
                              2 * totals_.traded + totals_.cancelled + book_.quantity(),
                          "quantities do not add up");
        return variants::hash(std::to_string(totals_.traded), totals_.cancelled);
    }

  private:
    using Reference = typename Memory::Reference;
    struct Report {
        Reference order;
        std::uint32_t traded = 0;
    };
    static constexpr std::uint32_t WINDOW = 65536;
    static constexpr std::size_t REPORTS = 256; // that the client has not read

    void report(const Reference &order, std::uint32_t traded) {
        totals_.traded += traded;
        Report &oldest = reports_[report_count_++ % REPORTS];
        read(oldest);
        oldest = {order, traded};
    }
    void read(Report &report) {
        if (report.order) {
            totals_.reported += report.traded;
            report = {};
        }
    }

    Book<Memory> book_;
    std::array<Report, REPORTS> reports_;
    std::size_t report_count_ = 0;
    variants::Random random_{3};
    Number newest_ = 0;
    Totals totals_;
};

// A round is 10,000 orders and cancellations.
template <class Memory> std::uint64_t trade(unsigned rounds) {
    Exchange<Memory> exchange;
    for (std::uint64_t i = 0; i < rounds * std::uint64_t{10000}; i++) {
        exchange.step();
    }
    return exchange.result();
}

} // namespace

int main(int argc, char **argv) {
    return variants::main(argc, argv, {trade<MallocMemory>, trade<PmrMemory>, trade<PoolMemory>},
                          3);
}
