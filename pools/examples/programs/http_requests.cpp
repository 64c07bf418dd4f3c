// SPDX-License-Identifier: MIT
// A server's parser of HTTP requests, of which 256 are under way at a time: the line, headers,
// cookies, and fields of query and form, decoded. Each is answered, and forgotten when its
// connection gets the next one.
//
//     malloc   std::string and std::vector, each with its own blocks
//     pmr      the same on a monotonic resource per connection, with a first buffer of 4 KiB
//     pools    a region per connection: texts are std::string_view of it, lists are vectors whose
//              memory it frees; reset for the next request
#include "variants.hpp"

#include <memory_resource>
#include <optional>
#include <poolshim/adapters.hpp>
#include <poolshim/region.hpp>
#include <string>
#include <vector>

namespace {

using std::string_view;

struct MallocMemory {
    using Text = std::string;
    template <class T> using List = std::vector<T>;

    Text copy(string_view text) { return Text(text); }
    // A text of at most `most` bytes that write(char *) writes; it returns how many.
    template <class Write> Text write(std::size_t most, Write write) {
        Text text(most, '\0');
        text.resize(write(text.data()));
        return text;
    }
    template <class T> List<T> list() { return {}; }
    void reset() {}
};

class PmrMemory {
  public:
    using Text = std::pmr::string;
    template <class T> using List = std::pmr::vector<T>;

    PmrMemory() = default;
    PmrMemory(const PmrMemory &) = delete;
    Text copy(string_view text) { return Text(text, &resource_); }
    template <class Write> Text write(std::size_t most, Write write) {
        Text text(most, '\0', &resource_);
        text.resize(write(text.data()));
        return text;
    }
    template <class T> List<T> list() { return List<T>(&resource_); }
    void reset() { resource_.release(); }

  private:
    char first_[4096];
    std::pmr::monotonic_buffer_resource resource_{first_, sizeof(first_)};
};

class PoolMemory {
  public:
    using Text = string_view;
    template <class T> using List = std::vector<T, ps::allocator<T, ps::no_free<ps::region_ref>>>;

    Text copy(string_view text) { return region_.copy(text); }
    template <class Write> Text write(std::size_t most, Write write) {
        return region_.write_text(most, write);
    }
    template <class T> List<T> list() { return List<T>(no_free_); }
    void reset() { region_.reset(); }

