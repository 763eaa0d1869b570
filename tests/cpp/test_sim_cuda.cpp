// The simulated CUDA driver is strict: faulty clients are caught, correct ones are not.
#include <cstring>
#include <thread>

#include "sim_cuda_client.hpp"

namespace tack::test {
namespace {

// A correct client ends well and leaves nothing to say.
void expect_clean(const Ending& ending) {
    EXPECT_EQ(ending.status, 0);
    EXPECT_EQ(ending.report, "");
}

// A faulty one gets as far as its checks say, and is found out by the report.
void expect_reported(const Ending& ending, const std::string& line) {
    EXPECT_EQ(ending.status, 0);
    EXPECT_TRUE(ending.says("tack-sim: " + line)) << ending.report;
}

float fresh_float() {
    float value;
    std::memset(&value, 0xCB, sizeof value);
    return value;
}

TEST(SimulatedCuda, a_correct_client_is_not_reported) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.floats(100, 2);
        CLIENT_CHECK(c.scale(x, 3, 100) == cuda_success);
        CLIENT_CHECK(c.first(x) == 6);
        CLIENT_CHECK(cu::free(x) == cuda_success);
    }));
}

TEST(SimulatedCuda, a_host_touch_of_device_memory_ends_the_process) {
    Ending ending = run_client([] {
        Client c;
        Address x = c.floats(100, 2);
        CLIENT_CHECK(cu::sim_host_can_read(reinterpret_cast<void*>(x)) == 0);
        CLIENT_CHECK(*reinterpret_cast<volatile float*>(x) == 2);
    });
    EXPECT_EQ(ending.signal, SIGSEGV);
}

TEST(SimulatedCuda, device_memory_is_closed_again_after_work_ran) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.floats(100, 2);
        CLIENT_CHECK(c.scale(x, 3, 100) == cuda_success);
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        CLIENT_CHECK(cu::sim_host_can_read(reinterpret_cast<void*>(x)) == 0);
        CLIENT_CHECK(cu::free(x) == cuda_success);
    }));
}

TEST(SimulatedCuda, uninitialised_memory_does_not_look_like_zero) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.allocate(4);
        CLIENT_CHECK(c.first(x) == fresh_float());
        CLIENT_CHECK(cu::free(x) == cuda_success);
    }));
}

TEST(SimulatedCuda, a_copy_to_pinned_memory_has_not_run_before_it_is_waited_for) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.floats(1, 2);
        void* pinned = nullptr;
        CLIENT_CHECK(cu::host_alloc(&pinned, size_t{4}, 0u) == cuda_success);
        auto* value = static_cast<volatile float*>(pinned);
        CLIENT_CHECK(cu::copy_out_async(pinned, x, size_t{4}, c.stream) == cuda_success);
        CLIENT_CHECK(*value == fresh_float());
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        CLIENT_CHECK(*value == 2);
        cu::host_free(pinned);
        cu::free(x);
    }));
}

TEST(SimulatedCuda, a_kernel_on_managed_memory_has_not_run_before_it_is_waited_for) {
    expect_clean(run_client([] {
        Client c;
        Address x = 0;
        CLIENT_CHECK(cu::alloc_managed(&x, size_t{4}, 1u) == cuda_success);
        auto* value = reinterpret_cast<volatile float*>(x);
        *value = 2;
        CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
        CLIENT_CHECK(*value == 2);
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        CLIENT_CHECK(*value == 6);
        cu::free(x);
    }));
}

TEST(SimulatedCuda, pageable_memory_is_read_when_queued_and_pinned_memory_when_run) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.allocate(4), y = c.allocate(4);
        float pageable = 1;
        void* pinned = nullptr;
        CLIENT_CHECK(cu::host_alloc(&pinned, size_t{4}, 0u) == cuda_success);
        *static_cast<float*>(pinned) = 1;
        CLIENT_CHECK(cu::copy_in_async(x, &pageable, size_t{4}, c.stream) == cuda_success);
        CLIENT_CHECK(cu::copy_in_async(y, pinned, size_t{4}, c.stream) == cuda_success);
        pageable = 2;
        *static_cast<float*>(pinned) = 2;
        CLIENT_CHECK(c.first(x) == 1);
        CLIENT_CHECK(c.first(y) == 2);
        cu::host_free(pinned);
        cu::free(x);
        cu::free(y);
    }));
}

