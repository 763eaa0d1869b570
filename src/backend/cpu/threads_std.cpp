/// A pool of std::threads, for builds without pthreadpool.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "backend/cpu/threads.hpp"

namespace tack::cpu {

struct Pool {
    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable done;
    std::vector<std::thread> workers;
    // the loop that is running; written under the mutex, read by workers that were woken for it
    LoopBody body = nullptr;
    const void* frame = nullptr;
    std::int64_t total = 0;
    std::int64_t tile = 0;
    std::atomic<std::int64_t> next{0};
    std::uint64_t loop = 0;  // which one it is
    std::size_t working = 0;
    bool ending = false;

    void take_tiles() {
        for (;;) {
            const std::int64_t begin = next.fetch_add(tile, std::memory_order_relaxed);
            if (begin >= total) return;
            body(frame, begin, std::min(begin + tile, total));
        }
    }

    void work() {
        std::uint64_t seen = 0;
        std::unique_lock lock(mutex);
        for (;;) {
            wake.wait(lock, [&] { return ending || loop != seen; });
            if (ending) return;
            seen = loop;
            lock.unlock();
            take_tiles();
            lock.lock();
            if (--working == 0) done.notify_one();
        }
    }
};

Pool* make_pool(int threads) {
    auto* pool = new Pool;
    try {
        for (int k = 1; k < threads; ++k) pool->workers.emplace_back(&Pool::work, pool);
    } catch (const std::system_error&) {
        // Fewer than asked for: those that there are share the work with the caller.
    }
    return pool;
}

void destroy_pool(Pool* pool) {
    {
        const std::lock_guard lock(pool->mutex);
        pool->ending = true;
    }
    pool->wake.notify_all();
    for (std::thread& worker : pool->workers) worker.join();
    delete pool;
}

void run_on_pool(Pool* pool, LoopBody body, const void* frame, std::int64_t total,
                 std::int64_t tile) {
    {
        const std::lock_guard lock(pool->mutex);
        pool->body = body;
        pool->frame = frame;
        pool->total = total;
        pool->tile = tile;
        pool->next.store(0, std::memory_order_relaxed);
        pool->working = pool->workers.size();
        ++pool->loop;
    }
    pool->wake.notify_all();
    pool->take_tiles();
    std::unique_lock lock(pool->mutex);
    pool->done.wait(lock, [&] { return pool->working == 0; });
}

}  // namespace tack::cpu
