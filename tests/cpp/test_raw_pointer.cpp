#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "support.hpp"
#include "tack/array.hpp"

namespace tack {
namespace {

using test::expect_error;

/// Two pages with the given protections, between two that are not mapped.
struct Pages {
    Pages(int first, int second)
        : size(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
          all(static_cast<char*>(
              mmap(nullptr, (3 + gap) * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
        munmap(all, size);
        munmap(all + 3 * size, gap * size);
        mprotect(begin(), size, first);
        mprotect(begin() + size, size, second);
    }
    Pages(const Pages&) = delete;
    ~Pages() { munmap(begin(), 2 * size); }

    char* begin() const { return all + size; }
    std::int64_t bytes() const { return static_cast<std::int64_t>(2 * size); }

    // What maps memory meanwhile gets the upper end of this hole, away from the two pages.
    static constexpr std::size_t gap = 4096;
    const std::size_t size;
    char* const all;
};
constexpr int read_write = PROT_READ | PROT_WRITE;

TEST(ArrayFromPtr, is_the_callers_memory) {
    Array values = zeros({6});
    const Array array = array_from_ptr(values.ptr(), DType::float32, {2, 3});
    EXPECT_EQ(array.ptr(), values.ptr());
    EXPECT_EQ(array.shape(), Shape({2, 3}));
    EXPECT_EQ(array.dtype(), DType::float32);
    fill(values, 50.0);
    EXPECT_EQ(array.to_vector<float>()[4], 50);
}

TEST(ArrayFromPtr, leaves_the_memory_to_the_caller) {
    const Array values = from_vector(std::vector<std::int32_t>{7});
    {
        const Array array = array_from_ptr(values.ptr(), DType::int32, {1});
    }
    EXPECT_EQ(values.to_vector<std::int32_t>()[0], 7);
}

TEST(ArrayFromPtr, is_read_only_unless_asked) {
    const Array value = zeros({1}, DType::int32);
    EXPECT_FALSE(array_from_ptr(value.ptr(), DType::int32, {1}).writable());
    Array writable = array_from_ptr(value.ptr(), DType::int32, {1}, {}, true);
    fill(writable, std::int64_t{9});
    EXPECT_EQ(value.to_vector<std::int32_t>()[0], 9);
}

TEST(ArrayFromPtr, is_read_only_over_const_memory) {
    const Array value = zeros({1}, DType::int32);
    const void* address = value.ptr();
    EXPECT_FALSE(array_from_ptr(address, DType::int32, {1}).writable());
}

TEST(ArrayFromPtr, is_shared_from_the_start) {
    const Array value = zeros({1}, DType::int32);
    EXPECT_TRUE(array_from_ptr(value.ptr(), DType::int32, {1}).state()->buffer->shared());
}

TEST(ArrayFromPtr, without_dimensions_is_one_element) {
    const Array value = full({1}, 42, DType::int32);
    EXPECT_EQ(array_from_ptr(value.ptr(), DType::int32, {}).to_vector<std::int32_t>()[0], 42);
}

TEST(ArrayFromPtr, null_is_refused_where_there_are_elements) {
    expect_error(ErrorKind::value, {"array_from_ptr: ", "null", "(2, 3)"},
                 [] { array_from_ptr(nullptr, DType::float32, {2, 3}, {}, true); });
    expect_error(ErrorKind::value, {"null"},
                 [] { array_from_ptr(nullptr, DType::float32, {}, {}, true); });
}

TEST(ArrayFromPtr, null_is_accepted_where_there_are_none) {
    const Array array = array_from_ptr(nullptr, DType::float32, {0, 3}, {}, true);
    EXPECT_EQ(array.size(), 0);
    EXPECT_EQ(array.ptr(), nullptr);
    EXPECT_TRUE(array.writable());
}

struct ArrayFromPtrOf : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(DTypes, ArrayFromPtrOf, testing::Range(0, dtype_count));

TEST_P(ArrayFromPtrOf, an_address_must_be_a_multiple_of_the_element) {
    const auto dtype = static_cast<DType>(GetParam());
    const Array owner = zeros({32}, DType::uint8);
    char* const memory = static_cast<char*>(owner.ptr());
    for (std::int64_t offset = 0; offset < itemsize(dtype); ++offset) {
        if (offset == 0) {
            EXPECT_EQ(array_from_ptr(memory, dtype, {2}).ptr(), static_cast<void*>(memory));
        } else {
            expect_error(ErrorKind::value,
                         {"array_from_ptr: ", std::to_string(offset) + " bytes past", name(dtype)},
                         [&] { array_from_ptr(memory + offset, dtype, {2}); });
        }
    }
}

TEST(ArrayFromPtr, a_shape_beyond_int64_is_refused) {
    constexpr std::int64_t wide = std::int64_t{1} << 32;
    double value = 0;
    expect_error(ErrorKind::value, {"array_from_ptr: shape (4294967296, 4294967296)"},
                 [&] { array_from_ptr(&value, DType::float64, {wide, wide}); });
    expect_error(ErrorKind::value, {"array_from_ptr: ", "negative"},
                 [&] { array_from_ptr(&value, DType::float64, {-1}); });
}

TEST(ArrayFromPtr, a_range_beyond_the_end_of_memory_is_refused) {
    void* last = reinterpret_cast<void*>(std::numeric_limits<std::uintptr_t>::max() - 7);
    expect_error(ErrorKind::value, {"array_from_ptr: 16 bytes", "end of memory"},
                 [&] { array_from_ptr(last, DType::float64, {2}, {}, true); });
}

TEST(ArrayFromPtr, a_whole_mapping_is_accepted) {
    const Pages pages(read_write, read_write);
    EXPECT_EQ(array_from_ptr(pages.begin(), DType::uint8, {pages.bytes()}, {}, true).nbytes(),
              pages.bytes());
}

TEST(ArrayFromPtr, a_range_that_begins_or_ends_outside_a_mapping_is_refused) {
    const Pages pages(read_write, read_write);
    for (const bool writable : {false, true}) {
        expect_error(ErrorKind::value, {"array_from_ptr: address 0x", "not mapped"},
                     [&] { array_from_ptr(pages.begin() - 1, DType::uint8, {2}, {}, writable); });
        expect_error(ErrorKind::value, {"not mapped", std::to_string(pages.bytes() + 1)}, [&] {
            array_from_ptr(pages.begin(), DType::uint8, {pages.bytes() + 1}, {}, writable);
        });
    }
}

TEST(ArrayFromPtr, a_page_without_any_right_is_refused) {
    const Pages pages(read_write, PROT_NONE);
    expect_error(ErrorKind::value, {"not mapped for reading"},
                 [&] { array_from_ptr(pages.begin(), DType::uint8, {pages.bytes()}); });
    EXPECT_EQ(array_from_ptr(pages.begin(), DType::uint8, {pages.bytes() / 2}).ptr(),
              pages.begin());
}

TEST(ArrayFromPtr, read_only_pages_are_accepted_for_reading_only) {
    const Pages pages(PROT_READ, PROT_READ);
    EXPECT_FALSE(array_from_ptr(pages.begin(), DType::uint8, {pages.bytes()}).writable());
    expect_error(ErrorKind::value, {"not mapped for writing", "writable=false"},
                 [&] { array_from_ptr(pages.begin(), DType::uint8, {pages.bytes()}, {}, true); });
}

// The kernel maps this page for its clock as a driver maps device memory: it is readable, but
// the advice that probes ordinary pages refuses it.
TEST(ArrayFromPtr, a_page_mapped_by_a_driver_is_accepted_with_its_rights) {
    std::uintptr_t address = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; address == 0 && std::getline(maps, line);)
        if (line.find("[vvar]") != line.npos) address = std::stoull(line, nullptr, 16);
    if (address == 0) GTEST_SKIP() << "this kernel maps no [vvar] page";
    void* page = reinterpret_cast<void*>(address);
    EXPECT_EQ(array_from_ptr(page, DType::uint8, {1}).ptr(), page);
    expect_error(ErrorKind::value, {"not mapped for writing"},
                 [&] { array_from_ptr(page, DType::uint8, {1}, {}, true); });
}

TEST(ArrayFromPtr, the_check_keeps_the_data_and_errno) {
    std::vector<char> values(100000, 'x');
    errno = EDOM;
    array_from_ptr(values.data(), DType::uint8, {100000}, {}, true);
    EXPECT_EQ(errno, EDOM);
    EXPECT_EQ(values, std::vector<char>(100000, 'x'));
}

TEST(ArrayFromPtr, an_address_of_a_device_is_not_looked_at_by_the_host) {
    void* address = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
    const Device far = test::far_device();
    const Array array = array_from_ptr(address, DType::float32, {8}, far);
    EXPECT_EQ(array.ptr(), address);
    EXPECT_EQ(array.device(), far);
}

}  // namespace
}  // namespace tack
