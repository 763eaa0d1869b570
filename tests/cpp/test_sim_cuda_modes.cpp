// What the environment makes of the simulated CUDA driver, memory as a file descriptor, and calls
// that are made to fail.
#include <sys/socket.h>

#include <cstring>

#include "sim_cuda_client.hpp"

namespace tack::test {
namespace {

void expect_clean(const Ending& ending) {
    EXPECT_EQ(ending.status, 0);
    EXPECT_EQ(ending.report, "");
}

// A faulty client of which only the errors it sees matter.
void expect_ran(const Ending& ending) { EXPECT_EQ(ending.status, 0); }

constexpr size_t page = 2 << 20;

struct AllocationProperties {
    int type = 1, handle_types = 1, location_type = 1, location = 0;
    void* security = nullptr;
    unsigned char flags[8] = {};
};

struct AccessDescription {
    int location_type = 1, location = 0, flags = 3;
};

// Memory mapped at addresses of its own.
struct Mapped {
    Address memory = 0, address = 0;

    void map(Address of_memory, bool accessible = true) {
        memory = of_memory;
        CLIENT_CHECK(cu::reserve(&address, page, size_t{0}, Address{0}, 0ull) == cuda_success);
        CLIENT_CHECK(cu::map(address, page, size_t{0}, memory, 0ull) == cuda_success);
        AccessDescription access;
        if (accessible) CLIENT_CHECK(cu::set_access(address, page, &access, size_t{1}) == 0);
    }
    void create() {
        AllocationProperties properties;
        Address made = 0;
        CLIENT_CHECK(cu::memory_create(&made, page, &properties, 0ull) == cuda_success);
        map(made);
    }
    void release() const {
        CLIENT_CHECK(cu::unmap(address, page) == cuda_success);
        CLIENT_CHECK(cu::memory_release(memory) == cuda_success);
        CLIENT_CHECK(cu::address_free(address, page) == cuda_success);
    }
};

void send_descriptor(int socket, int descriptor) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    CLIENT_CHECK(sendmsg(socket, &message, 0) == 1);
}

int receive_descriptor(int socket) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    CLIENT_CHECK(recvmsg(socket, &message, 0) == 1);
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

TEST(SimulatedCudaMemory, two_processes_share_memory_by_a_descriptor) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t owner = fork();
    if (owner == 0) {
        Ending ending = run_client([&] {
            Client c;
            Mapped mapped;
            mapped.create();
            CLIENT_CHECK(cu::fill(mapped.address, 0x40000000u, size_t{1}) == cuda_success);
            CLIENT_CHECK(cu::context_synchronize() == cuda_success);
            int descriptor = -1;
            CLIENT_CHECK(cu::export_handle(&descriptor, mapped.memory, 1, 0ull) == cuda_success);
            send_descriptor(sockets[0], descriptor);
            close(descriptor);
            char done;
            CLIENT_CHECK(read(sockets[0], &done, 1) == 1);
            CLIENT_CHECK(c.first(mapped.address) == 6);
            mapped.release();
        });
        _exit(ending.status == 0 && ending.report.empty() ? 0 : 1);
    }
    expect_clean(run_client([&] {
        Client c;
        int descriptor = receive_descriptor(sockets[1]);
        Address memory = 0;
        auto by_value = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
        CLIENT_CHECK(cu::import_handle(&memory, by_value, 1) == cuda_success);
        close(descriptor);
        Mapped mapped;
        mapped.map(memory);
        CLIENT_CHECK(c.scale(mapped.address, 3, 1) == cuda_success);
        CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
        mapped.release();
        CLIENT_CHECK(write(sockets[1], "", 1) == 1);
    }));
    int status = -1;
    waitpid(owner, &status, 0);
    EXPECT_EQ(status, 0);
    close(sockets[0]);
    close(sockets[1]);
}

TEST(SimulatedCudaMemory, a_descriptor_of_something_else_is_not_imported) {
    expect_clean(run_client([] {
        Client c;
        Address memory = 0;
        auto standard_error = reinterpret_cast<void*>(intptr_t{2});
        CLIENT_CHECK(cu::import_handle(&memory, standard_error, 1) == cuda_invalid_value);
    }));
}

