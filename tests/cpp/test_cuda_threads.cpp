// Many threads on one simulated CUDA device.
#include <thread>

#include "cuda_client.hpp"

namespace tack::test {
namespace {

TEST(CudaThreads, twelve_hundred_launches_at_once_each_see_their_own_number) {
    constexpr int threads = 12, launches = 100;
    const Told told = run_tack([] {
        const Device cuda = device("cuda");
        const Kernel scale("scale", [](Scalar<double> a, Scalar<std::int64_t> at, Out<double> y) {
            parallel(1, [&](Index) { y[at] = a; });
        });
        std::vector<Array> arrays(threads);
        for (Array& array : arrays) array = zeros({launches}, DType::float64, cuda);
        std::vector<std::thread> running;
        for (int t = 0; t < threads; ++t) {
            running.emplace_back([&, t] {
                for (int k = 0; k < launches; ++k)
                    scale(1000.0 * t + k, k, arrays[static_cast<size_t>(t)]);
            });
        }
        for (std::thread& thread : running) thread.join();
        int wrong = 0;
        for (int t = 0; t < threads; ++t) {
            const auto values = arrays[static_cast<size_t>(t)].to_vector<double>();
            for (int k = 0; k < launches; ++k)
                wrong += values[static_cast<size_t>(k)] != 1000.0 * t + k;
        }
        return std::to_string(wrong) + " of " +
               std::to_string(cu::sim_call_count("cuLaunchKernel"));
    });
    EXPECT_EQ(told.status, 0) << told.report;
    EXPECT_EQ(told.text, "0 of 1200");
    EXPECT_EQ(told.report, "");
}

TEST(CudaThreads, arrays_are_made_launched_on_exported_and_dropped_by_all_at_once) {
    for (const char* no_pools : {"0", "1"}) {
        const Told told = run_tack(
            [] {
                const Device cuda = device("cuda");
                const Kernel add("add", [](Scalar<float> a, InOut<float> y) {
                    parallel(y.size(), [&](Index i) { y[i] += a; });
                });
                std::atomic<int> wrong = 0;
                std::vector<std::thread> running;
                for (int t = 0; t < 8; ++t) {
                    running.emplace_back([&] {
                        for (int k = 0; k < 50; ++k) {
                            Array x = full({100}, k, DType::float32, cuda);
                            add(1.0f, x);
                            if (k % 5 == 0) {
                                auto* const tensor = to_dlpack_versioned(x);
                                const Array same = from_dlpack(tensor, cuda);
                                add(1.0f, same);
                                add(-1.0f, x);
                            }
                            const Array copied = x.copy();
                            x = {};
                            wrong += copied.to_vector<float>()[99] != static_cast<float>(k + 1);
                        }
                    });
                }
                for (std::thread& thread : running) thread.join();
                cuda.synchronize();
                return std::to_string(wrong) + "\n" + sim_text("tack_sim_live_objects");
            },
            {{"TACK_SIM_NO_POOLS", no_pools}});
        EXPECT_EQ(told.status, 0) << told.report;
        EXPECT_EQ(told.text, "0\n");
        EXPECT_EQ(told.report, "");
    }
}

}  // namespace
}  // namespace tack::test
