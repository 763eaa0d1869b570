#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "device/registry.hpp"
#include "support.hpp"
#include "tack/device.hpp"

namespace tack {
namespace {

using test::expect_error;
using test::far_device;

struct Devices : testing::Test {
    void TearDown() override { set_default_device("cpu"); }
};
using DefaultDevice = Devices;

TEST_F(Devices, a_plain_device_is_one_object) {
    EXPECT_EQ(device("cpu"), device("cpu"));
    EXPECT_EQ(device("cpu"), device("cpu:0"));
    EXPECT_EQ(device("cpu"), device("cpu", 0));
}

TEST_F(Devices, threads_that_ask_at_once_get_one_object) {
    std::vector<Device> found(8);
    std::vector<std::thread> threads;
    for (Device& mine : found) threads.emplace_back([&mine] { mine = device("cpu"); });
    for (std::thread& thread : threads) thread.join();
    for (const Device& one : found) EXPECT_EQ(one, found[0]);
}

TEST_F(Devices, the_host_describes_itself) {
    const Device cpu = device("cpu");
    EXPECT_EQ(cpu.name(), "cpu");
    EXPECT_EQ(cpu.index(), 0);
    EXPECT_EQ(cpu.memory_domain(), "cpu");
    EXPECT_EQ(cpu.to_string(), "cpu");
    EXPECT_FALSE(cpu.shares_external_context());
}

TEST_F(Devices, text_carries_an_index_above_zero) {
    EXPECT_EQ(far_device("cuda", 1).to_string(), "cuda:1");
    EXPECT_EQ(far_device("cuda", 0).to_string(), "cuda");
}

TEST_F(Devices, a_default_constructed_device_is_none) {
    EXPECT_FALSE(Device());
    EXPECT_TRUE(device("cpu"));
}

TEST_F(Devices, an_index_that_is_not_there_is_refused_with_the_number_of_devices) {
    expect_error(ErrorKind::runtime, {"device: cpu:1 of 1 device"}, [] { device("cpu:1"); });
    expect_error(ErrorKind::runtime, {"device: cpu:7 of 1 device"}, [] { device("cpu", 7); });
}

TEST_F(Devices, a_negative_index_is_refused) {
    expect_error(ErrorKind::runtime, {"device: ", "cpu", "-1"}, [] { device("cpu", -1); });
    expect_error(ErrorKind::runtime, {"device: ", "cpu", "-1"}, [] { device("cpu:-1"); });
}

TEST_F(Devices, an_index_that_is_no_number_is_refused) {
    for (const char* name : {"cpu:", "cpu:x", "cpu:0x", "cpu: 0", "cpu:0:0", "cpu:99999999999"}) {
        expect_error(ErrorKind::runtime, {"device: '" + std::string(name) + "'"},
                     [&] { device(name); });
    }
}

TEST_F(Devices, two_different_indices_contradict_each_other) {
    expect_error(ErrorKind::value, {"'cuda:1'", "2"}, [] { device("cuda:1", 2); });
}

TEST_F(Devices, an_unknown_backend_lists_the_known_ones) {
    expect_error(ErrorKind::runtime, {"device: ", "'tpu'", "cpu, cuda, hip, level_zero, metal"},
                 [] { device("tpu"); });
    expect_error(ErrorKind::runtime, {"''"}, [] { device(""); });
    expect_error(ErrorKind::runtime, {"'CPU'"}, [] { device("CPU"); });
}

TEST_F(Devices, an_undeclared_option_is_refused_by_name) {
    const DeviceOptions options{{"external_context", std::uint64_t{1}}};
    expect_error(ErrorKind::value, {"device: ", "'external_context'", "cpu declares none"},
                 [&] { device("cpu", 0, options); });
    expect_error(ErrorKind::value, {"'external_context' is unknown; cuda declares stream"},
                 [&] { device("cuda", 0, options); });
    expect_error(ErrorKind::value, {"'external_context'"},
                 [&] { set_default_device("cpu", 0, options); });
}

TEST_F(Devices, each_backend_declares_its_options) {
    EXPECT_TRUE(device_options("cpu").empty());
    EXPECT_EQ(device_options("cuda"), std::vector<std::string>{"stream"});
    expect_error(ErrorKind::runtime, {"device_options: ", "'no_such_backend'"},
                 [] { device_options("no_such_backend"); });
}

// Index 1 is refused as the device is constructed.
TEST_F(Devices, options_are_checked_before_anything_is_constructed) {
    expect_error(ErrorKind::value, {"'stream'"},
                 [] { device("cpu", 1, {{"stream", std::uint64_t{0}}}); });
}

TEST_F(Devices, a_list_of_devices_has_the_host) {
    const std::vector<Device> all = devices();
    EXPECT_EQ(std::count(all.begin(), all.end(), device("cpu")), 1);
}

TEST_F(Devices, the_status_has_a_row_for_each_backend) {
    const std::vector<BackendStatus> rows = backend_status();
    ASSERT_EQ(rows.size(), backend_entries().size());
    for (std::size_t k = 0; k < rows.size(); ++k) {
        EXPECT_EQ(rows[k].name, backend_entries()[k].name);
        EXPECT_EQ(rows[k].state == "not built", backend_entries()[k].create == nullptr);
        EXPECT_NE(rows[k].detail, "");
    }
    EXPECT_EQ(rows[0].name, "cpu");
    EXPECT_EQ(rows[0].state, "ready");
}

TEST_F(Devices, a_backend_outside_this_build_is_refused_by_name) {
    for (const BackendEntry& entry : backend_entries()) {
        if (entry.create) continue;
        const std::string name(entry.name);
        expect_error(
            ErrorKind::runtime,
            {"device: backend '" + name + "' is not part of this build of Tack " + TACK_VERSION,
             "it has: cpu"},
            [&] { device(name); });
    }
}

TEST_F(Devices, synchronize_waits_for_the_default_device) {
    const Device far = set_default_device(far_device());
    synchronize();
    EXPECT_EQ(test::as_far(far).waits, 1);
}

TEST_F(Devices, an_address_of_the_host_is_host_memory) {
    const int here = 0;
    const MemorySpace space = device("cpu").memory_space(&here);
    EXPECT_EQ(space.backend, "cpu");
    EXPECT_EQ(space.kind, MemoryKind::host);
}

TEST_F(Devices, an_unmapped_address_is_of_no_known_space) {
    const MemorySpace space = device("cpu").memory_space(nullptr);
    EXPECT_EQ(space.backend, "unknown");
    EXPECT_EQ(space.kind, MemoryKind::unknown);
}

TEST_F(DefaultDevice, is_the_host_until_set) { EXPECT_EQ(default_device(), device("cpu")); }

TEST_F(DefaultDevice, is_what_was_set_and_returned) {
    const Device far = far_device("cuda", 1);
    EXPECT_EQ(set_default_device(far), far);
    EXPECT_EQ(default_device(), far);
    EXPECT_EQ(set_default_device("cpu:0"), device("cpu"));
    EXPECT_EQ(default_device(), device("cpu"));
}

TEST_F(DefaultDevice, holds_new_arrays) {
    const Device far = set_default_device(far_device());
    EXPECT_EQ(empty({3}).device(), far);
}

TEST_F(DefaultDevice, is_kept_alive) {
    set_default_device(far_device("cuda", 3));
    EXPECT_EQ(default_device().index(), 3);
}

TEST_F(DefaultDevice, cannot_be_none) {
    expect_error(ErrorKind::value, {"set_default_device"}, [] { set_default_device(Device()); });
}

TEST_F(DefaultDevice, stays_when_another_cannot_be_had) {
    const Device far = set_default_device(far_device());
    expect_error(ErrorKind::runtime, {"'tpu'"}, [] { set_default_device("tpu"); });
    EXPECT_EQ(default_device(), far);
}

TEST_F(DefaultDevice, may_be_set_and_read_by_many_threads) {
    const Device far = far_device();
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k) {
        threads.emplace_back([&far, k] {
            for (int round = 0; round < 1000; ++round) {
                set_default_device(k % 2 ? far : device("cpu"));
                EXPECT_TRUE(default_device());
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tack
