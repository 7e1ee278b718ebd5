/* SPDX-License-Identifier: BSD-2-Clause
 *
 * redlock.h for C++17, and its coroutines for C++20. A Lock is released when its scope ends. What
 * stands in redlock.h holds here too; get() leads to all that has no place here. */
#ifndef REDLOCK_HPP
#define REDLOCK_HPP

#include <redlock.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#ifdef __cpp_impl_coroutine
#include <coroutine>
#endif

namespace redlock {
using milliseconds = std::chrono::milliseconds;
inline constexpr auto forever = milliseconds::max();

/* what() is the sentence of redlock_why(); cure is what to do, or empty. */
class Error : public std::runtime_error {
  public:
    Error(int of, const std::string &sentence, std::string hint = {})
        : std::runtime_error(sentence), result(of), cure(std::move(hint)) {}
    const int result; /* enum redlock_result */
    const std::string cure;
};
/* Another client has the lock. */
struct Held : Error {
    using Error::Error;
};
/* Too few nodes answered. */
struct NoQuorum : Error {
    using Error::Error;
};
/* The lock is not, or no longer, ours. */
struct Lost : Error {
    using Error::Error;
};

struct ClientOptions : redlock_client_options {
    ClientOptions() : redlock_client_options() { redlock_client_options_init(this); }
};

/* A lock is renewed until its release, unless `renew` is 0. */
struct LockOptions : redlock_lock_options {
    LockOptions() : redlock_lock_options() {
        redlock_lock_options_init(this);
        renew = 1;
    }
    /* Runs where on_change does, and throws nothing. on_change itself is in use. */
    std::function<void()> on_lost;
    std::vector<std::string> also; /* more resources: all are held, or none */
};

namespace detail {
[[noreturn]] inline void fail(int result, const std::string &text, const std::string &cure = {}) {
    switch (result) {
    case REDLOCK_HELD: throw Held(result, text, cure);
    case REDLOCK_NO_QUORUM: throw NoQuorum(result, text, cure);
    case REDLOCK_LOST: throw Lost(result, text, cure);
    default: throw Error(result, text, cure);
    }
}

inline void check(int result, const redlock_error &error) {
    if (result != REDLOCK_OK) fail(result, error.text);
}

inline std::int64_t wait_ms(milliseconds wait) { /* of a time that has passed: one try */
    return wait == forever ? REDLOCK_WAIT_FOREVER : wait.count() < 0 ? 0 : wait.count();
}

/* An operation whose end resumes a coroutine. */
struct Started {
    int result = REDLOCK_OK;
#ifdef __cpp_impl_coroutine
    std::coroutine_handle<> waiter; /* none: nobody waits any more */
    static void done(void *context, redlock_lock *, int ended) noexcept {
        auto *started = static_cast<Started *>(context);
        started->result = ended;
        if (auto waiter = std::exchange(started->waiter, nullptr)) waiter.resume();
    }
#endif
};

/* Callbacks know its address. */
struct State {
    redlock_client *client = nullptr;
    redlock_lock *lock = nullptr;
    std::string name;
    std::function<void()> on_lost;
    Started operation, extension;

    State(redlock_client *of, std::string_view resource, LockOptions options)
        : client(of), name(resource), on_lost(std::move(options.on_lost)) {
        redlock_error error{};
        std::vector<redlock_bytes> resources{{resource.data(), resource.size()}};
        for (const auto &other : options.also) {
            resources.push_back({other.data(), other.size()});
            name += ", " + other;
        }
        options.on_change = changed;
        options.on_change_context = this;
        check(redlock_lock_new_multi(client, resources.data(), resources.size(), &options, &lock,
                                     &error),
              error);
    }
    State(const State &) = delete;
    State &operator=(const State &) = delete;
    ~State() { redlock_lock_free(lock); }

    static void changed(void *context, redlock_lock *, int change) noexcept {
        if (change != REDLOCK_CHANGE_LOST) return;
        const auto call = static_cast<State *>(context)->on_lost; /* it may destroy the lock */
        if (call) call();
    }
    [[noreturn]] void fail(int result) const {
        redlock_why_report why;
        redlock_why_report_init(&why);
        if (redlock_why(client, lock, result, nullptr, &why) != REDLOCK_OK)
            detail::fail(result, name + ": " + redlock_result_text(result));
        detail::fail(result, name + ": " + why.sentence, why.cure);
    }
    void check_result(int result) const {
        if (result != REDLOCK_OK) fail(result);
    }
};

#ifdef __cpp_impl_coroutine
/* co_await: begins an operation, and goes on where its `done` runs: in Client::process() with the
 * option `queue`, else on the service thread. With a queue the coroutine may be destroyed
 * meanwhile. */
template <class Start> class Operation {
  public:
    Operation(const State &state, Started &started, Start start)
        : state_(state), started_(started), start_(std::move(start)) {}
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;
    ~Operation() {
        if (waits_) started_.waiter = nullptr;
    }
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiter) {
        if (started_.waiter) state_.fail(REDLOCK_BUSY);
        waits_ = true;
        started_.waiter = waiter;
        const int result = start_(&Started::done, &started_);
        if (result == REDLOCK_OK) return true; /* it may have resumed, and be gone */
        started_.result = result;
        started_.waiter = nullptr;
        return false;
    }
    void await_resume() {
        waits_ = false;
        state_.check_result(started_.result);
    }

