// Run against both pools: pthreadpool's and Tack's own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include "backend/cpu/threads.hpp"
#include "tack/device.hpp"
#include "tack/error.hpp"

namespace {

using tack::cpu::parallel_for;

struct Marks {
    int* values;
};

void mark(const void* frame, std::int64_t begin, std::int64_t end) {
    int* values = static_cast<const Marks*>(frame)->values;
    for (std::int64_t k = begin; k < end; ++k) ++values[k];
}

/// How often each pass of a loop ran.
std::vector<int> passes(std::int64_t total, std::int64_t tile) {
    std::vector<int> values(static_cast<std::size_t>(total), 0);
    const Marks marks{values.data()};
    parallel_for(mark, &marks, total, tile);
    return values;
}

/// Sets the number of threads for one test.
class Threads {
public:
    explicit Threads(int count) : before_(tack::num_threads()) { tack::set_num_threads(count); }
    ~Threads() { tack::set_num_threads(before_); }

private:
    int before_;
};

TEST(ParallelFor, every_pass_runs_once_whatever_the_tile) {
    const Threads threads(3);
    for (const std::int64_t tile : {1, 7, 100, 5000, 100000})
        EXPECT_EQ(passes(10007, tile), std::vector<int>(10007, 1)) << tile;
}

TEST(ParallelFor, an_empty_loop_does_nothing) {
    const Threads threads(2);
    EXPECT_EQ(passes(0, 16), std::vector<int>());
}

TEST(ParallelFor, several_threads_take_part) {
    const Threads threads(4);
    struct Seen {
        std::atomic<int> waiting{0};
    } seen;
    // Each part waits for another to begin: one thread alone would never get past the first.
    parallel_for(
        [](const void* frame, std::int64_t, std::int64_t) {
            auto& waiting = const_cast<Seen*>(static_cast<const Seen*>(frame))->waiting;
            ++waiting;
            while (waiting < 2) std::this_thread::yield();
        },
        &seen, 4, 1);
    EXPECT_GE(seen.waiting, 2);
}

TEST(ParallelFor, two_callers_at_once_both_finish) {
    const Threads threads(2);
    std::vector<int> counts(4, 0);
    std::vector<std::thread> callers;
    for (std::size_t c = 0; c < counts.size(); ++c)
        callers.emplace_back([&counts, c] {
            for (int k = 0; k < 50; ++k) {
                const std::vector<int> done = passes(5000, 100);
                counts[c] += std::accumulate(done.begin(), done.end(), 0);
            }
        });
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(counts, std::vector<int>(4, 250'000));
}

TEST(ParallelFor, the_number_of_threads_may_change_between_loops) {
    for (const int count : {1, 4, 2, 3, 1}) {
        const Threads threads(count);
        EXPECT_EQ(passes(1000, 10), std::vector<int>(1000, 1));
    }
}

TEST(ParallelFor, a_forked_child_has_threads_of_its_own) {
    const Threads threads(2);
    passes(1000, 10);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(20);  // a child that waits for the parent's threads would hang
        _exit(passes(10000, 10) == std::vector<int>(10000, 1) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SetNumThreads, refuses_less_than_one_and_keeps_what_was) {
    const Threads threads(3);
    EXPECT_THROW(tack::set_num_threads(0), tack::Error);
    EXPECT_EQ(tack::num_threads(), 3);
}

}  // namespace