TEST(SimulatedCudaMemory, an_exported_descriptor_that_stays_open_is_a_leak) {
    Ending ending = run_client([] {
        Client c;
        Mapped mapped;
        mapped.create();
        int descriptor = -1;
        CLIENT_CHECK(cu::export_handle(&descriptor, mapped.memory, 1, 0ull) == cuda_success);
        mapped.release();
    });
    EXPECT_TRUE(ending.says("tack-sim: leak: exported file descriptor")) << ending.report;
}

TEST(SimulatedCudaMemory, what_stays_of_mapped_memory_is_a_leak) {
    Ending ending = run_client([] {
        Client c;
        Mapped mapped;
        mapped.create();
    });
    for (const char* kind : {"memory allocation handle", "an address reservation", "a mapping"}) {
        EXPECT_TRUE(ending.says(std::string("tack-sim: leak: ") + kind)) << ending.report;
    }
}

TEST(SimulatedCudaMemory, mapped_memory_without_access_faults) {
    expect_clean(run_client([] {
        Client c;
        Mapped mapped;
        mapped.create();
        CLIENT_CHECK(cu::fill(mapped.address, 0u, size_t{1}) == cuda_success);
        CLIENT_CHECK(cu::context_synchronize() == cuda_success);
        mapped.release();
    }));
    expect_ran(run_client([] {
        Client c;
        AllocationProperties properties;
        Address memory = 0;
        CLIENT_CHECK(cu::memory_create(&memory, page, &properties, 0ull) == cuda_success);
        Mapped mapped;
        mapped.map(memory, false);
        CLIENT_CHECK(cu::fill(mapped.address, 0u, size_t{1}) == cuda_success);
        CLIENT_CHECK(cu::context_synchronize() == cuda_illegal_address);
    }));
}

TEST(SimulatedCudaMemory, unmapping_under_queued_work_is_reported) {
    Ending ending = run_client([] {
        Client c;
        Mapped mapped;
        mapped.create();
        CLIENT_CHECK(cu::fill_async(mapped.address, 0u, size_t{1}, c.stream) == cuda_success);
        mapped.release();
    });
    EXPECT_TRUE(ending.says("tack-sim: violation: cuMemUnmap: a mapping at 0x")) << ending.report;
}

TEST(SimulatedCudaMemory, sizes_are_whole_pages_of_two_mebibytes) {
    expect_clean(run_client([] {
        Client c;
        AllocationProperties properties;
        Address memory = 0, address = 0;
        CLIENT_CHECK(cu::memory_create(&memory, page + 1, &properties, 0ull) == cuda_invalid_value);
        CLIENT_CHECK(cu::reserve(&address, page / 2, size_t{0}, Address{0}, 0ull) ==
                     cuda_invalid_value);
    }));
}

TEST(SimulatedCudaModes, without_devices_initialisation_says_so) {
    expect_clean(run_client([] { CLIENT_CHECK(cu::init(0u) == cuda_no_device); },
                            {{"TACK_SIM_DEVICES", "0"}}));
}

TEST(SimulatedCudaModes, a_kernel_cannot_reach_the_memory_of_a_second_device) {
    expect_ran(run_client(
        [] {
            Client c;
            int count = 0;
            CLIENT_CHECK(cu::device_count(&count) == cuda_success && count == 2);
            Handle second = nullptr;
            CLIENT_CHECK(cu::primary_retain(&second, 1) == cuda_success);
            CLIENT_CHECK(cu::context_set(second) == cuda_success);
            Address far = c.floats(1, 2);
            CLIENT_CHECK(cu::context_synchronize() == cuda_success);
            CLIENT_CHECK(cu::context_set(c.context) == cuda_success);
            Address near = c.floats(1, 0);
            CLIENT_CHECK(cu::copy_async(near, far, size_t{4}, c.stream) == cuda_success);
            CLIENT_CHECK(c.first(near) == 2);
            CLIENT_CHECK(c.scale(far, 3, 1) == cuda_success);
            CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_illegal_address);
        },
        {{"TACK_SIM_DEVICES", "2"}}));
}

