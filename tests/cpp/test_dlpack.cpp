#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"
#include "tack/dlpack.hpp"

namespace tack {
namespace {

using test::expect_error;
using test::far_device;
using test::Legacy;
using test::Versioned;

/// A refused import: the tensor is still its producer's.
template <class Producer>
void expect_refused(Producer& producer, ErrorKind kind,
                    std::initializer_list<std::string_view> fragments, const Device& device = {}) {
    expect_error(kind, fragments, [&] { producer.import(device); });
    EXPECT_EQ(producer.deleted, 0);
}

template <class Producer>
struct FromDlpackEach : testing::Test {};
using Layouts = testing::Types<Legacy, Versioned>;
TYPED_TEST_SUITE(FromDlpackEach, Layouts);

// ---- import: memory and lifetime ----

TYPED_TEST(FromDlpackEach, is_the_producers_memory) {
    TypeParam producer;
    Array array = producer.import();
    EXPECT_EQ(array.ptr(), producer.elements);
    EXPECT_EQ(array.shape(), Shape({2, 3}));
    EXPECT_EQ(array.dtype(), DType::int32);
    EXPECT_EQ(array.device(), device(test::backend));
    EXPECT_TRUE(array.state()->buffer->shared());
}

// NVIDIA/cuda-python#1043, NVIDIA/cudf#5212: the deleter is never called.
TYPED_TEST(FromDlpackEach, the_deleter_is_called_once_with_the_last_array) {
    TypeParam producer;
    {
        const Array array = producer.import();
        const Array same = array;
        EXPECT_EQ(producer.deleted, 0);
    }
    EXPECT_EQ(producer.deleted, 1);
}

// numpy/numpy#21119: views of an import outlive its owner.
TYPED_TEST(FromDlpackEach, a_reshape_keeps_the_producer) {
    TypeParam producer;
    Array view = producer.import().reshape({6});
    EXPECT_EQ(producer.deleted, 0);
    EXPECT_EQ(view.to_vector<std::int32_t>()[5], 5);
    view = Array();
    EXPECT_EQ(producer.deleted, 1);
}

TYPED_TEST(FromDlpackEach, an_export_keeps_the_producer) {
    TypeParam producer;
    auto* exported = to_dlpack(producer.import());
    EXPECT_EQ(producer.deleted, 0);
    exported->deleter(exported);
    EXPECT_EQ(producer.deleted, 1);
}

TYPED_TEST(FromDlpackEach, the_last_array_may_go_on_another_thread) {
    TypeParam producer;
    std::thread([array = producer.import()]() mutable { array = Array(); }).join();
    EXPECT_EQ(producer.deleted, 1);
}

// pytorch/pytorch#43166: a deleter may be NULL.
TYPED_TEST(FromDlpackEach, a_null_deleter_is_accepted_and_the_tensor_not_kept) {
    std::int64_t extent = 2;
    const Array elements = from_vector(std::vector<std::int32_t>{8, 9});
    Array array;
    {
        TypeParam producer;
        producer.managed.deleter = nullptr;
        producer.tensor().data = elements.ptr();
        producer.tensor().ndim = 1;
        producer.tensor().shape = &extent;
        producer.tensor().strides = nullptr;
        array = producer.import();
        extent = 0;
    }
    EXPECT_EQ(array.to_vector<std::int32_t>(), (std::vector<std::int32_t>{8, 9}));
}

TYPED_TEST(FromDlpackEach, a_null_tensor_is_refused) {
    expect_error(ErrorKind::value, {"from_dlpack: ", "null"},
                 [] { from_dlpack(static_cast<decltype(TypeParam::managed)*>(nullptr)); });
}

// numpy/numpy#28599: imports are never writable.
TYPED_TEST(FromDlpackEach, is_writable_unless_told) {
    TypeParam producer;
    Array array = producer.import();
    ASSERT_TRUE(array.writable());
    fill(array, std::int64_t{9});
    EXPECT_EQ(producer.memory.template to_vector<std::int32_t>()[3], 9);
}

TYPED_TEST(FromDlpackEach, the_caller_may_ask_for_read_only) {
    TypeParam producer;
    EXPECT_FALSE(producer.import({}, false).writable());
}

TEST(FromDlpack, the_read_only_flag_is_honoured) {
    Versioned producer;
    producer.managed.flags = dlpack::flag_read_only;
    EXPECT_FALSE(producer.import({}, true).writable());
}

TEST(FromDlpack, other_flags_leave_an_array_writable) {
    Versioned producer;
    producer.managed.flags = dlpack::flag_is_copied | dlpack::flag_subbyte_padded;
    EXPECT_TRUE(producer.import().writable());
}

// ---- import: versions ----

TEST(FromDlpack, any_minor_version_is_accepted) {
    Versioned producer;
    producer.managed.version = {1, 99};
    EXPECT_EQ(producer.import().size(), 6);
}

TEST(FromDlpack, a_later_major_version_is_given_back_unread) {
    Versioned producer;
    producer.managed.version = {2, 0};
    producer.tensor().ndim = -1;
    producer.tensor().dtype = {255, 3, 0};
    expect_error(ErrorKind::value, {"from_dlpack: ", "DLPack 2.0"}, [&] { producer.import(); });
    EXPECT_EQ(producer.deleted, 1);
}

TEST(FromDlpack, a_later_major_version_without_a_deleter_is_refused_too) {
    Versioned producer;
    producer.managed.version = {3, 1};
    producer.managed.deleter = nullptr;
    expect_error(ErrorKind::value, {"DLPack 3.1"}, [&] { producer.import(); });
}

// ---- import: layout ----

// cupy/cupy#2095, apache/arrow#51122: strides are NULL for C-contiguous data.
TYPED_TEST(FromDlpackEach, null_strides_mean_c_order) {
    TypeParam producer;
    producer.tensor().strides = nullptr;
    EXPECT_EQ(producer.import().shape(), Shape({2, 3}));
}

// pytorch/pytorch#99803: shape (1, 77) with strides (1, 1).
// mitsuba-renderer/drjit#122: a dimension of one element with stride 0.
TYPED_TEST(FromDlpackEach, a_dimension_of_one_element_may_have_any_stride) {
    for (const std::int64_t stride : {0, 1, 6, -5, 1000000}) {
        TypeParam producer;
        producer.layout({1, 6}, {stride, 1});
        EXPECT_EQ(producer.import().shape(), Shape({1, 6}));
        producer.layout({6, 1}, {1, stride});
        EXPECT_EQ(producer.import().shape(), Shape({6, 1}));
        producer.layout({2, 1, 3}, {3, stride, 1});
        EXPECT_EQ(producer.import().shape(), Shape({2, 1, 3}));
    }
}

// NVIDIA/cudf#11449: strides of an empty tensor are 0 here and 1 there.
// wjakob/nanobind#1298: a tensor of no elements aborts the process.
TYPED_TEST(FromDlpackEach, a_tensor_of_no_elements_may_have_any_strides_and_address) {
    for (const std::int64_t stride : {0, 1, 3, -7}) {
        for (void* data : {static_cast<void*>(nullptr), reinterpret_cast<void*>(1)}) {
            TypeParam producer;
            producer.layout({2, 0, 3}, {stride, stride, stride});
            producer.tensor().data = data;
            const Array array = producer.import();
            EXPECT_EQ(array.shape(), Shape({2, 0, 3}));
            EXPECT_EQ(array.nbytes(), 0);
        }
    }
}

// NVIDIA/cccl#11605: shape {0, 3} with data NULL.
TYPED_TEST(FromDlpackEach, null_data_is_legal_without_elements_whatever_the_offset) {
    TypeParam producer;
    producer.layout({0, 3}, {3, 1});
    producer.tensor().data = nullptr;
    producer.tensor().byte_offset = 12;
    EXPECT_EQ(producer.import().ptr(), nullptr);
}

TYPED_TEST(FromDlpackEach, null_data_is_refused_where_there_are_elements) {
    TypeParam producer;
    producer.tensor().data = nullptr;
    producer.tensor().byte_offset = 64;
    expect_refused(producer, ErrorKind::value, {"from_dlpack: ", "null", "(2, 3)"});
}

// numpy/numpy#29872: zero dimensions, whose shape and strides may be NULL.
TYPED_TEST(FromDlpackEach, zero_dimensions_are_one_element) {
    TypeParam producer;
    fill(producer.memory, std::int64_t{41});
    producer.layout({}, {});
    producer.tensor().shape = nullptr;
    producer.tensor().strides = nullptr;
    const Array array = producer.import();
    EXPECT_EQ(array.ndim(), 0);
    EXPECT_EQ(array.to_vector<std::int32_t>(), std::vector<std::int32_t>{41});
}

TYPED_TEST(FromDlpackEach, many_dimensions_are_accepted_and_too_many_refused) {
    TypeParam producer;
    producer.layout(std::vector<std::int64_t>(64, 1), std::vector<std::int64_t>(64, 1));
    EXPECT_EQ(producer.import().ndim(), 64);
    EXPECT_EQ(producer.deleted, 1);
    producer.layout(std::vector<std::int64_t>(65, 1), std::vector<std::int64_t>(65, 1));
    expect_error(ErrorKind::value, {"from_dlpack: ", "65 dimensions"}, [&] { producer.import(); });
    EXPECT_EQ(producer.deleted, 1);
}

TYPED_TEST(FromDlpackEach, a_tensor_without_a_usable_shape_is_refused) {
    TypeParam producer;
    producer.tensor().ndim = -1;
    expect_refused(producer, ErrorKind::value, {"from_dlpack: ", "-1 dimensions"});
    producer.tensor().ndim = 2;
    producer.tensor().shape = nullptr;
    expect_refused(producer, ErrorKind::value, {"2 dimensions and no shape"});
}

// NVIDIA/cuda-python#2592, NVIDIA/warp#1573, pytorch/pytorch#168177: byte_offset is ignored.
TYPED_TEST(FromDlpackEach, the_byte_offset_counts) {
    TypeParam producer;
    producer.layout({2}, {1});
    producer.tensor().byte_offset = 8;
    const Array array = producer.import();
    EXPECT_EQ(array.ptr(), producer.elements + 2);
    EXPECT_EQ(array.to_vector<std::int32_t>(), (std::vector<std::int32_t>{2, 3}));
}

TYPED_TEST(FromDlpackEach, a_byte_offset_beyond_the_end_of_memory_is_refused) {
    TypeParam producer;
    producer.tensor().byte_offset = std::numeric_limits<std::uint64_t>::max() - 3;
    expect_refused(producer, ErrorKind::value, {"from_dlpack: ", "byte_offset", "end of memory"});
}

// pytorch/pytorch#188023, tensorflow/tensorflow#51598: negative strides abort the process.
TYPED_TEST(FromDlpackEach, negative_strides_are_refused) {
    TypeParam producer;
    producer.tensor().data = producer.elements + 5;
    producer.layout({6}, {-1});
    expect_refused(producer, ErrorKind::non_contiguous, {"(-1,)", "(6,)", "expected (1,)"});
}

// jax-ml/jax#17784: a transposed tensor is silently read in the wrong order.
TYPED_TEST(FromDlpackEach, a_transposed_tensor_is_refused) {
    TypeParam producer;
    producer.layout({3, 2}, {1, 3});
    expect_refused(producer, ErrorKind::non_contiguous,
                   {"from_dlpack: strides (1, 3) of shape (3, 2) are not C-contiguous "
                    "(expected (2, 1))",
                    "contiguous copy", "copy=True"});
}

TYPED_TEST(FromDlpackEach, gaps_and_broadcasts_are_refused) {
    TypeParam producer;
    producer.layout({2, 2}, {3, 1});
    expect_refused(producer, ErrorKind::non_contiguous, {"(3, 1)"});
    producer.layout({2, 3}, {0, 1});
    expect_refused(producer, ErrorKind::non_contiguous, {"(0, 1)"});
    producer.layout({3}, {2});
    expect_refused(producer, ErrorKind::non_contiguous, {"(2,)"});
}

// jax-ml/jax#29810: unaligned data is silently copied.
TYPED_TEST(FromDlpackEach, misaligned_data_is_refused) {
    TypeParam producer;
    producer.layout({2}, {1});
    producer.tensor().byte_offset = 2;
    expect_refused(producer, ErrorKind::value, {"from_dlpack: ", "2 bytes past", "int32"});
    producer.tensor().byte_offset = 0;
    producer.tensor().data = reinterpret_cast<char*>(producer.elements) + 1;
    expect_refused(producer, ErrorKind::value, {"1 bytes past"});
}

TYPED_TEST(FromDlpackEach, alignment_is_that_of_the_element_and_no_more) {
    TypeParam producer;
    producer.layout({2}, {1});
    producer.tensor().data = producer.elements + 1;
    EXPECT_EQ(producer.import().ptr(), producer.elements + 1);
}

// tensorflow/tensorflow#116201: the extents' product wraps around to 0.
TYPED_TEST(FromDlpackEach, extents_that_overflow_are_refused) {
    constexpr std::int64_t wide = std::int64_t{1} << 32;
    TypeParam producer;
    producer.layout({wide, wide}, {wide, 1});
    expect_refused(producer, ErrorKind::value, {"from_dlpack: shape (4294967296, 4294967296)"});
    producer.layout({std::numeric_limits<std::int64_t>::max() / 4 + 1}, {1});
    expect_refused(producer, ErrorKind::value, {"4-byte"});
    producer.layout({-2, 3}, {3, 1});
    expect_refused(producer, ErrorKind::value, {"negative"});
}

// ---- import: dtypes ----

struct DTypeExchange : testing::TestWithParam<int> {
    DType dtype() const { return static_cast<DType>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Each, DTypeExchange, testing::Range(0, dtype_count));

// cupy/cupy#9480: bfloat16 is not exchanged; here every dtype is.
TEST_P(DTypeExchange, goes_out_and_comes_back) {
    const Array array = full({3}, 1, dtype());
    const Array back = from_dlpack(to_dlpack_versioned(array));
    EXPECT_EQ(back.dtype(), dtype());
    EXPECT_EQ(back.ptr(), array.ptr());
}

TEST_P(DTypeExchange, says_its_bits_and_one_lane) {
    auto* exported = to_dlpack(empty({1}, dtype()));
    EXPECT_EQ(exported->dl_tensor.dtype.bits, 8 * itemsize(dtype()));
    EXPECT_EQ(exported->dl_tensor.dtype.lanes, 1);
    exported->deleter(exported);
}

TEST(DTypeCodes, are_those_of_dlpack) {
    const auto code_of = [](DType dtype) {
        auto* exported = to_dlpack(empty({1}, dtype));
        const int code = exported->dl_tensor.dtype.code;
        exported->deleter(exported);
        return code;
    };
    EXPECT_EQ(code_of(DType::int8), 0);
    EXPECT_EQ(code_of(DType::int64), 0);
    EXPECT_EQ(code_of(DType::uint8), 1);
    EXPECT_EQ(code_of(DType::uint64), 1);
    EXPECT_EQ(code_of(DType::float16), 2);
    EXPECT_EQ(code_of(DType::float64), 2);
    EXPECT_EQ(code_of(DType::bfloat16), 4);
    EXPECT_EQ(code_of(DType::bool_), 6);
}

// pytorch/pytorch#114673, jax-ml/jax#19352: bool is exchanged as bool.
TEST(FromDlpack, bool_has_8_bits) {
    Versioned producer;
    producer.tensor().dtype = {dlpack::code_bool, 8, 1};
    EXPECT_EQ(producer.import().dtype(), DType::bool_);
    producer.tensor().dtype = {dlpack::code_bool, 1, 1};
    expect_error(ErrorKind::type, {"bool1", "1 bits"}, [&] { producer.import(); });
}

struct ForeignType {
    dlpack::DataType type;
    const char* text;
};
struct ForeignTypes : testing::TestWithParam<ForeignType> {};

// pytorch/pytorch#171820: a float8 exchange that throws leaks its tensor.
TEST_P(ForeignTypes, are_refused_by_name_and_left_to_the_producer) {
    Versioned producer;
    producer.tensor().dtype = GetParam().type;
    expect_refused(producer, ErrorKind::type, {"from_dlpack: ", GetParam().text});
}
INSTANTIATE_TEST_SUITE_P(
    Each, ForeignTypes,
    testing::Values(
        ForeignType{{dlpack::code_complex, 64, 1}, "complex64 (code 5, 64 bits)"},
        ForeignType{{dlpack::code_opaque_handle, 64, 1}, "opaque handle64"},
        ForeignType{{dlpack::code_float, 128, 1}, "float128"},
        ForeignType{{dlpack::code_int, 4, 1}, "int4 (code 0, 4 bits)"},
        ForeignType{{dlpack::code_bfloat, 32, 1}, "bfloat32"},
        ForeignType{{7, 8, 1}, "float8_e3m4 (code 7, 8 bits)"},
        ForeignType{{8, 8, 1}, "float8_e4m3 "}, ForeignType{{9, 8, 1}, "float8_e4m3b11fnuz"},
        ForeignType{{10, 8, 1}, "float8_e4m3fn "}, ForeignType{{11, 8, 1}, "float8_e4m3fnuz"},
        ForeignType{{12, 8, 1}, "float8_e5m2 "}, ForeignType{{13, 8, 1}, "float8_e5m2fnuz"},
        ForeignType{{14, 8, 1}, "float8_e8m0fnu"},
        ForeignType{{15, 6, 1}, "float6_e2m3fn (code 15, 6 bits)"},
        ForeignType{{16, 6, 1}, "float6_e3m2fn"},
        ForeignType{{17, 4, 1}, "float4_e2m1fn (code 17, 4 bits)"},
        ForeignType{{200, 8, 1}, "unknown type (code 200, 8 bits)"},
        ForeignType{{dlpack::code_float, 32, 4}, "float32 (code 2, 32 bits, 4 lanes)"},
        ForeignType{{dlpack::code_float, 32, 0}, "0 lanes"}));

// ---- import: devices ----

struct Routing : testing::Test {
    void TearDown() override { set_default_device(test::backend); }
};

TEST_F(Routing, pinned_memory_and_any_device_id_are_the_host) {
    for (const std::int32_t type : {dlpack::cpu, dlpack::cuda_host, dlpack::rocm_host}) {
        for (const std::int32_t id : {0, 1, 7}) {
            Legacy producer;
            producer.tensor().device = {type, id};
            EXPECT_EQ(producer.import().device(), device("cpu"));
            EXPECT_EQ(producer.import(device("cpu")).device(), device("cpu"));
        }
    }
}

TEST_F(Routing, the_default_device_wraps_what_it_can) {
    const Device far = set_default_device(far_device("cuda", 1));
    for (const std::int32_t type : {dlpack::cuda, dlpack::cuda_managed}) {
        Legacy producer;
        producer.tensor().device = {type, 1};
        EXPECT_EQ(producer.import().device(), far);
    }
}

TEST_F(Routing, what_the_default_device_cannot_wrap_stays_on_its_own) {
    set_default_device(far_device());
    Legacy producer;
    EXPECT_EQ(producer.import().device(), device("cpu"));
}

TEST_F(Routing, an_explicit_device_wraps_its_own_memory) {
    const Device far = far_device("cuda", 1);
    Legacy producer;
    producer.tensor().device = {dlpack::cuda, 1};
    EXPECT_EQ(producer.import(far).device(), far);
}

TEST_F(Routing, an_explicit_device_that_cannot_wrap_names_the_one_that_can) {
    Legacy producer;
    expect_refused(producer, ErrorKind::runtime,
                   {"from_dlpack: cuda cannot wrap a kDLCPU tensor", "import it on device cpu"},
                   far_device());
    producer.tensor().device = {dlpack::cuda, 0};
    expect_refused(producer, ErrorKind::runtime,
                   {"cuda:1 cannot wrap a kDLCUDA tensor of device 0", "on device cuda,"},
                   far_device("cuda", 1));
    producer.tensor().device = {dlpack::rocm, 2};
    expect_refused(producer, ErrorKind::runtime, {"cpu cannot wrap a kDLROCM", "hip:2"},
                   device("cpu"));
    producer.tensor().device = {dlpack::oneapi, 0};
    expect_refused(producer, ErrorKind::runtime, {"kDLOneAPI", "level_zero"}, device("cpu"));
}

TEST_F(Routing, a_device_that_is_not_there_is_refused_with_the_reason) {
    Legacy producer;
    producer.tensor().device = {dlpack::cuda, 31};
    expect_refused(producer, ErrorKind::runtime,
                   {"from_dlpack: a kDLCUDA tensor of device 31 needs device cuda:31. "});
}

TEST_F(Routing, metal_buffers_are_refused_on_every_device) {
    Legacy producer;
    producer.tensor().device = {dlpack::metal, 0};
    for (const Device& target : {Device(), device("cpu"), far_device("metal")}) {
        expect_refused(producer, ErrorKind::value,
                       {"from_dlpack: ", "kDLMetal", "handle", "host memory", "copy=True"}, target);
    }
}

struct UnknownDevice {
    std::int32_t type;
    const char* text;
};
struct UnknownDevices : testing::TestWithParam<UnknownDevice> {};

TEST_P(UnknownDevices, are_refused_by_name) {
    Versioned producer;
    producer.tensor().device = {GetParam().type, 0};
    expect_refused(producer, ErrorKind::value, {"from_dlpack: ", GetParam().text});
}
INSTANTIATE_TEST_SUITE_P(
    Each, UnknownDevices,
    testing::Values(
        UnknownDevice{dlpack::opencl, "kDLOpenCL"}, UnknownDevice{dlpack::vulkan, "kDLVulkan"},
        UnknownDevice{dlpack::vpi, "kDLVPI"}, UnknownDevice{dlpack::ext_dev, "kDLExtDev"},
        UnknownDevice{dlpack::webgpu, "kDLWebGPU"}, UnknownDevice{dlpack::hexagon, "kDLHexagon"},
        UnknownDevice{dlpack::maia, "kDLMAIA"}, UnknownDevice{dlpack::trn, "kDLTrn"},
        UnknownDevice{0, "device type 0"}, UnknownDevice{5, "device type 5"},
        UnknownDevice{99, "device type 99"}, UnknownDevice{-1, "device type -1"}));

TEST_F(Routing, a_backend_that_fails_to_wrap_leaves_the_tensor_to_the_producer) {
    const Device far = far_device();
    test::as_far(far).refuses_to_wrap = true;
    Versioned producer;
    producer.tensor().device = {dlpack::cuda, 0};
    expect_refused(producer, ErrorKind::memory, {"refused"}, far);
}

// The specification's order: null data, dtype, strides, device; then what wrapping needs.
TEST_F(Routing, of_several_mistakes_the_first_in_order_is_reported) {
    Legacy producer;
    producer.tensor().data = nullptr;
    producer.tensor().dtype = {dlpack::code_complex, 64, 1};
    producer.layout({3, 2}, {1, 3});
    producer.tensor().device = {99, 0};
    expect_refused(producer, ErrorKind::value, {"null"});
    producer.tensor().data = reinterpret_cast<char*>(producer.elements) + 1;
    expect_refused(producer, ErrorKind::type, {"complex64"});
    producer.tensor().dtype = {dlpack::code_int, 32, 1};
    expect_refused(producer, ErrorKind::non_contiguous, {"(1, 3)"});
    producer.tensor().strides = nullptr;
    expect_refused(producer, ErrorKind::value, {"device type 99"});
    producer.tensor().device = {dlpack::cpu, 0};
    expect_refused(producer, ErrorKind::value, {"1 bytes past"});
}

// Mapping is checked for raw pointers; a producer's word is enough here.
TEST(FromDlpack, never_looks_at_the_memory) {
    Legacy producer;
    producer.tensor().data = reinterpret_cast<void*>(64);
    EXPECT_EQ(producer.import().ptr(), reinterpret_cast<void*>(64));
}

// ---- export ----

template <class Managed>
Managed* export_as(const Array& array);
template <>
dlpack::ManagedTensor* export_as(const Array& array) {
    return to_dlpack(array);
}
template <>
dlpack::ManagedTensorVersioned* export_as(const Array& array) {
    return to_dlpack_versioned(array);
}

template <class Managed>
struct ToDlpackEach : testing::Test {
    Managed* take(const Array& array) { return kept = export_as<Managed>(array); }
    void TearDown() override {
        if (kept) kept->deleter(kept);
    }
    Managed* kept = nullptr;
};
using Structs = testing::Types<dlpack::ManagedTensor, dlpack::ManagedTensorVersioned>;
TYPED_TEST_SUITE(ToDlpackEach, Structs);

TYPED_TEST(ToDlpackEach, describes_the_arrays_memory) {
    const Array array = zeros({2, 3, 4}, DType::float64);
    const dlpack::Tensor& tensor = this->take(array)->dl_tensor;
    EXPECT_EQ(tensor.data, array.ptr());
    EXPECT_EQ(tensor.byte_offset, 0u);
    EXPECT_EQ(tensor.device.device_type, test::backend == "cpu" ? dlpack::cpu : dlpack::cuda);
    EXPECT_EQ(tensor.device.device_id, 0);
    ASSERT_EQ(tensor.ndim, 3);
    EXPECT_EQ(std::vector(tensor.shape, tensor.shape + 3), (std::vector<std::int64_t>{2, 3, 4}));
    EXPECT_EQ(std::vector(tensor.strides, tensor.strides + 3),
              (std::vector<std::int64_t>{12, 4, 1}));
}

TYPED_TEST(ToDlpackEach, of_many_dimensions_has_them_all) {
    const std::vector<std::int64_t> extents(20, 1);
    const dlpack::Tensor& tensor =
        this->take(empty(Shape(std::span<const std::int64_t>(extents))))->dl_tensor;
    EXPECT_EQ(std::vector(tensor.shape, tensor.shape + 20), extents);
    EXPECT_EQ(std::vector(tensor.strides, tensor.strides + 20), extents);
}

TYPED_TEST(ToDlpackEach, names_the_device_and_its_index) {
    const Array array = empty({1}, DType::float32, far_device("cuda", 1));
    const dlpack::Tensor& tensor = this->take(array)->dl_tensor;
    EXPECT_EQ(tensor.device.device_type, dlpack::cuda);
    EXPECT_EQ(tensor.device.device_id, 1);
    EXPECT_EQ(dlpack_device(array).device_type, dlpack::cuda);
    EXPECT_EQ(dlpack_device(array).device_id, 1);
}

TYPED_TEST(ToDlpackEach, keeps_the_memory_alive) {
    Array array = full({3}, 7, DType::int32);
    const auto* exported = this->take(array);
    array = Array();
    const Array again = array_from_ptr(exported->dl_tensor.data, DType::int32, {3});
    EXPECT_EQ(again.to_vector<std::int32_t>()[2], 7);
}

TYPED_TEST(ToDlpackEach, waits_and_shares_the_memory) {
    const Device far = far_device();
    const Array array = zeros({4}, DType::float32, far);
    const int before = test::as_far(far).waits;
    this->take(array);
    EXPECT_EQ(test::as_far(far).waits, before + 1);
    EXPECT_TRUE(array.state()->buffer->shared());
}

TYPED_TEST(ToDlpackEach, has_a_manager_context) {
    EXPECT_NE(this->take(zeros({1}))->manager_ctx, nullptr);
}

TYPED_TEST(ToDlpackEach, has_null_data_without_elements) {
    const Array elsewhere = zeros({1}, DType::int32);
    const Array array = array_from_ptr(elsewhere.ptr(), DType::int32, {0, 3});
    EXPECT_EQ(this->take(array)->dl_tensor.data, nullptr);
}

TYPED_TEST(ToDlpackEach, of_zero_dimensions_is_one_element) {
    const dlpack::Tensor& tensor = this->take(full({}, 5, DType::int32))->dl_tensor;
    EXPECT_EQ(tensor.ndim, 0);
    EXPECT_EQ(array_from_ptr(tensor.data, DType::int32, {}).to_vector<std::int32_t>()[0], 5);
}

TYPED_TEST(ToDlpackEach, is_counted_until_its_deleter_is_called) {
    const std::int64_t before = live_exports();
    auto* first = export_as<TypeParam>(zeros({1}));
    auto* second = export_as<TypeParam>(zeros({1}));
    EXPECT_EQ(live_exports(), before + 2);
    first->deleter(first);
    EXPECT_EQ(live_exports(), before + 1);
    second->deleter(second);
    EXPECT_EQ(live_exports(), before);
}

TYPED_TEST(ToDlpackEach, is_counted_where_its_thread_has_ended) {
    const std::int64_t before = live_exports();
    const Array array = zeros({1});
    for (int round = 0; round < 3; ++round) {
        TypeParam* exported = nullptr;
        std::thread([&] { exported = export_as<TypeParam>(array); }).join();
        EXPECT_EQ(live_exports(), before + 1);
        std::thread([&] { exported->deleter(exported); }).join();
        EXPECT_EQ(live_exports(), before);
    }
}

TYPED_TEST(ToDlpackEach, exports_of_one_array_are_tensors_of_their_own) {
    const Array array = zeros({2, 3});
    auto* first = export_as<TypeParam>(array);
    auto* second = export_as<TypeParam>(array);
    first->dl_tensor.shape[0] = 99;
    first->dl_tensor.strides[1] = 99;
    EXPECT_EQ(second->dl_tensor.shape[0], 2);
    EXPECT_EQ(second->dl_tensor.strides[1], 1);
    first->deleter(first);
    auto* third = export_as<TypeParam>(array);
    EXPECT_NE(third, second);
    EXPECT_EQ(third->dl_tensor.shape[0], 2);
    EXPECT_EQ(third->dl_tensor.strides[1], 1);
    second->deleter(second);
    third->deleter(third);
    EXPECT_EQ(array.shape(), (Shape{2, 3}));
}

TYPED_TEST(ToDlpackEach, the_last_of_several_exports_lets_go_of_the_memory) {
    Versioned producer;
    auto array = std::make_unique<Array>(producer.import());
    auto* first = export_as<TypeParam>(*array);
    auto* second = export_as<TypeParam>(*array);
    array.reset();
    first->deleter(first);
    EXPECT_EQ(producer.deleted, 0);
    second->deleter(second);
    EXPECT_EQ(producer.deleted, 1);
}

TYPED_TEST(ToDlpackEach, the_deleter_may_be_called_on_any_thread) {
    const Array array = zeros({8});
    std::vector<std::thread> threads;
    for (int k = 0; k < 4; ++k) {
        threads.emplace_back([&array] {
            for (int round = 0; round < 500; ++round) {
                auto* exported = export_as<TypeParam>(array);
                exported->deleter(exported);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(live_exports(), 0);
}

// jax-ml/jax#40789: read-only travels in the versioned struct only.
TEST(ToDlpack, a_read_only_array_carries_the_flag) {
    const Array value = zeros({1}, DType::int32);
    const void* address = value.ptr();
    auto* read_only = to_dlpack_versioned(array_from_ptr(address, DType::int32, {1}));
    EXPECT_EQ(read_only->flags, dlpack::flag_read_only);
    EXPECT_FALSE(from_dlpack(read_only).writable());
    auto* writable = to_dlpack_versioned(zeros({1}));
    EXPECT_EQ(writable->flags, 0u);
    writable->deleter(writable);
}

TEST(ToDlpack, says_its_version) {
    auto* exported = to_dlpack_versioned(zeros({1}));
    EXPECT_EQ(exported->version.major, 1u);
    EXPECT_EQ(exported->version.minor, 3u);
    exported->deleter(exported);
}

}  // namespace
}  // namespace tack