TEST(SimulatedCuda, arguments_are_copied_at_launch) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.floats(1, 2), address = x;
        float factor = 3;
        int n = 1;
        void* parameters[] = {&address, &factor, &n};
        CLIENT_CHECK(cu::launch(c.function("scale"), 1u, 1u, 1u, 1u, 1u, 1u, 0u, c.stream,
                                parameters, static_cast<void**>(nullptr)) == cuda_success);
        address = 0;
        factor = 0;
        CLIENT_CHECK(c.first(x) == 6);
        cu::free(x);
    }));
}

TEST(SimulatedCuda, packed_arguments_launch_like_separate_ones) {
    expect_clean(run_client([] {
        Client c;
        struct {
            Address x;
            float factor;
            int n;
        } packed{c.floats(1, 2), 3, 1};
        size_t size = sizeof packed;
        void* extra[] = {reinterpret_cast<void*>(1), &packed, reinterpret_cast<void*>(2), &size,
                         nullptr};
        CLIENT_CHECK(cu::launch(c.function("scale"), 1u, 1u, 1u, 1u, 1u, 1u, 0u, c.stream,
                                static_cast<void**>(nullptr), extra) == cuda_success);
        CLIENT_CHECK(c.first(packed.x) == 6);
        cu::free(packed.x);
    }));
}

TEST(SimulatedCuda, queries_run_no_work_but_a_polling_client_ends) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.floats(1, 2);
        CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
        for (int i = 0; i < 20; ++i) CLIENT_CHECK(cu::stream_query(c.stream) == cuda_not_ready);
        int polls = 0;
        while (cu::stream_query(c.stream) == cuda_not_ready) CLIENT_CHECK(++polls < 10000);
        CLIENT_CHECK(c.first(x) == 6);
        cu::free(x);
    }));
}

TEST(SimulatedCuda, a_blocking_stream_waits_for_the_legacy_stream_and_it_for_that) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.floats(1, 2);
        CLIENT_CHECK(c.scale(x, 3, 1, nullptr) == cuda_success);
        CLIENT_CHECK(cu::fill_async(x, 0u, size_t{1}, c.stream) == cuda_success);
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        CLIENT_CHECK(c.first(x) == 0);
        CLIENT_CHECK(cu::fill_async(x, 0x40000000u, size_t{1}, c.stream) == cuda_success);
        CLIENT_CHECK(c.scale(x, 3, 1, nullptr) == cuda_success);
        CLIENT_CHECK(cu::stream_synchronize(nullptr) == cuda_success);
        CLIENT_CHECK(c.first(x) == 6);
        cu::free(x);
    }));
}

TEST(SimulatedCuda, a_non_blocking_stream_overtakes_the_legacy_stream) {
    expect_clean(run_client([] {
        Client c(1);
        Address x = c.floats(1, 2);
        CLIENT_CHECK(cu::context_synchronize() == cuda_success);
        CLIENT_CHECK(cu::fill_async(x, 0u, size_t{1}, nullptr) == cuda_success);
        CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
        void* pinned = nullptr;
        CLIENT_CHECK(cu::host_alloc(&pinned, size_t{4}, 0u) == cuda_success);
        CLIENT_CHECK(cu::copy_out_async(pinned, x, size_t{4}, c.stream) == cuda_success);
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        CLIENT_CHECK(*static_cast<float*>(pinned) == 6);
        cu::host_free(pinned);
        cu::free(x);
    }));
}