TEST(SimulatedCudaModes, a_missing_entry_point_is_found_in_no_way) {
    expect_clean(run_client(
        [] {
            void* function = &function;
            int status = 0;
            CLIENT_CHECK(cu::proc_address("cuMemAllocAsync", &function, 12000, uint64_t{0},
                                          &status) == cuda_not_found);
            CLIENT_CHECK(function == nullptr && status == 1);
            CLIENT_CHECK(dlsym(driver_library(), "cuMemAllocAsync") == nullptr);
            CLIENT_CHECK(dlsym(driver_library(), "cuMemFreeAsync") != nullptr);
        },
        {{"TACK_SIM_MISSING", "cuMemAllocAsync,cuMemMap"}}));
}

TEST(SimulatedCudaModes, a_name_with_two_versions_gives_the_one_asked_for) {
    expect_clean(run_client([] {
        void *old = nullptr, *young = nullptr, *none = &none;
        int status = 0;
        CLIENT_CHECK(cu::proc_address("cuCtxCreate", &old, 12000, uint64_t{0}, &status) == 0);
        CLIENT_CHECK(cu::proc_address("cuCtxCreate", &young, 13000, uint64_t{0}, &status) == 0);
        CLIENT_CHECK(old == dlsym(driver_library(), "cuCtxCreate_v3"));
        CLIENT_CHECK(young == dlsym(driver_library(), "cuCtxCreate_v4"));
        CLIENT_CHECK(cu::proc_address("cuMemAllocAsync", &none, 11000, uint64_t{0}, &status) ==
                     cuda_not_found);
        CLIENT_CHECK(none == nullptr && status == 2);
        CLIENT_CHECK(cu::proc_address("cuMemAlloc_v2", &none, 12000, uint64_t{0}, &status) ==
                     cuda_not_found);
        CLIENT_CHECK(status == 1);
    }));
}

TEST(SimulatedCudaModes, an_old_driver_lacks_what_came_later) {
    expect_clean(run_client(
        [] {
            int version = 0;
            CLIENT_CHECK(cu::driver_version(&version) == cuda_success && version == 11020);
            CLIENT_CHECK(dlsym(driver_library(), "cuGetProcAddress") == nullptr);
            CLIENT_CHECK(dlsym(driver_library(), "cuGetProcAddress_v2") == nullptr);
            CLIENT_CHECK(dlsym(driver_library(), "cuMemAllocAsync") != nullptr);
        },
        {{"TACK_SIM_DRIVER_VERSION", "11020"}}));
    expect_clean(run_client(
        [] {
            CLIENT_CHECK(dlsym(driver_library(), "cuGetProcAddress") != nullptr);
            CLIENT_CHECK(dlsym(driver_library(), "cuLibraryLoadData") == nullptr);
        },
        {{"TACK_SIM_DRIVER_VERSION", "11040"}}));
}

TEST(SimulatedCudaModes, without_pools_or_mapping_the_attributes_and_calls_say_so) {
    expect_clean(run_client(
        [] {
            Client c;
            int pools = 1, mapping = 1;
            CLIENT_CHECK(cu::device_attribute(&pools, 115, 0) == cuda_success && pools == 0);
            CLIENT_CHECK(cu::device_attribute(&mapping, 102, 0) == cuda_success && mapping == 0);
            Address x = 0;
            CLIENT_CHECK(cu::alloc_async(&x, size_t{8}, c.stream) == cuda_not_supported);
            AllocationProperties properties;
            CLIENT_CHECK(cu::memory_create(&x, page, &properties, 0ull) == cuda_not_supported);
        },
        {{"TACK_SIM_NO_POOLS", "1"}, {"TACK_SIM_NO_VMM", "1"}}));
}

TEST(SimulatedCudaModes, a_part_of_a_device_has_a_uuid_of_its_own) {
    auto compare = [](bool same) {
        return [same] {
            CLIENT_CHECK(cu::init(0u) == cuda_success);
            unsigned char of_device[16], of_part[16];
            CLIENT_CHECK(cu::device_uuid(of_device, 0) == cuda_success);
            CLIENT_CHECK(cu::device_uuid_v2(of_part, 0) == cuda_success);
            CLIENT_CHECK((std::memcmp(of_device, of_part, 16) == 0) == same);
        };
    };
    expect_clean(run_client(compare(true)));
    expect_clean(run_client(compare(false), {{"TACK_SIM_MIG", "1"}}));
}