  private:
    const State &state_;
    Started &started_;
    Start start_;
    bool waits_ = false;
};
#endif

} // namespace detail

/* A lock that is held, until release() or the end of its scope. Moves, and is not copied. A lock
 * that was moved from has nothing but its destructor and assignment. */
class Lock {
  public:
    /* Waits until a majority has confirmed it. Throws Lost or NoQuorum if the lock was not surely
     * held until now; it is free in each case. The destructor does not wait, nor throw. */
    void release() { state_->check_result(redlock_release(get())); }
    /* Makes the rest of its life at least `ttl`; 0: the lock's own TTL. */
    void extend(milliseconds ttl = milliseconds{0}) {
        state_->check_result(redlock_extend(get(), ttl.count()));
    }
    /* A writer becomes a reader, without a gap. */
    void downgrade() { state_->check_result(redlock_downgrade(get())); }

    /* For how long the lock is surely ours; 0: it is not. */
    milliseconds validity() const { return milliseconds{redlock_validity_ms(get())}; }
    bool held() const { return redlock_validity_ms(get()) > 0; }
    /* The fencing token, for the resource; 0: none (classic mode). */
    std::int64_t fence() const { return redlock_fence(get()); }
    unsigned slot() const { return redlock_slot(get()); }
    std::string token() const {
        char text[REDLOCK_TOKEN_BYTES_MAX];
        return {text, redlock_token_copy(get(), text, sizeof text)};
    }
    redlock_lock *get() const { return state_->lock; }

#ifdef __cpp_impl_coroutine
    auto async_release() {
        return detail::Operation(*state_, state_->operation,
                                 [lock = get()](redlock_done_fn *done, void *context) {
                                     return redlock_release_start(lock, done, context);
                                 });
    }
    auto async_extend(milliseconds ttl = milliseconds{0}) {
        return detail::Operation(*state_, state_->extension,
                                 [lock = get(), ttl](redlock_done_fn *done, void *context) {
                                     return redlock_extend_start(lock, ttl.count(), done, context);
                                 });
    }
#endif

  private:
    friend class Client;
    explicit Lock(std::unique_ptr<detail::State> state) : state_(std::move(state)) {}
    std::unique_ptr<detail::State> state_;
};

/* Locks keep what they need of their client, which may end before them. */
class Client {
  public:
    /* "redis://db1,redis://db2,redis://db3"; nullptr: the nodes of REDLOCK_NODES, else of the
     * configuration file. Connects in the background. */
    explicit Client(const char *nodes = nullptr, const ClientOptions &options = {}) {
        redlock_error error{};
        redlock_client *client = nullptr;
        detail::check(redlock_client_open(nodes, &options, &client, &error), error);
        client_.reset(client);
    }
    explicit Client(const std::string &nodes, const ClientOptions &options = {})
        : Client(nodes.c_str(), options) {}

    /* Waits until it has the lock. Throws Held or NoQuorum, as the last try ended, after `wait`. */
    Lock acquire(std::string_view resource, LockOptions options = {}, milliseconds wait = forever) {
        auto state = std::make_unique<detail::State>(get(), resource, std::move(options));
        state->check_result(redlock_acquire(state->lock, detail::wait_ms(wait)));
        return Lock(std::move(state));
    }
    /* One try. Nothing: another client has the lock. */
    std::optional<Lock> try_acquire(std::string_view resource, LockOptions options = {}) {
        try {
            return acquire(resource, std::move(options), milliseconds{0});
        } catch (const Held &) {
            return std::nullopt;
        }
    }

    /* With the option `queue`: a loop calls process() when fd() is readable. */
    int fd() const { return redlock_client_fd(get()); }
    void process() {
        const int result = redlock_process(get());
        if (result != REDLOCK_OK) detail::fail(result, redlock_result_text(result));
    }
    redlock_client *get() const { return client_.get(); }

#ifdef __cpp_impl_coroutine
    /* Lock lock = co_await client.async_acquire("nightly"); */
    auto async_acquire(std::string_view resource, LockOptions options = {},
                       milliseconds wait = forever) {
        return Acquisition(std::make_unique<detail::State>(get(), resource, std::move(options)),
                           wait);
    }
#endif

  private:
#ifdef __cpp_impl_coroutine
    struct Start {
        redlock_lock *lock;
        milliseconds wait;
        int operator()(redlock_done_fn *done, void *context) const {
            return redlock_acquire_start(lock, detail::wait_ms(wait), done, context);
        }
    };
    struct Owned {
        std::unique_ptr<detail::State> state;
    };
    struct Acquisition : private Owned, public detail::Operation<Start> { /* it ends first */
        Acquisition(std::unique_ptr<detail::State> made, milliseconds wait)
            : Owned{std::move(made)}, detail::Operation<Start>(*state, state->operation,
                                                               Start{state->lock, wait}) {}
        Lock await_resume() {
            detail::Operation<Start>::await_resume();
            return Lock(std::move(state));
        }
    };
#endif
    struct Free {
        void operator()(redlock_client *client) const { redlock_client_free(client); }
    };
    std::unique_ptr<redlock_client, Free> client_;
};

} // namespace redlock

#endif