TEST(SimulatedCuda, without_an_event_a_stream_does_not_see_the_work_of_another) {
    expect_clean(run_client([] {
        Client c(1);
        Handle other = nullptr, event = nullptr;
        CLIENT_CHECK(cu::stream_create(&other, 1u) == cuda_success);
        CLIENT_CHECK(cu::event_create(&event, 2u) == cuda_success);
        Address x = c.floats(1, 2);
        CLIENT_CHECK(cu::context_synchronize() == cuda_success);
        void* pinned = nullptr;
        CLIENT_CHECK(cu::host_alloc(&pinned, size_t{4}, 0u) == cuda_success);
        auto* value = static_cast<volatile float*>(pinned);

        CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
        CLIENT_CHECK(cu::copy_out_async(pinned, x, size_t{4}, other) == cuda_success);
        CLIENT_CHECK(cu::stream_synchronize(other) == cuda_success);
        CLIENT_CHECK(*value == 2);

        CLIENT_CHECK(cu::event_record(event, c.stream) == cuda_success);
        CLIENT_CHECK(cu::stream_wait_event(other, event, 0u) == cuda_success);
        CLIENT_CHECK(cu::copy_out_async(pinned, x, size_t{4}, other) == cuda_success);
        CLIENT_CHECK(cu::event_query(event) == cuda_not_ready);
        CLIENT_CHECK(cu::stream_synchronize(other) == cuda_success);
        CLIENT_CHECK(*value == 6);
        CLIENT_CHECK(cu::event_query(event) == cuda_success);
        cu::host_free(pinned);
        cu::free(x);
        cu::event_destroy(event);
        cu::stream_destroy(other);
    }));
}

TEST(SimulatedCuda, a_made_up_handle_is_reported) {
    expect_reported(run_client([] {
                        Client c;
                        int made_up = 0;
                        CLIENT_CHECK(cu::stream_synchronize(&made_up) == cuda_invalid_handle);
                    }),
                    "violation: cuStreamSynchronize: ");
}

TEST(SimulatedCuda, a_handle_of_another_kind_is_reported) {
    expect_reported(run_client([] {
                        Client c;
                        CLIENT_CHECK(cu::event_synchronize(c.stream) == cuda_invalid_handle);
                    }),
                    "violation: cuEventSynchronize: stream ");
}

TEST(SimulatedCuda, a_stream_of_another_context_is_reported) {
    expect_reported(run_client([] {
                        Client c;
                        Address x = c.floats(1, 2);
                        Handle other = nullptr, foreign = nullptr;
                        CLIENT_CHECK(cu::context_create(&other, 0u, 0) == cuda_success);
                        CLIENT_CHECK(cu::stream_create(&foreign, 0u) == cuda_success);
                        CLIENT_CHECK(cu::context_set(c.context) == cuda_success);
                        CLIENT_CHECK(c.scale(x, 3, 1, foreign) == cuda_invalid_handle);
                        cu::free(x);
                        cu::context_destroy(other);
                    }),
                    "violation: cuLaunchKernel: stream ");
}

TEST(SimulatedCuda, an_event_of_another_context_cannot_be_recorded_but_waited_for) {
    Ending ending = run_client([] {
        Client c;
        Handle other = nullptr, event = nullptr, stream = nullptr;
        CLIENT_CHECK(cu::context_create(&other, 0u, 0) == cuda_success);
        CLIENT_CHECK(cu::event_create(&event, 0u) == cuda_success);
        CLIENT_CHECK(cu::stream_create(&stream, 0u) == cuda_success);
        CLIENT_CHECK(cu::event_record(event, stream) == cuda_success);
        CLIENT_CHECK(cu::stream_wait_event(c.stream, event, 0u) == cuda_success);
        CLIENT_CHECK(cu::event_record(event, c.stream) == cuda_invalid_handle);
        CLIENT_CHECK(cu::context_destroy(other) == cuda_success);
        CLIENT_CHECK(cu::context_set(c.context) == cuda_success);
    });
    expect_reported(ending, "violation: cuEventRecord: ");
    EXPECT_FALSE(ending.says("cuStreamWaitEvent")) << ending.report;
}

TEST(SimulatedCuda, destroying_twice_is_reported) {
    expect_reported(run_client([] {
                        Client c;
                        Handle event = nullptr;
                        CLIENT_CHECK(cu::event_create(&event, 0u) == cuda_success);
                        CLIENT_CHECK(cu::event_destroy(event) == cuda_success);
                        CLIENT_CHECK(cu::event_destroy(event) == cuda_invalid_handle);
                    }),
                    "violation: cuEventDestroy: event ");
}

