/// The pool is pthreadpool's: its workers spin for a while and then sleep.
#include <pthreadpool.h>

#include "backend/cpu/threads.hpp"

#if defined(__SANITIZE_THREAD__)
#define TACK_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TACK_TSAN 1
#endif
#endif

#if defined(TACK_TSAN)
// pthreadpool is not built for the sanitizer, which so misses how it hands work over.
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace tack::cpu {

namespace {

void hand_over([[maybe_unused]] void* work) {
#if defined(TACK_TSAN)
    __tsan_release(work);
#endif
}
void take([[maybe_unused]] void* work) {
#if defined(TACK_TSAN)
    __tsan_acquire(work);
#endif
}

struct Work {
    LoopBody body;
    const void* frame;
};

pthreadpool* native(Pool* pool) { return reinterpret_cast<pthreadpool*>(pool); }

}  // namespace

Pool* make_pool(int threads) {
    return reinterpret_cast<Pool*>(pthreadpool_create(static_cast<std::size_t>(threads)));
}

void destroy_pool(Pool* pool) { pthreadpool_destroy(native(pool)); }

void run_on_pool(Pool* pool, LoopBody body, const void* frame, std::int64_t total,
                 std::int64_t tile) {
    Work work{body, frame};
    hand_over(&work);
    pthreadpool_parallelize_1d_tile_1d(
        native(pool),
        [](void* context, std::size_t start, std::size_t count) {
            take(context);
            const Work& w = *static_cast<Work*>(context);
            w.body(w.frame, static_cast<std::int64_t>(start),
                   static_cast<std::int64_t>(start + count));
            hand_over(context);
        },
        &work, static_cast<std::size_t>(total), static_cast<std::size_t>(tile), 0);
    take(&work);
}

}  // namespace tack::cpu
