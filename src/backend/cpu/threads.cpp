#include "backend/cpu/threads.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

#include "tack/device.hpp"
#include "tack/error.hpp"

namespace tack::cpu {

namespace {

/// Processors that the control group grants, rounded up; a large number where it sets no limit.
int quota_processors() {
    double quota = -1;
    double period = 0;
    std::string text;
    if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> text >> period) {
        if (text != "max") quota = std::strtod(text.c_str(), nullptr);
    } else {
        std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
        std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
        if (!(v1_quota >> quota && v1_period >> period)) quota = -1;
    }
    if (quota <= 0 || period <= 0) return 1 << 16;
    return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

int usable_processors() {
    cpu_set_t set;
    const int mask = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return std::max(1, std::min(mask, quota_processors()));
}

/// TACK_NUM_THREADS, or 0 where it is not set or no positive number.
int requested_threads() {
    const char* text = std::getenv("TACK_NUM_THREADS");
    if (!text) return 0;
    int threads = 0;
    const auto result = std::from_chars(text, text + std::strlen(text), threads);
    return *result.ptr == '\0' && threads > 0 ? threads : 0;
}

struct Threads {
    std::mutex busy;  // held while the pool works
    Pool* pool = nullptr;
    int pool_threads = 0;
    std::atomic<int> wanted{0};

    Threads() {
        const int requested = requested_threads();
        wanted = requested ? requested : usable_processors();
    }
};

// Never destroyed: a launch may come from a thread that outlives static destruction. A forked
// child starts over, since the parent's threads are not in it and `busy` may be held there.
std::atomic<Threads*> instance{nullptr};
std::mutex creating;

void start_over_in_child() {
    Threads* parent = instance.exchange(nullptr);
    const int wanted = parent ? parent->wanted.load() : 0;
    new (&creating) std::mutex;
    if (!parent) return;
    auto* own = new Threads;
    own->wanted = wanted;
    instance.store(own);
}

Threads& threads() {
    if (Threads* existing = instance.load(std::memory_order_acquire)) return *existing;
    const std::lock_guard lock(creating);
    if (Threads* existing = instance.load(std::memory_order_acquire)) return *existing;
    static const int registered = pthread_atfork(nullptr, nullptr, start_over_in_child);
    (void)registered;
    auto* own = new Threads;
    instance.store(own, std::memory_order_release);
    return *own;
}

}  // namespace

void parallel_for(LoopBody body, const void* frame, std::int64_t total, std::int64_t tile) {
    Threads& t = threads();
    const int wanted = t.wanted.load(std::memory_order_relaxed);
    std::unique_lock lock(t.busy, std::defer_lock);
    if (wanted == 1 || total <= tile || !lock.try_lock()) return body(frame, 0, total);
    if (t.pool_threads != wanted) {
        if (t.pool) destroy_pool(t.pool);
        t.pool_threads = 0;
        t.pool = make_pool(wanted);
        if (!t.pool) return body(frame, 0, total);  // no threads to be had: alone, then
        t.pool_threads = wanted;
    }
    run_on_pool(t.pool, body, frame, total, tile);
}

}  // namespace tack::cpu

namespace tack {

int num_threads() { return cpu::threads().wanted.load(std::memory_order_relaxed); }

void set_num_threads(int count) {
    if (count < 1)
        throw Error(ErrorKind::value,
                    "set_num_threads: " + std::to_string(count) + " threads; give 1 or more");
    cpu::threads().wanted.store(count, std::memory_order_relaxed);
}

}  // namespace tack