TEST(SimulatedCuda, freeing_twice_is_reported) {
    expect_reported(run_client([] {
                        Client c;
                        Address x = c.allocate(8);
                        CLIENT_CHECK(cu::free(x) == cuda_success);
                        CLIENT_CHECK(cu::free(x) == cuda_invalid_value);
                    }),
                    "violation: cuMemFree: 0x");
}

TEST(SimulatedCuda, freed_addresses_never_return) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.allocate(1000);
        CLIENT_CHECK(cu::free(x) == cuda_success);
        for (int i = 0; i < 1000; ++i) {
            Address y = c.allocate(1000);
            CLIENT_CHECK(y != x);
            CLIENT_CHECK(cu::free(y) == cuda_success);
        }
    }));
}

TEST(SimulatedCuda, what_is_alive_at_exit_is_a_leak_and_status_97) {
    auto client = [] {
        static const auto* c = new Client;
        c->allocate(8);
        void* pinned = nullptr;
        CLIENT_CHECK(cu::host_alloc(&pinned, size_t{4}, 0u) == cuda_success);
        Handle event = nullptr;
        CLIENT_CHECK(cu::event_create(&event, 0u) == cuda_success);
    };
    EXPECT_EQ(run_client(client, {}, false).status, 97);
    Ending ending = run_client(client);
    for (const char* kind : {"device memory", "pinned memory", "event", "stream", "module"}) {
        expect_reported(ending, std::string("leak: ") + kind);
    }
}

TEST(SimulatedCuda, kinds_that_the_client_keeps_by_design_are_no_leaks_but_others_are) {
    Ending ending = run_client(
        [] {
            CLIENT_CHECK(cu::init(0u) == cuda_success);
            Handle context = nullptr, stream = nullptr, event = nullptr;
            CLIENT_CHECK(cu::primary_retain(&context, 0) == cuda_success);
            CLIENT_CHECK(cu::context_set(context) == cuda_success);
            CLIENT_CHECK(cu::stream_create(&stream, 0u) == cuda_success);
            CLIENT_CHECK(cu::event_create(&event, 0u) == cuda_success);
            Address x = 0;
            CLIENT_CHECK(cu::alloc(&x, size_t{8}) == cuda_success);
        },
        {{"TACK_SIM_KEEP", "stream,device memory"}});
    EXPECT_TRUE(ending.says("leak: event")) << ending.report;
    EXPECT_FALSE(ending.says("stream") || ending.says("memory")) << ending.report;
}

TEST(SimulatedCuda, a_retained_primary_context_is_no_leak_but_a_created_one_is) {
    expect_clean(run_client([] {
        Handle context = nullptr;
        CLIENT_CHECK(cu::init(0u) == cuda_success);
        CLIENT_CHECK(cu::primary_retain(&context, 0) == cuda_success);
    }));
    expect_reported(run_client([] {
                        Handle context = nullptr;
                        CLIENT_CHECK(cu::init(0u) == cuda_success);
                        CLIENT_CHECK(cu::context_create(&context, 0u, 0) == cuda_success);
                    }),
                    "leak: context");
}

TEST(SimulatedCuda, a_kernel_that_runs_over_its_memory_ruins_the_context) {
    expect_reported(run_client([] {
                        Client c;
                        Address x = c.floats(64, 2);
                        CLIENT_CHECK(c.scale(x, 3, 65) == cuda_success);
                        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_illegal_address);
                        CLIENT_CHECK(cu::free(x) == cuda_illegal_address);
                        CLIENT_CHECK(cu::context_synchronize() == cuda_illegal_address);
                    }),
                    "violation: kernel scale: illegal access to 0x");
}

TEST(SimulatedCuda, an_overrun_too_small_to_fault_is_found_at_the_free) {
    expect_reported(run_client([] {
                        Client c;
                        Address x = c.floats(10, 2);
                        CLIENT_CHECK(c.scale(x, 3, 11) == cuda_success);
                        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
                        CLIENT_CHECK(cu::free(x) == cuda_success);
                    }),
                    "violation: overrun: byte 4");
}

TEST(SimulatedCuda, a_kernel_on_freed_memory_ruins_the_context) {
    expect_reported(run_client([] {
                        Client c;
                        Address x = c.floats(1, 2);
                        CLIENT_CHECK(cu::free(x) == cuda_success);
                        CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
                        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_illegal_address);
                    }),
                    "violation: kernel scale: illegal access to 0x");
}

