/// Running loops on several threads.
#pragma once

#include <cstdint>

namespace tack::cpu {

using LoopBody = void (*)(const void* frame, std::int64_t begin, std::int64_t end);

/// Runs body(frame, begin, end) over all of [0, total) in parts of about `tile` passes, on
/// num_threads() threads of which the caller is one. Where another call is using them, the caller
/// does it all by itself, so that two launches at once both make progress. The threads are made at
/// the first call, and anew in a forked child.
void parallel_for(LoopBody body, const void* frame, std::int64_t total, std::int64_t tile);

// What threads_pthreadpool.cpp or threads_std.cpp implements; threads.cpp calls it.
struct Pool;
Pool* make_pool(int threads);
void destroy_pool(Pool* pool);
void run_on_pool(Pool* pool, LoopBody body, const void* frame, std::int64_t total,
                 std::int64_t tile);

}  // namespace tack::cpu
