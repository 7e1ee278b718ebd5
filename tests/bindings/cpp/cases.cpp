// SPDX-License-Identifier: BSD-2-Clause
//
// What redlock.hpp does on real servers; test_cpp.py compiles it as C++17 and as C++20, starts the
// servers, and runs each case. usage: cases CASE NODES
#include <redlock.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <poll.h>
#include <thread>
#include <type_traits>
#include <unistd.h>

using namespace std::chrono_literals;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::cerr << __FILE__ << ":" << __LINE__ << ": not so: " #condition "\n";              \
            std::_Exit(1);                                                                         \
        }                                                                                          \
    } while (0)

static redlock::ClientOptions patient() {
    redlock::ClientOptions options;
    options.node_timeout_ms = 500;
    return options;
}

static redlock::LockOptions with_ttl(std::chrono::milliseconds ttl) {
    redlock::LockOptions options;
    options.ttl_ms = ttl.count();
    return options;
}

template <class Failure, class Act> static std::string refused(Act act) {
    try {
        act();
    } catch (const Failure &failure) {
        return failure.what();
    } catch (const std::exception &other) {
        std::cerr << "another failure: " << other.what() << "\n";
    }
    std::cerr << "it did not fail\n";
    std::_Exit(1);
}

static void exclusive(const char *nodes) {
    static_assert(!std::is_copy_constructible_v<redlock::Lock> &&
                  !std::is_copy_assignable_v<redlock::Lock>);
    static_assert(std::is_nothrow_move_constructible_v<redlock::Lock>);
    redlock::Client client(nodes, patient()), other(std::string(nodes), patient());
    {
        auto lock = client.acquire("it", with_ttl(10s));
        CHECK(lock.held() && lock.validity() > 5s && lock.token().size() == 40);
        CHECK(!other.try_acquire("it"));
        auto moved = std::move(lock);
        CHECK(moved.held() && !other.try_acquire("it"));
        const auto text = refused<redlock::Held>([&] { other.acquire("it", {}, 100ms); });
        CHECK(text == "it: held by another");
        refused<redlock::Held>([&] { other.acquire("it", {}, -1ms); });
        moved.extend(20s);
        CHECK(moved.validity() > 15s);
        moved = other.acquire("other"); // what it had is released
        CHECK(other.acquire("it", {}, 5s).held());
    }
    auto both = with_ttl(10s);
    both.also = {"other"};
    auto lock = client.acquire("it", both, 5s);
    CHECK(!other.try_acquire("other"));
    lock.release();
    CHECK(other.acquire("other", {}, 0ms).held()); // the release has waited
    CHECK(refused<redlock::Lost>([&] { lock.release(); }).find("it, other: ") == 0);
}

static void kinds(const char *nodes) { // guarded
    redlock::Client client(nodes, patient());
    redlock::LockOptions reader, slot, elected;
    reader.shared = 1;
    slot.slots = 2;
    elected.leader = 1;
    elected.owner = "me";
    auto lock = client.acquire("it");
    const auto fence = lock.fence();
    CHECK(fence > 0);
    lock.downgrade();
    CHECK(client.acquire("it", reader, 0ms).fence() >= fence);
    lock.release();
    CHECK(client.acquire("it").fence() > fence);
    auto first = client.acquire("desk", slot), second = client.acquire("desk", slot);
    CHECK(first.slot() + second.slot() == 3);
    CHECK(!client.try_acquire("desk", slot));
    CHECK(client.acquire("leader", elected).token().substr(40) == ":me");
}

static void wrong(const char *nodes) {
    CHECK(refused<redlock::Error>([] { redlock::Client("nowhere://"); }).find("nowhere") !=
          std::string::npos);
    redlock::Client client(nodes);
    auto options = with_ttl(1ms);
    try {
        client.acquire("it", options);
        CHECK(false);
    } catch (const redlock::Error &error) {
        CHECK(error.result == REDLOCK_BAD_ARGUMENT && std::strstr(error.what(), "ttl"));
    }
}