TEST(SimulatedCuda, a_kernel_given_pageable_memory_ruins_the_context) {
    expect_reported(run_client([] {
                        Client c;
                        float pageable = 2;
                        Address x = reinterpret_cast<Address>(&pageable);
                        CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
                        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_illegal_address);
                        CLIENT_CHECK(pageable == 2);
                    }),
                    "violation: kernel scale: argument 0 is pageable host memory");
}

TEST(SimulatedCuda, a_kernel_may_use_registered_memory) {
    expect_clean(run_client([] {
        Client c;
        float value = 2;
        CLIENT_CHECK(cu::host_register(&value, sizeof value, 0u) == cuda_success);
        CLIENT_CHECK(c.scale(reinterpret_cast<Address>(&value), 3, 1) == cuda_success);
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        CLIENT_CHECK(value == 6);
        CLIENT_CHECK(cu::host_unregister(&value) == cuda_success);
    }));
}

TEST(SimulatedCuda, freeing_waits_for_queued_work) {
    expect_clean(run_client([] {
        Client c(1);
        Address x = c.floats(1, 2);
        CLIENT_CHECK(cu::context_synchronize() == cuda_success);
        CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
        CLIENT_CHECK(cu::free(x) == cuda_success);
        CLIENT_CHECK(cu::stream_query(c.stream) == cuda_success);
    }));
}

TEST(SimulatedCuda, freeing_pinned_memory_under_queued_work_is_reported) {
    expect_reported(
        run_client([] {
            Client c;
            Address x = c.floats(1, 2);
            void* pinned = nullptr;
            CLIENT_CHECK(cu::host_alloc(&pinned, size_t{4}, 0u) == cuda_success);
            CLIENT_CHECK(cu::copy_out_async(pinned, x, size_t{4}, c.stream) == cuda_success);
            CLIENT_CHECK(cu::host_free(pinned) == cuda_success);
        }),
        "violation: cuMemFreeHost: pinned memory at 0x");
}

TEST(SimulatedCuda, pool_memory_freed_in_order_is_not_reported) {
    expect_clean(run_client([] {
        Client c(1);
        Address x = 0;
        CLIENT_CHECK(cu::alloc_async(&x, size_t{4}, c.stream) == cuda_success);
        CLIENT_CHECK(cu::fill_async(x, 0u, size_t{1}, c.stream) == cuda_success);
        CLIENT_CHECK(cu::free_async(x, c.stream) == cuda_success);
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        CLIENT_CHECK(cu::sim_device_bytes() == 0);
    }));
}

TEST(SimulatedCuda, pool_memory_freed_before_another_streams_work_is_reported) {
    expect_reported(run_client([] {
                        Client c(1);
                        Handle other = nullptr;
                        CLIENT_CHECK(cu::stream_create(&other, 1u) == cuda_success);
                        Address x = 0;
                        CLIENT_CHECK(cu::alloc_async(&x, size_t{4}, c.stream) == cuda_success);
                        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
                        CLIENT_CHECK(cu::fill_async(x, 0u, size_t{1}, other) == cuda_success);
                        CLIENT_CHECK(cu::free_async(x, c.stream) == cuda_success);
                        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
                        CLIENT_CHECK(cu::stream_synchronize(other) == cuda_illegal_address);
                    }),
                    "violation: cuMemFreeAsync: pool memory at 0x");
}

TEST(SimulatedCuda, pool_memory_is_not_there_for_a_stream_that_did_not_wait) {
    expect_reported(run_client([] {
                        Client c(1);
                        Handle other = nullptr;
                        CLIENT_CHECK(cu::stream_create(&other, 1u) == cuda_success);
                        Address x = 0;
                        CLIENT_CHECK(cu::alloc_async(&x, size_t{4}, c.stream) == cuda_success);
                        CLIENT_CHECK(cu::fill_async(x, 0u, size_t{1}, other) == cuda_success);
                        CLIENT_CHECK(cu::stream_synchronize(other) == cuda_illegal_address);
                    }),
                    "violation: cuMemsetD32Async: illegal access to 0x");
}