  private:
    ps::region region_;
    ps::no_free<ps::region_ref> no_free_{region_};
};

template <class Memory> struct Field {
    typename Memory::Text name;
    typename Memory::Text value;
};

template <class Memory> struct Request {
    using Fields = typename Memory::template List<Field<Memory>>;
    typename Memory::Text method;
    typename Memory::Text path;
    Fields headers; // names in lower case
    Fields cookies;
    Fields fields; // of query and form
};

// --- Parsing ------------------------------------------------------------------------------------

// Takes the text before `end` off the rest, and `end` too; all of it if there is none.
string_view take(string_view &rest, string_view end) {
    std::size_t length = rest.find(end);
    string_view taken = rest.substr(0, length);
    rest.remove_prefix(length == string_view::npos ? rest.size() : length + end.size());
    return taken;
}

int digit_of(char letter) { return letter <= '9' ? letter - '0' : (letter | 0x20) - 'a' + 10; }

std::size_t decode_to(char *out, string_view text) {
    char *at = out;
    for (std::size_t i = 0; i < text.size(); i++) {
        if (text[i] == '%' && i + 2 < text.size()) {
            *at++ = static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
            i += 2;
        } else {
            *at++ = text[i] == '+' ? ' ' : text[i];
        }
    }
    return static_cast<std::size_t>(at - out);
}

template <class Memory> typename Memory::Text decoded(Memory &memory, string_view text) {
    return memory.write(text.size(), [text](char *out) { return decode_to(out, text); });
}

template <class Memory> typename Memory::Text lower(Memory &memory, string_view text) {
    return memory.write(text.size(), [text](char *out) {
        for (std::size_t i = 0; i < text.size(); i++) {
            out[i] = static_cast<char>(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 0x20 : text[i]);
        }
        return text.size();
    });
}

template <class Memory, class Fields>
void parse_fields(Memory &memory, string_view rest, Fields &fields) {
    while (!rest.empty()) {
        string_view value = take(rest, "&");
        string_view name = take(value, "=");
        fields.push_back({decoded(memory, name), decoded(memory, value)});
    }
}

template <class Memory> Request<Memory> parse(Memory &memory, string_view rest) {
    auto list = [&memory] { return memory.template list<Field<Memory>>(); };
    string_view method = take(rest, " ");
    string_view query = take(rest, " ");
    string_view path = take(query, "?");
    Request<Memory> request{memory.copy(method), decoded(memory, path), list(), list(), list()};
    take(rest, "\r\n"); // the version
    parse_fields(memory, query, request.fields);
    while (!rest.empty()) {
        string_view value = take(rest, "\r\n");
        if (value.empty()) {
            break;
        }
        string_view name = take(value, ": ");
        request.headers.push_back({lower(memory, name), memory.copy(value)});
        if (string_view(request.headers.back().name) != "cookie") {
            continue;
        }
        while (!value.empty()) {
            string_view cookie = take(value, "; ");
            string_view key = take(cookie, "=");
            request.cookies.push_back({memory.copy(key), memory.copy(cookie)});
        }
    }
    parse_fields(memory, rest, request.fields);
    return request;
}

// --- What the server does with it
// -----------------------------------------------------------------

template <class Fields> std::uint64_t hash_of(const Fields &fields, std::uint64_t from) {
    for (const auto &field : fields) {
        from = variants::hash(field.value, variants::hash(field.name, from));
    }
    return from;
}

template <class Memory> std::uint64_t hash_of(const Request<Memory> &request) {
    return hash_of(request.fields, hash_of(request.cookies, variants::hash(request.path)));
}

// The page: each field on a line.
template <class Memory>
typename Memory::Text answer(Memory &memory, const Request<Memory> &request) {
    constexpr string_view HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    std::size_t bytes = HEAD.size();
    for (const auto &field : request.fields) {
        bytes += field.name.size() + field.value.size() + 2;
    }
    return memory.write(bytes, [&](char *out) {
        char *at = out + HEAD.copy(out, HEAD.size());
        for (const auto &field : request.fields) {
            at += field.name.copy(at, field.name.size());
            *at++ = '=';
            at += field.value.copy(at, field.value.size());
            *at++ = '\n';
        }
        return static_cast<std::size_t>(at - out);
    });
}

template <class Memory> struct Connection {
    Memory memory;
    std::optional<Request<Memory>> request;
};

// --- The work
// -------------------------------------------------------------------------------------

struct Sample {
    std::string text;
    std::uint64_t expected; // hash_of the encoded text
};

std::string word(variants::Random &random, std::uint32_t longest) {
    std::string made(1 + random.below(longest), ' ');
    for (char &letter : made) {
        letter = "abcdefghijklmnop/ &=%"[random.below(21)];
    }
    return made;
}

std::string encoded(const std::string &text) {
    std::string made;
    for (char letter : text) {
        char code[4];
        std::snprintf(code, sizeof(code), "%%%02X", static_cast<unsigned char>(letter));
        made += letter == ' ' ? "+" : letter >= 'a' ? std::string(1, letter) : code;
    }
    return made;
}

// `count` pairs, encoded, with commas of their own; their hash goes to *hash.
std::string pairs(variants::Random &random, unsigned count, std::uint64_t *hash) {
    std::string made;
    for (unsigned i = 0; i < count; i++) {
        std::string name = word(random, 12);
        std::string value = word(random, 48);
        *hash = variants::hash(value, variants::hash(name, *hash));
        made += (i == 0 ? "" : "&") + encoded(name) + "=" + encoded(value);
    }
    return made;
}

Sample make_sample(variants::Random &random) {
    std::string path = "/" + word(random, 40);
    Sample made{"", variants::hash(path)};
    std::string cookies;
    for (char name : string_view("abcd")) {
        std::string value(20 + random.below(30), name);
        made.expected = variants::hash(value, variants::hash(string_view(&name, 1), made.expected));
        cookies += (cookies.empty() ? "" : "; ") + std::string(1, name) + "=" + value;
    }
    std::string query = pairs(random, 1 + random.below(6), &made.expected);
    std::string form = pairs(random, 1 + random.below(8), &made.expected);
    made.text = "POST " + encoded(path) + "?" + query + " HTTP/1.1\r\nHost: www.example.org\r\n" +
                "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101\r\n" +
                "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
                "Accept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n" +
                "Content-Type: application/x-www-form-urlencoded\r\nDNT: 1\r\n" +
                "Connection: keep-alive\r\nCookie: " + cookies + "\r\n" +
                "Content-Length: " + std::to_string(form.size()) + "\r\n\r\n" + form;
    return made;
}

// A round is 1000 requests.
template <class Memory> std::uint64_t serve(unsigned rounds) {
    constexpr std::size_t SAMPLES = 64;
    constexpr std::size_t CONNECTIONS = 256;
    variants::Random random(1);
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < SAMPLES; i++) {
        samples.push_back(make_sample(random));
    }
    std::vector<Connection<Memory>> connections(CONNECTIONS);
    std::uint64_t result = 0;
    for (std::size_t i = 0; i < rounds * std::size_t{1000}; i++) {
        const Sample &sample = samples[i % SAMPLES];
        Connection<Memory> &connection = connections[random.below(CONNECTIONS)];
        connection.request.reset();
        connection.memory.reset();
        connection.request.emplace(parse(connection.memory, sample.text));
        variants::require(hash_of(*connection.request) == sample.expected, "a request");
        auto page = answer(connection.memory, *connection.request);
        result = result * 31 + page.size();
    }
    return result;
}

} // namespace

int main(int argc, char **argv) {
    return variants::main(argc, argv, {serve<MallocMemory>, serve<PmrMemory>, serve<PoolMemory>},
                          2);
}