static void down(const char *nodes) { // two of three servers
    redlock::Client client(nodes);
    redlock_client_wait_ready(client.get(), 3000);
    try {
        client.acquire("it", {}, 100ms);
        CHECK(false);
    } catch (const redlock::NoQuorum &error) {
        CHECK(std::strstr(error.what(), "it: no quorum: 1 of 3 nodes answered, 2 needed ("));
        CHECK(error.cure.find("start it") != std::string::npos);
    }
}

static void lost(const char *nodes) { // the servers lose it when this has said so
    std::atomic<bool> reported{false};
    redlock::Client client(nodes, patient());
    auto options = with_ttl(900ms);
    options.on_lost = [&] { reported = true; };
    auto lock = client.acquire("it", options);
    std::cout << "held" << std::endl;
    std::getchar();
    for (int i = 0; i < 1000 && !reported; i++) std::this_thread::sleep_for(10ms);
    CHECK(reported && !lock.held());
    refused<redlock::Lost>([&] { lock.extend(); });
    refused<redlock::Lost>([&] { lock.release(); });
    std::optional<redlock::Lock> ends_in_its_callback;
    options.on_lost = [&] {
        ends_in_its_callback.reset();
        reported = true;
    };
    options.renew = 0;
    reported = false;
    ends_in_its_callback = client.acquire("it", options);
    for (int i = 0; i < 1000 && !reported; i++) std::this_thread::sleep_for(10ms);
    CHECK(reported && !ends_in_its_callback);
}

static void outlives(const char *nodes) {
    std::optional<redlock::Client> client(std::in_place, nodes, patient());
    auto lock = client->acquire("it", with_ttl(600ms));
    client.reset();
    std::this_thread::sleep_for(1500ms);
    CHECK(lock.held());
    lock.release();
}

#ifdef __cpp_impl_coroutine
struct Task {
    struct promise_type {
        Task get_return_object() {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

static void run(redlock::Client &client, const Task &task) {
    for (int i = 0; i < 1000 && !task.handle.done(); i++) {
        pollfd readable{client.fd(), POLLIN, 0};
        poll(&readable, 1, 10);
        client.process();
    }
    CHECK(task.handle.done());
    task.handle.destroy();
}

static Task holds(redlock::Client &client, std::thread::id here) {
    for (int i = 0; i < 20; i++) {
        auto lock = co_await client.async_acquire("it", with_ttl(5s));
        CHECK(lock.held() && std::this_thread::get_id() == here);
        co_await lock.async_extend(20s);
        CHECK(lock.validity() > 15s);
        co_await lock.async_release();
        CHECK(!lock.held());
        try {
            co_await lock.async_release();
            CHECK(false);
        } catch (const redlock::Lost &) {
        }
    }
}

static Task gives_up(redlock::Client &client, bool &held) {
    try {
        co_await client.async_acquire("it", {}, 100ms);
        CHECK(false);
    } catch (const redlock::Held &) {
        held = true;
    }
}

static Task waits(redlock::Client &client, bool &got) {
    auto lock = co_await client.async_acquire("it");
    got = true;
}

static Task releases(redlock::Lock &lock) { co_await lock.async_release(); }

static void coroutines(const char *nodes) {
    auto options = patient();
    options.queue = 1;
    redlock::Client client(nodes, options), other(nodes, patient());
    run(client, holds(client, std::this_thread::get_id()));
    bool held = false, got = false;
    auto lock = other.acquire("it");
    run(client, gives_up(client, held));
    CHECK(held);
    const Task abandoned = waits(client, got);
    client.process();
    abandoned.handle.destroy();
    lock.release();
    lock = client.acquire("it", {}, 5s); // nobody else has it
    CHECK(!got);
    releases(lock).handle.destroy(); // the release goes on
    CHECK(other.acquire("it", {}, 5s).held());
    for (int i = 0; i < 20; i++) client.process();
}
#else
static void coroutines(const char *) { std::exit(77); }
#endif

int main(int, char **words) {
    const struct {
        const char *name;
        void (*run)(const char *nodes);
    } cases[] = {
        {"exclusive", exclusive}, {"kinds", kinds},       {"wrong", wrong},          {"down", down},
        {"lost", lost},           {"outlives", outlives}, {"coroutines", coroutines}};
    for (const auto &each : cases) {
        if (std::strcmp(each.name, words[1]) != 0) continue;
        each.run(words[2]);
        return 0;
    }
    return 2;
}