TEST(SimulatedCuda, destroying_a_stream_with_work_queued_is_reported) {
    expect_reported(run_client([] {
                        Client c;
                        Handle other = nullptr;
                        CLIENT_CHECK(cu::stream_create(&other, 0u) == cuda_success);
                        Address x = c.floats(1, 2);
                        CLIENT_CHECK(c.scale(x, 3, 1, other) == cuda_success);
                        CLIENT_CHECK(cu::stream_destroy(other) == cuda_success);
                        CLIENT_CHECK(cu::context_synchronize() == cuda_success);
                        CLIENT_CHECK(c.first(x) == 6);
                        cu::free(x);
                    }),
                    "violation: cuStreamDestroy: stream ");
}

TEST(SimulatedCuda, a_host_function_runs_in_order_and_may_not_call_the_driver) {
    expect_clean(run_client([] {
        Client c;
        static int inside = -1, readable = -1;
        static Address x = c.floats(1, 2);
        auto function = [](void*) {
            inside = cu::context_synchronize();
            readable = cu::sim_host_can_read(reinterpret_cast<void*>(x));
        };
        CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
        CLIENT_CHECK(cu::launch_host(c.stream, +function, nullptr) == cuda_success);
        CLIENT_CHECK(inside == -1);
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        CLIENT_CHECK(inside == cuda_not_permitted);
        CLIENT_CHECK(readable == 0);
        cu::free(x);
    }));
}

TEST(SimulatedCuda, a_launch_that_fails_itself_says_so_and_is_sticky) {
    expect_reported(run_client([] {
                        Client c;
                        CLIENT_CHECK(cu::launch(c.function("give_up"), 1u, 1u, 1u, 1u, 1u, 1u, 0u,
                                                c.stream, static_cast<void**>(nullptr),
                                                static_cast<void**>(nullptr)) == cuda_success);
                        CLIENT_CHECK(cu::context_synchronize() == cuda_launch_failed);
                        CLIENT_CHECK(cu::context_synchronize() == cuda_launch_failed);
                    }),
                    "violation: kernel give_up: the kernel gave up");
}

TEST(SimulatedCuda, a_launch_outside_the_limits_is_refused) {
    expect_clean(run_client([] {
        Client c;
        Address x = c.allocate(4);
        void* parameters[] = {&x};
        Handle f = c.function("shared_bytes");
        auto launch = [&](unsigned grid_x, unsigned grid_y, unsigned block, unsigned shared) {
            return cu::launch(f, grid_x, grid_y, 1u, block, 1u, 1u, shared, c.stream, parameters,
                              static_cast<void**>(nullptr));
        };
        CLIENT_CHECK(launch(0, 1, 1, 0) == cuda_invalid_value);
        CLIENT_CHECK(launch(0x80000000u, 1, 1, 0) == cuda_invalid_value);
        CLIENT_CHECK(launch(1, 65536, 1, 0) == cuda_invalid_value);
        CLIENT_CHECK(launch(1, 1, 1025, 0) == cuda_invalid_value);
        CLIENT_CHECK(launch(1, 1, 1, 49153) == cuda_invalid_value);
        CLIENT_CHECK(launch(0x7fffffffu, 65535, 1024, 49152) == cuda_success);
        unsigned bytes = 0;
        CLIENT_CHECK(cu::copy_out(&bytes, x, sizeof bytes) == cuda_success);
        CLIENT_CHECK(bytes == 49152);
        cu::free(x);
    }));
}

TEST(SimulatedCuda, an_image_loaded_twice_has_its_variables_twice) {
    expect_clean(run_client([] {
        Client c;
        Handle second = nullptr, function = nullptr;
        CLIENT_CHECK(cu::module_load(&second, Client::image().data()) == cuda_success);
        CLIENT_CHECK(cu::module_function(&function, second, "count") == cuda_success);
        Address x = c.allocate(4);
        void* parameters[] = {&x};
        for (Handle f : {c.function("count"), c.function("count"), function}) {
            CLIENT_CHECK(cu::launch(f, 1u, 1u, 1u, 1u, 1u, 1u, 0u, c.stream, parameters,
                                    static_cast<void**>(nullptr)) == cuda_success);
        }
        int counted = 0;
        CLIENT_CHECK(cu::copy_out(&counted, x, sizeof counted) == cuda_success);
        CLIENT_CHECK(counted == 1);
        Address variable = 0;
        size_t size = 0;
        CLIENT_CHECK(cu::module_global(&variable, &size, c.module, "counter") == cuda_success);
        CLIENT_CHECK(cu::copy_out(&counted, variable, size) == cuda_success);
        CLIENT_CHECK(counted == 2);
        cu::free(x);
        cu::module_unload(second);
    }));
}

