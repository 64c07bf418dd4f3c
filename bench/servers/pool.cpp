// SPDX-License-Identifier: MIT
// A server in C++: 16 threads, or as many as it is told, take requests of one queue. A request is
// parsed into strings and maps, stored as a session that another thread ends later, and answered
// from a buffer of up to 64 KiB that the thread which writes answers frees. When the load ends
// seven sessions of eight expire, then nothing happens until standard input ends.
//
//     pool REQUESTS [THREADS]
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr unsigned long THREADS = 16;
constexpr unsigned long THREAD_LIMIT = 1024;
constexpr std::size_t SESSIONS = 4000;
constexpr std::size_t QUEUED = 256;

struct Session {
    std::map<std::string, std::string> fields;
    std::vector<std::string> lines;
};

// A queue of at most QUEUED; take() is empty when it is closed.
template <class Item> class Queue {
  public:
    void put(Item item) {
        std::unique_lock<std::mutex> lock(mutex_);
        has_room_.wait(lock, [this] { return items_.size() < QUEUED; });
        items_.push_back(std::move(item));
        has_items_.notify_one();
    }

    std::unique_ptr<Item> take() {
        std::unique_lock<std::mutex> lock(mutex_);
        has_items_.wait(lock, [this] { return !items_.empty() || is_closed_; });
        if (items_.empty()) {
            return nullptr;
        }
        auto item = std::make_unique<Item>(std::move(items_.front()));
        items_.pop_front();
        has_room_.notify_one();
        return item;
    }

    void close() {
        std::lock_guard<std::mutex> lock(mutex_);
        is_closed_ = true;
        has_items_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable has_items_, has_room_;
    std::deque<Item> items_;
    bool is_closed_ = false;
};

class Sessions {
  public:
    // Takes the place of an older one, which the caller then frees: seldom the thread that made it.
    std::unique_ptr<Session> put(std::size_t key, std::unique_ptr<Session> session) {
        std::lock_guard<std::mutex> lock(mutex_);
        std::swap(table_[key % SESSIONS], session);
        return session;
    }

    // All but one in eight go.
    void expire() {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto place = table_.begin(); place != table_.end();) {
            place = place->first % 8 == 0 ? std::next(place) : table_.erase(place);
        }
    }

  private:
    std::mutex mutex_;
    std::unordered_map<std::size_t, std::unique_ptr<Session>> table_;
};

using Answer = std::unique_ptr<std::vector<char>>;

Queue<std::string> requests;
Queue<Answer> answers;
Sessions sessions;

std::string make_request(std::mt19937 &random) {
    std::string text = "id=" + std::to_string(random() % 100000);
    for (unsigned i = random() % 30; i > 0; i--) {
        text += ";name" + std::to_string(i) + "=" + std::string(random() % 200, 'v');
    }
    return text;
}

std::unique_ptr<Session> parse(const std::string &text) {
    auto session = std::make_unique<Session>();
    for (std::size_t at = 0; at < text.size();) {
        std::size_t end = std::min(text.find(';', at), text.size());
        std::string field = text.substr(at, end - at);
        std::size_t sign = field.find('=');
        session->fields[field.substr(0, sign)] = field.substr(sign + 1);
        session->lines.push_back(std::move(field));
        at = end + 1;
    }
    return session;
}

void work(unsigned seed) {
    std::mt19937 random(seed);
    while (auto text = requests.take()) {
        auto session = parse(*text);
        auto answer = std::make_unique<std::vector<char>>();
        std::size_t wanted = std::size_t{64} << random() % 11;
        while (answer->size() < wanted) {
            for (const auto &[name, value] : session->fields) {
                answer->insert(answer->end(), name.begin(), name.end());
                answer->insert(answer->end(), value.begin(), value.end());
            }
        }
        sessions.put(random(), std::move(session));
        answers.put(std::move(answer));
    }
}

void write_answers(std::size_t expected) {
    for (std::size_t i = 0; i < expected; i++) {
        auto answer = answers.take();
        if ((*answer)->empty()) {
            std::fputs("pool: an empty answer\n", stderr);
            std::exit(1);
        }
    }
}

} // namespace

int main(int argc, char **argv) {
    std::size_t count = argc == 2 || argc == 3 ? std::strtoull(argv[1], nullptr, 10) : 0;
    unsigned long threads = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : THREADS;
    if (count == 0 || threads == 0 || threads > THREAD_LIMIT) {
        std::fputs("usage: pool REQUESTS [THREADS]\n", stderr);
        return 2;
    }
    std::thread writer(write_answers, count);
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads; i++) {
        workers.emplace_back(work, i);
    }
    std::mt19937 random(1);
    for (std::size_t i = 0; i < count; i++) {
        requests.put(make_request(random));
    }
    writer.join();
    sessions.expire();
    std::puts("load ended");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    requests.close();
    for (auto &worker : workers) {
        worker.join();
    }
    return 0;
}