TEST(SimulatedCudaModes, memory_runs_out_and_comes_back) {
    expect_clean(run_client(
        [] {
            Client c;
            Address x = c.allocate(600), y = 0;
            CLIENT_CHECK(cu::alloc(&y, size_t{600}) == cuda_out_of_memory);
            CLIENT_CHECK(cu::free(x) == cuda_success);
            CLIENT_CHECK(cu::alloc(&y, size_t{600}) == cuda_success);
            size_t left = 0, total = 0;
            CLIENT_CHECK(cu::memory_info(&left, &total) == cuda_success);
            CLIENT_CHECK(left == 400 && total == 1000);
            CLIENT_CHECK(cu::free(y) == cuda_success);
        },
        {{"TACK_SIM_MEMORY", "1000"}}));
}

// ml-explore/mlx#3645: the host must not touch managed memory there while work is queued.
TEST(SimulatedCudaModes, managed_memory_is_closed_while_work_is_queued_without_concurrent_access) {
    expect_clean(run_client(
        [] {
            Client c;
            Address x = 0;
            CLIENT_CHECK(cu::alloc_managed(&x, size_t{4}, 1u) == cuda_success);
            auto* value = reinterpret_cast<volatile float*>(x);
            *value = 2;
            CLIENT_CHECK(c.scale(x, 3, 1) == cuda_success);
            CLIENT_CHECK(cu::sim_host_can_read(reinterpret_cast<void*>(x)) == 0);
            CLIENT_CHECK(cu::stream_synchronize(c.stream) == cuda_success);
            CLIENT_CHECK(*value == 6);
            CLIENT_CHECK(cu::free(x) == cuda_success);
        },
        {{"TACK_SIM_CONCURRENT_MANAGED", "0"}}));
}

TEST(SimulatedCudaModes, the_call_named_by_the_environment_fails) {
    expect_clean(run_client(
        [] {
            Client c;
            Address x = c.allocate(8), y = 0;
            CLIENT_CHECK(cu::alloc(&y, size_t{8}) == cuda_out_of_memory);
            CLIENT_CHECK(cu::alloc(&y, size_t{8}) == cuda_success);
            CLIENT_CHECK(cu::free(x) == 999);
            CLIENT_CHECK(cu::free(x) == cuda_success);
            CLIENT_CHECK(cu::free(y) == cuda_success);
        },
        {{"TACK_SIM_FAIL", "cuMemAlloc_v2:2:2,cuMemFree:1"}}));
}

TEST(SimulatedCudaModes, calls_are_counted_however_the_entry_point_was_found) {
    expect_clean(run_client([] {
        Client c;
        void* found = nullptr;
        int status = 0;
        CLIENT_CHECK(cu::proc_address("cuCtxSynchronize", &found, 12000, uint64_t{0}, &status) ==
                     cuda_success);
        CLIENT_CHECK(cu::sim_call_count("cuCtxSynchronize") == 0);
        CLIENT_CHECK(reinterpret_cast<int (*)()>(found)() == cuda_success);
        CLIENT_CHECK(cu::context_synchronize() == cuda_success);
        CLIENT_CHECK(cu::sim_call_count("cuCtxSynchronize") == 2);
        CLIENT_CHECK(cu::sim_fail("cuCtxSynchronize:3:700") == 0);
        CLIENT_CHECK(reinterpret_cast<int (*)()>(found)() == cuda_illegal_address);
        CLIENT_CHECK(cu::context_synchronize() == cuda_success);
        CLIENT_CHECK(cu::sim_fail("cuCtxSynchronize:often") == 1);
        CLIENT_CHECK(cu::sim_fail("") == 0);
    }));
}

// NVRTC asks any libcuda.so.1 that initialises for its export tables.
TEST(SimulatedCudaModes, export_tables_are_refused_and_not_absent) {
    expect_clean(run_client([] {
        const void* table = &table;
        unsigned char id[16] = {};
        CLIENT_CHECK(cu::export_table(&table, id) == cuda_not_found);
        CLIENT_CHECK(table == nullptr);
    }));
}

}  // namespace
}  // namespace tack::test