TEST(SimulatedCuda, foreign_ptx_and_other_programs_are_refused) {
    expect_clean(run_client([] {
        Client c;
        Handle module = nullptr;
        CLIENT_CHECK(cu::module_load(&module, ".version 8.0") == cuda_invalid_image);
        std::string other = Client::image();
        other[18] = static_cast<char>(190);  // e_machine: EM_CUDA
        CLIENT_CHECK(cu::module_load(&module, other.data()) == cuda_no_binary);
    }));
}

TEST(SimulatedCuda, a_kernel_of_a_library_launches_in_the_current_context) {
    expect_clean(run_client([] {
        Client c;
        Handle library = nullptr, kernel = nullptr;
        CLIENT_CHECK(cu::library_load(&library, Client::image().data(), nullptr, nullptr, 0u,
                                      nullptr, nullptr, 0u) == cuda_success);
        CLIENT_CHECK(cu::library_kernel(&kernel, library, "count") == cuda_success);
        Address x = c.allocate(4);
        void* parameters[] = {&x};
        CLIENT_CHECK(cu::launch(kernel, 1u, 1u, 1u, 1u, 1u, 1u, 0u, c.stream, parameters,
                                static_cast<void**>(nullptr)) == cuda_success);
        int counted = 0;
        CLIENT_CHECK(cu::copy_out(&counted, x, sizeof counted) == cuda_success);
        CLIENT_CHECK(counted == 1);
        cu::free(x);
        CLIENT_CHECK(cu::library_unload(library) == cuda_success);
    }));
}

TEST(SimulatedCuda, a_destroyed_context_is_an_error_wherever_it_is_current) {
    expect_clean(run_client([] {
        Handle context = nullptr, current = nullptr;
        CLIENT_CHECK(cu::init(0u) == cuda_success);
        CLIENT_CHECK(cu::context_synchronize() == cuda_invalid_context);
        CLIENT_CHECK(cu::context_create(&context, 0u, 0) == cuda_success);
        Address x = 0;
        CLIENT_CHECK(cu::alloc(&x, size_t{8}) == cuda_success);
        std::thread([&] { cu::context_destroy(context); }).join();
        CLIENT_CHECK(cu::context_get(&current) == cuda_success && current == context);
        CLIENT_CHECK(cu::context_synchronize() == cuda_context_is_destroyed);
        CLIENT_CHECK(cu::context_pop(&current) == cuda_success);
        CLIENT_CHECK(cu::context_push(context) == cuda_context_is_destroyed);
        CLIENT_CHECK(cu::sim_device_bytes() == 0);
    }));
}

TEST(SimulatedCuda, host_memory_has_two_answers) {
    expect_clean(run_client([] {
        Client c;
        int on_stack = 0;
        unsigned type = 7;
        auto address = reinterpret_cast<Address>(&on_stack);
        CLIENT_CHECK(cu::pointer_attribute(&type, 2, address) == cuda_invalid_value);
        int attributes[] = {2, 8};
        unsigned managed = 7;
        void* out[] = {&type, &managed};
        CLIENT_CHECK(cu::pointer_attributes(2u, attributes, out, address) == cuda_success);
        CLIENT_CHECK(type == 0 && managed == 0);
    }));
}

TEST(SimulatedCuda, managed_memory_is_of_device_type_and_pool_memory_has_no_context) {
    expect_clean(run_client([] {
        Client c;
        Address managed = 0, pooled = 0;
        CLIENT_CHECK(cu::alloc_managed(&managed, size_t{8}, 1u) == cuda_success);
        CLIENT_CHECK(cu::alloc_async(&pooled, size_t{8}, c.stream) == cuda_success);
        unsigned type = 0, is_managed = 0;
        CLIENT_CHECK(cu::pointer_attribute(&type, 2, managed) == cuda_success && type == 2);
        CLIENT_CHECK(cu::pointer_attribute(&is_managed, 8, managed) == cuda_success);
        CLIENT_CHECK(is_managed == 1);
        Handle context = &type;
        CLIENT_CHECK(cu::pointer_attribute(&context, 1, pooled + 4) == cuda_success);
        CLIENT_CHECK(context == nullptr);
        CLIENT_CHECK(cu::pointer_attribute(&context, 1, managed + 4) == cuda_success);
        CLIENT_CHECK(context == c.context);
        CLIENT_CHECK(cu::free(managed) == cuda_success);
        CLIENT_CHECK(cu::free_async(pooled, c.stream) == cuda_success);
    }));
}

TEST(SimulatedCuda, a_client_may_clean_up_while_the_process_exits) {
    expect_clean(run_client([] {
        static const auto* c = new Client;
        static Address x = c->floats(1, 2);
        CLIENT_CHECK(c->scale(x, 3, 1) == cuda_success);
        std::atexit([] {
            CLIENT_CHECK(cu::free(x) == cuda_success);
            delete c;
        });
    }));
}

TEST(SimulatedCuda, a_reset_primary_context_is_still_to_be_released) {
    expect_clean(run_client([] {
        Handle context = nullptr;
        CLIENT_CHECK(cu::init(0u) == cuda_success);
        CLIENT_CHECK(cu::primary_retain(&context, 0) == cuda_success);
        CLIENT_CHECK(cu::context_set(context) == cuda_success);
        CLIENT_CHECK(cu::primary_reset(0) == cuda_success);
        CLIENT_CHECK(cu::context_synchronize() == cuda_context_is_destroyed);
        CLIENT_CHECK(cu::primary_release(0) == cuda_success);
    }));
}

TEST(SimulatedCuda, many_threads_may_call_at_once) {
    expect_clean(run_client([] {
        Client c;
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&c] {
                CLIENT_CHECK(cu::context_set(c.context) == cuda_success);
                Handle stream = nullptr;
                CLIENT_CHECK(cu::stream_create(&stream, 1u) == cuda_success);
                for (int i = 0; i < 50; ++i) {
                    Address x = 0;
                    CLIENT_CHECK(cu::alloc_async(&x, size_t{4}, stream) == cuda_success);
                    CLIENT_CHECK(cu::fill_async(x, 0x3f800000u, size_t{1}, stream) == cuda_success);
                    CLIENT_CHECK(c.scale(x, 3, 1, stream) == cuda_success);
                    float value = 0;
                    CLIENT_CHECK(cu::copy_out_async(&value, x, size_t{4}, stream) == cuda_success);
                    CLIENT_CHECK(value == 3);
                    CLIENT_CHECK(cu::free_async(x, stream) == cuda_success);
                }
                CLIENT_CHECK(cu::stream_synchronize(stream) == cuda_success);
                CLIENT_CHECK(cu::stream_destroy(stream) == cuda_success);
            });
        }
        for (std::thread& thread : threads) thread.join();
    }));
}

TEST(SimulatedCuda, a_forked_child_is_not_initialised) {
    expect_clean(run_client([] {
        Client c;
        fflush(nullptr);
        pid_t child = fork();
        if (child == 0) {
            Handle stream = nullptr;
            bool refused = cu::stream_create(&stream, 0u) == cuda_not_initialized &&
                           cu::init(0u) == cuda_not_initialized;
            _exit(refused ? 0 : 1);
        }
        int status = -1;
        CLIENT_CHECK(waitpid(child, &status, 0) == child && status == 0);
    }));
}

TEST(SimulatedCuda, a_child_forked_before_initialisation_works) {
    expect_clean(run_client([] {
        CLIENT_CHECK(driver_library() != nullptr);
        fflush(nullptr);
        pid_t child = fork();
        if (child == 0) _exit(cu::init(0u));
        int status = -1;
        CLIENT_CHECK(waitpid(child, &status, 0) == child && status == 0);
    }));
}

}  // namespace
}  // namespace tack::test
