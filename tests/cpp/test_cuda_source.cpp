// Source for CUDA: what its entries promise, and that it computes what the host's code does. A
// device of the test's own compiles it for the host, without headers but with undefined behaviour
// trapping, and runs its threads one after another.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "codegen/gpu_source.hpp"
#include "compiler_support.hpp"
#include "support.hpp"
#include "tack/tack.hpp"

namespace tack {
namespace {

using codegen::GpuEntry;
using codegen::GpuParameter;
using codegen::GpuSource;
using codegen::IndexWidth;
using Kind = GpuParameter::Kind;

// What CUDA's compiler knows by itself.
constexpr const char* before_source = R"(
#include <math.h>
#include <string.h>
#include <utility>
#define __device__
#define __global__
#define __noinline__ __attribute__((noinline))
static struct { unsigned x; } gridDim, blockDim, blockIdx, threadIdx;
template <class To, class From> static To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
[[maybe_unused]] static float __uint_as_float(unsigned a) { return bits<float>(a); }
[[maybe_unused]] static unsigned __float_as_uint(float a) { return bits<unsigned>(a); }
[[maybe_unused]] static double __longlong_as_double(long long a) { return bits<double>(a); }
[[maybe_unused]] static long long __double_as_longlong(double a) { return bits<long long>(a); }
template <class T> static T stored(T *cell, T value) {
    const T old = *cell;
    *cell = value;
    return old;
}
#define TACK_ADD(T) [[maybe_unused]] static T atomicAdd(T *c, T v) { return stored<T>(c, *c + v); }
#define TACK_INTEGER(T) \
    [[maybe_unused]] static T atomicMin(T *c, T v) { return stored(c, v < *c ? v : *c); } \
    [[maybe_unused]] static T atomicMax(T *c, T v) { return stored(c, v > *c ? v : *c); }
#define TACK_SWAP(T) \
    [[maybe_unused]] static T atomicCAS(T *c, T e, T v) { return stored(c, *c == e ? v : *c); }
TACK_ADD(unsigned) TACK_ADD(unsigned long long) TACK_ADD(float) TACK_ADD(double)
TACK_INTEGER(int) TACK_INTEGER(unsigned) TACK_INTEGER(long long) TACK_INTEGER(unsigned long long)
TACK_SWAP(unsigned) TACK_SWAP(unsigned long long)
)";
// run_NAME: false where a parameter's size is not the one that is said.
constexpr const char* after_source = R"(
template <class... P, std::size_t... k>
static bool run(void (*entry)(P...), std::index_sequence<k...>, void **values, const int *bytes,
                unsigned threads) {
    if (!(... && (sizeof(P) == static_cast<std::size_t>(bytes[k])))) return false;
    gridDim.x = threads % 2 ? threads : threads / 2;
    blockDim.x = threads / gridDim.x;
    for (blockIdx.x = gridDim.x; blockIdx.x-- > 0;)
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x)
            entry(*static_cast<P *>(values[k])...);
    return true;
}
template <class... P>
static bool run(void (*entry)(P...), void **values, const int *bytes, unsigned threads) {
    return run(entry, std::index_sequence_for<P...>(), values, bytes, threads);
}
)";
using Run = bool (*)(void** values, const int* bytes, unsigned threads);

struct Compiled final : Executable {
    ~Compiled() override {
        if (library) dlclose(library);
    }
    GpuSource source;
    void* library = nullptr;
    std::vector<Run> runs;
};

/// Runs CUDA's source on the host.
struct SourceDevice final : test::FarDevice {
    explicit SourceDevice(IndexWidth width_) : width(width_) {}

    detail::Ref<Executable> compile(const kernel::Specialization& spec) override {
        auto out = detail::make_ref<Compiled>();
        out->source = codegen::emit_cuda(spec, width);
        const testing::Folder folder;
        std::string text = before_source + out->source.text + after_source;
        for (const GpuEntry& e : out->source.entries)
            text += "extern \"C\" bool run_" + e.name +
                    "(void **values, const int *bytes, unsigned threads) {\n    return run(" +
                    e.name + ", values, bytes, threads);\n}\n";
        testing::write_whole(folder.path() + "/kernel.cpp", text);
        const std::string path = folder.path() + "/kernel.so";
        const std::string command =
            TACK_TEST_CXX
            " -std=c++17 -O1 -fPIC -shared -ffp-contract=off -fsanitize=undefined "
            "-fsanitize-undefined-trap-on-error -Wall -Wextra -Werror -Wno-unknown-pragmas "
            "-Wno-unused-variable -Wno-unused-but-set-variable -Wno-unused-parameter -o " +
            path + " " + folder.path() + "/kernel.cpp";
        if (std::system(command.c_str()) != 0)
            throw Error(ErrorKind::runtime, "not compiled:\n" + out->source.text);
        out->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!out->library) throw Error(ErrorKind::runtime, dlerror());
        for (const GpuEntry& e : out->source.entries)
            out->runs.push_back(
                reinterpret_cast<Run>(dlsym(out->library, ("run_" + e.name).c_str())));
        last = out->source;
        return out;
    }

    void launch(Executable& executable, const LaunchArguments& arguments) override {
        auto& compiled = static_cast<Compiled&>(executable);
        // Anything may lie there before.
        std::vector<std::uint64_t> memory(
            static_cast<std::size_t>(compiled.source.locals_bytes + 7) / 8, 0xdeadbeefdeadbeefu);
        void* locals = memory.data();
        void* fault = arguments.fault;
        for (std::size_t k = 0; k < compiled.runs.size(); ++k) {
            std::vector<void*> values;
            std::vector<int> bytes;
            for (const GpuParameter& p : compiled.source.entries[k].parameters) {
                const std::uint64_t* slot = arguments.slots + p.slot;
                values.push_back(p.kind == Kind::fault    ? static_cast<void*>(&fault)
                                 : p.kind == Kind::locals ? static_cast<void*>(&locals)
                                                          : const_cast<std::uint64_t*>(slot));
                bytes.push_back(p.bytes);
            }
            const unsigned count = compiled.source.entries[k].loop ? threads : 1;
            if (!compiled.runs[k](values.data(), bytes.data(), count))
                throw Error(ErrorKind::runtime,
                            "a parameter's size differs:\n" + compiled.source.text);
        }
    }

    const IndexWidth width;
    unsigned threads = 1;
    GpuSource last;
};

SourceDevice& of(const Device& device) { return static_cast<SourceDevice&>(device.backend()); }

Array on(const Device& device, const Array& array) { return array.to_device(device).copy(); }
template <class T>
    requires std::is_arithmetic_v<T>
T on(const Device&, T value) {
    return value;
}

template <class U>
void make_nans_one(std::string& bytes, U infinity) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(U)) {
        U element;
        std::memcpy(&element, &bytes[at], sizeof(U));
        if ((element & static_cast<U>(~U(0) >> 1)) > infinity)
            std::memset(&bytes[at], 0xff, sizeof(U));
    }
}

/// All elements; of NaN the sign and the payload differ from processor to processor.
std::string bytes_of(const Array& array) {
    std::string out(static_cast<std::size_t>(array.nbytes()), 0);
    array.read(out.data(), array.nbytes());
    if (array.dtype() == DType::float16) make_nans_one<std::uint16_t>(out, 0x7c00);
    if (array.dtype() == DType::bfloat16) make_nans_one<std::uint16_t>(out, 0x7f80);
    if (array.dtype() == DType::float32) make_nans_one<std::uint32_t>(out, 0x7f800000);
    if (array.dtype() == DType::float64) make_nans_one<std::uint64_t>(out, 0x7ff0000000000000);
    return out;
}
template <class T>
std::string bytes_of(T) {
    return {};
}

/// The kernel leaves in its arguments, by either width and by any number of threads, the bytes that
/// it leaves on the host.
template <class... A>
void expect_the_hosts_result(const Kernel& kernel, const A&... arguments) {
    const auto result = [&](const Device& device) {
        return [&](auto... copies) {
            kernel(copies...);
            return std::vector<std::string>{bytes_of(copies)...};
        }(on(device, arguments)...);
    };
    const std::vector<std::string> host = result(tack::device("cpu"));
    for (const IndexWidth width : {IndexWidth::narrow, IndexWidth::wide}) {
        const Device device(detail::make_ref<SourceDevice>(width));
        for (const unsigned threads : {1u, 6u}) {
            of(device).threads = threads;
            const std::vector<std::string> found = result(device);
            for (std::size_t k = 0; k < host.size(); ++k) {
                const auto at = std::mismatch(host[k].begin(), host[k].end(), found[k].begin());
                EXPECT_EQ(at.first, host[k].end())
                    << "argument " << k << ", byte " << at.first - host[k].begin() << ", "
                    << threads << " threads\n"
                    << of(device).last.text;
            }
        }
    }
}

/// The source for these arguments.
template <class... A>
GpuSource source_of(const Kernel& kernel, IndexWidth width, const A&... arguments) {
    const Device device(detail::make_ref<SourceDevice>(width));
    kernel(on(device, arguments)...);
    return of(device).last;
}

struct Row {
    Kind kind;
    int slot;
    int bytes;
    friend bool operator==(const Row&, const Row&) = default;
};
std::ostream& operator<<(std::ostream& to, const Row& r) {
    return to << static_cast<int>(r.kind) << " " << r.slot << " " << r.bytes;
}
std::vector<Row> rows(const GpuEntry& entry) {
    std::vector<Row> out;
    for (const GpuParameter& p : entry.parameters) out.push_back({p.kind, p.slot, p.bytes});
    return out;
}
bool has(const GpuSource& source, const char* words) {
    return source.text.find(words) != std::string::npos;
}

template <class T>
Array counted(const Shape& shape) {
    std::vector<T> values(static_cast<std::size_t>(shape.checked_size(8, "counted")));
    std::iota(values.begin(), values.end(), T(1));
    return from_vector(values, shape);
}

// what the entries promise

const Kernel scale("scale", [](Scalar<float> a, In<float> x, Out<bool> z, Scalar<std::int16_t>) {
    parallel(x.shape(0), x.shape(1), [&](Index i, Index j) { z(i, j) = x(i, j) * Expr(a) > 2.0; });
});

TEST(CudaEntry, takes_the_slots_that_it_uses_and_no_others) {
    const GpuSource source = source_of(scale, IndexWidth::narrow, 0.5f, counted<float>({3, 4}),
                                       zeros({3, 4}, DType::bool_), std::int16_t{1});
    ASSERT_EQ(source.entries.size(), 1u);
    EXPECT_EQ(source.entries[0].name, "loop0_scale");
    ASSERT_NE(source.entries[0].loop, nullptr);
    EXPECT_EQ(source.entries[0].loop->ranges.size(), 2u);
    // a; x, its extents; z and its inner one
    EXPECT_EQ(rows(source.entries[0]), (std::vector<Row>{{Kind::value, 0, 4},
                                                         {Kind::array, 1, 8},
                                                         {Kind::value, 2, 8},
                                                         {Kind::value, 3, 8},
                                                         {Kind::array, 4, 8},
                                                         {Kind::value, 6, 8}}));
    EXPECT_EQ(source.locals_bytes, 0);
}

TEST(CudaEntry, counts_by_32_bits_only_where_it_is_narrow) {
    const auto source = [](IndexWidth width) {
        return source_of(scale, width, 0.5f, counted<float>({3, 4}), zeros({3, 4}, DType::bool_),
                         std::int16_t{1});
    };
    EXPECT_TRUE(has(source(IndexWidth::narrow), "for (u32 first = (u32)blockIdx.x"));
    EXPECT_TRUE(has(source(IndexWidth::wide), "for (u64 first = (u64)blockIdx.x"));
    EXPECT_FALSE(has(source(IndexWidth::wide), "(u32)"));
}

TEST(CudaEntry, runs_passes_side_by_side_where_each_does_little) {
    const Kernel cheap("cheap", [](In<float> x, Out<float> y) {
        parallel(y.size(), [&](Index i) { y[i] = x[i] * 2.0f; });
    });
    const Kernel dear("dear", [](In<float> x, Out<float> y) {
        parallel(y.size(), [&](Index i) { y[i] = 1.0f / (x[i] + 1.0f / (x[i] + 2.0f)); });
    });
    const Array x = counted<float>({37});
    const Array y = zeros({37});
    EXPECT_EQ(source_of(cheap, IndexWidth::narrow, x, y).entries.at(0).passes_each, 4);
    EXPECT_EQ(source_of(dear, IndexWidth::narrow, x, y).entries.at(0).passes_each, 1);
    expect_the_hosts_result(cheap, x, y);
    expect_the_hosts_result(dear, x, y);
}

TEST(CudaEntry, is_one_per_loop_in_the_programs_order) {
    const Kernel kernel("steps", [](InOut<float> x) {
        parallel(x.size(), [&](Index i) { x[i] = x[i] + 1.0; });
        parallel(x.size() - 1, [&](Index i) { x[i] = x[i] * 2.0; });
    });
    const GpuSource source = source_of(kernel, IndexWidth::narrow, zeros({4}));
    ASSERT_EQ(source.entries.size(), 2u);
    EXPECT_EQ(source.entries[0].name, "loop0_steps");
    EXPECT_EQ(source.entries[1].name, "loop1_steps");
    EXPECT_NE(source.entries[0].loop, source.entries[1].loop);
    expect_the_hosts_result(kernel, counted<float>({9}));
}

TEST(CudaEntry, has_no_alias_and_const_where_the_program_allows) {
    const Kernel kernel("copy", [](In<float> x, Out<float> z) {
        parallel(z.size(), [&](Index i) { z[i] = x[i]; });
    });
    const Device device(detail::make_ref<SourceDevice>(IndexWidth::narrow));
    const Array x = zeros({4}, DType::float32, device);
    kernel(x, zeros({4}, DType::float32, device));
    EXPECT_TRUE(has(of(device).last, "const f32 *__restrict__ p0_arg0"));
    EXPECT_TRUE(has(of(device).last, ", f32 *__restrict__ p1_arg1"));
    kernel(x, x);
    EXPECT_FALSE(has(of(device).last, "__restrict__"));
}

// what stands outside loops

const Kernel grow("grow", [](InOut<std::int64_t> n, InOut<float> x) {
    const Expr count = n[0];
    parallel(count, [&](Index i) {
        x[i] = x[i] + 1.0;
        n[0] = 2;
    });
    parallel(Range(count - 1, -1, n[0] - 3), [&](Index i) { x[i] = x[i] * 3.0; });
});

TEST(CudaScalars, are_computed_once_where_the_kernel_stores_to_what_they_are_read_from) {
    const Array n = full({1}, 5, DType::int64);
    const GpuSource source = source_of(grow, IndexWidth::narrow, n, zeros({8}));
    ASSERT_EQ(source.entries.size(), 4u);
    EXPECT_EQ(source.entries[0].name, "before0_grow");
    EXPECT_EQ(source.entries[0].loop, nullptr);
    EXPECT_NE(source.entries[1].loop, nullptr);
    EXPECT_EQ(source.entries[2].loop, nullptr);
    EXPECT_NE(source.entries[3].loop, nullptr);
    for (const GpuEntry& e : source.entries) EXPECT_EQ(e.parameters.back().kind, Kind::locals);
    EXPECT_GE(source.locals_bytes, 8);
    EXPECT_EQ(source.locals_bytes % 8, 0);
    expect_the_hosts_result(grow, n, counted<float>({8}));
}

TEST(CudaScalars, are_computed_by_every_thread_where_nothing_they_read_changes) {
    const Kernel kernel("shift", [](In<std::int64_t> n, Out<float> x) {
        const Expr from = n[0] * 2;
        parallel(Range(from, x.size()), [&](Index i) { x[i] = cast<float>(i - from); });
    });
    const Array n = full({1}, 2, DType::int64);
    EXPECT_EQ(source_of(kernel, IndexWidth::narrow, n, zeros({9})).locals_bytes, 0);
    expect_the_hosts_result(kernel, n, zeros({9}));
}

TEST(CudaScalars, of_a_loop_are_computed_by_one_thread) {
    const Kernel kernel("halve", [](Scalar<std::int64_t> n, Out<float> x) {
        Var<std::int64_t> left(Expr(n) * 1);
        Var<bool> even(true);
        while_([&] { return left > 3; }, [&] { left = floor_divide(left, 2); });
        even = left % 2 == 0;
        parallel(x.size(), [&](Index i) { x[i] = select(even, i + left, -i); });
    });
    const GpuSource source = source_of(kernel, IndexWidth::wide, std::int64_t{41}, zeros({4}));
    ASSERT_EQ(source.entries.size(), 2u);
    EXPECT_EQ(source.entries[0].loop, nullptr);
    expect_the_hosts_result(kernel, std::int64_t{41}, zeros({4}));
}

TEST(CudaEffects, outside_loops_happen_once) {
    const Kernel kernel("tickets", [](InOut<std::int32_t> next, Out<std::int32_t> x) {
        const Expr mine = atomic_add(next[0], 10);
        parallel(x.size(), [&](Index i) { x[i] = mine + i; });
        parallel(x.size(), [&](Index i) { x[i] = x[i] + mine; });
        atomic_max(next[1], mine + 7);
    });
    const Array next = from_vector<std::int32_t>({3, 1});
    EXPECT_EQ(source_of(kernel, IndexWidth::wide, next, zeros({5}, DType::int32)).entries.size(),
              4u);
    expect_the_hosts_result(kernel, next, zeros({5}, DType::int32));
}

TEST(CudaReturn, ends_the_kernel) {
    ir::Builder b("ended");
    const ir::Parameter x = b.array_parameter("x", DType::int64);
    for (int pass = 0; pass < 2; ++pass) {
        const ir::Local i = b.local("i");
        const ir::Range range{b.literal(std::int64_t{0}), b.size(x), b.literal(std::int64_t{1})};
        b.parallel({&i, 1}, {&range, 1});
        const ir::Value index = b.use(i);
        b.store(x, {&index, 1}, b.literal(std::int64_t{pass + 1}));
        b.end();
        b.return_nothing();
    }
    kernel::Dispatcher dispatcher(b.finish());
    const Device device(detail::make_ref<SourceDevice>(IndexWidth::narrow));
    const Array z = zeros({1}, DType::int64, device);
    const kernel::Argument argument(z);
    dispatcher.launch({&argument, 1});
    EXPECT_EQ(z.to_vector<std::int64_t>()[0], 1);
}

// values

TEST(CudaLoops, of_any_steps_and_axes_visit_what_the_hosts_do) {
    const Kernel kernel("visit", [](Scalar<std::int64_t> by, InOut<std::int32_t> x) {
        parallel(Range(x.shape(0) - 1, -1, Expr(by) - 4), Range(0, x.shape(1), 2),
                 Range(1, x.shape(2)), [&](Index i, Index j, Index k) {
                     if_(k == 2, [&] { continue_(); });
                     x(i, j, k) = x(i, j, k) + i * 100 + j * 10 + k;
                 });
        parallel(Range(0, x.shape(0), Expr(by)), [&](Index i) { x(i, 0, 0) = -i; });
    });
    expect_the_hosts_result(kernel, std::int64_t{2}, counted<std::int32_t>({5, 3, 4}));
    expect_the_hosts_result(kernel, std::int64_t{3}, zeros({0, 3, 4}, DType::int32));
}

template <class T>
class CudaIntegers : public ::testing::Test {};
using Integers = ::testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t,
                                  std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(CudaIntegers, Integers);

TYPED_TEST(CudaIntegers, wrap_as_the_hosts_do_and_never_by_an_overflow_of_signed_ones) {
    using T = TypeParam;
    const Kernel kernel("all", [](In<T> x, In<T> y, Out<T> z) {
        parallel(x.size(), y.size(), [&](Index i, Index j) {
            const Expr a = x[i];
            const Expr b = y[j];
            int k = 0;
            for (const Expr& value :
                 {a + b, a - b, a * b, -a, ~a, abs(a), pow(a, 2), pow(a, b), floor_divide(a, b),
                  a % b, a << b, a >> b, min(a, b), max(a, b), a & b, a ^ 3})
                z(k++, i, j) = value;
        });
    });
    using Limits = std::numeric_limits<T>;
    const std::vector<T> values{0,
                                1,
                                2,
                                7,
                                static_cast<T>(-1),
                                static_cast<T>(-3),
                                Limits::min(),
                                static_cast<T>(Limits::min() + 1),
                                Limits::max(),
                                static_cast<T>(Limits::max() / 2 + 1)};
    expect_the_hosts_result(kernel, from_vector(values), from_vector(values),
                            zeros({16, 10, 10}, dtype_of<T>));
}

float16 half(std::uint32_t bits) {
    float16 out;
    out.bits = static_cast<std::uint16_t>(bits);
    return out;
}

std::vector<double> hard_numbers() {
    const double infinity = std::numeric_limits<double>::infinity();
    std::vector<double> out{0, infinity, std::numeric_limits<double>::quiet_NaN()};
    // About each number that float16 and bfloat16 have, and halfway to the next.
    for (std::uint32_t h = 0; h < 0x7c00; ++h) {
        const double a = static_cast<float>(half(h));
        const double b = h + 1 < 0x7c00 ? static_cast<float>(half(h + 1)) : 65536.0;
        const double middle = (a + b) / 2;
        for (const double v : {a, middle, std::nextafter(middle, 0), std::nextafter(middle, b),
                               static_cast<double>(std::nextafter(static_cast<float>(middle), 0.f)),
                               middle * 0x1p100, middle * 0x1p-40, middle * 0x1p-120})
            out.push_back(v);
    }
    for (std::size_t k = out.size(); k-- > 0;) out.push_back(-out[k]);
    return out;
}

TEST(CudaHalf, has_every_value_of_float16) {
    const Kernel kernel("widen", [](In<float16> x, Out<float> f, Out<double> d, Out<float16> h) {
        parallel(x.size(), [&](Index i) {
            f[i] = x[i];
            d[i] = x[i];
            h[i] = cast<float16>(cast<float>(x[i]));
        });
    });
    std::vector<float16> all;
    for (std::uint32_t h = 0; h < 0x10000; ++h) all.push_back(half(h));
    const auto n = static_cast<std::int64_t>(all.size());
    expect_the_hosts_result(kernel, from_vector(all), zeros({n}), zeros({n}, DType::float64),
                            zeros({n}, DType::float16));
}

TEST(CudaHalf, is_rounded_to_once) {
    const Kernel kernel("narrow", [](In<double> x, Out<float16> d, Out<float16> f, Out<bfloat16> b,
                                     Out<bfloat16> c) {
        parallel(x.size(), [&](Index i) {
            d[i] = x[i];
            f[i] = cast<float>(x[i]);
            b[i] = x[i];
            c[i] = cast<float>(x[i]);
        });
    });
    const std::vector<double> values = hard_numbers();
    const auto n = static_cast<std::int64_t>(values.size());
    expect_the_hosts_result(kernel, from_vector(values), zeros({n}, DType::float16),
                            zeros({n}, DType::float16), zeros({n}, DType::bfloat16),
                            zeros({n}, DType::bfloat16));
}

template <class T>
class CudaFloats : public ::testing::Test {};
using Floats = ::testing::Types<float16, bfloat16, float, double>;
TYPED_TEST_SUITE(CudaFloats, Floats);

TYPED_TEST(CudaFloats, have_the_hosts_arithmetic) {
    using T = TypeParam;
    const Kernel kernel("all", [](In<T> x, In<T> y, InOut<T> z, Out<std::int32_t> n) {
        parallel(x.size(), y.size(), [&](Index i, Index j) {
            const Expr a = x[i];
            const Expr b = y[j];
            int k = 0;
            for (const Expr& value :
                 {a + b, a - b, a * b, a / b, -a, abs(a), pow(a, 2), pow(a, 0.5), pow(a, -1),
                  floor_divide(a, b), a % b, min(a, b), max(a, b), round(a), floor(a), sqrt(a),
                  select(a < b, a, b), a + 3, cast<T>(i - j)})
                z(k++, i, j) = value;
            n(i, j) = cast<std::int32_t>(a) + cast<std::int32_t>(a == b);
        });
    });
    std::vector<T> values;
    for (const double v : {0.0, -0.0, 1.0, -1.5, 2.5, 3e-8, 1e-5, -7.25, 1000.0, 60000.0,
                           std::numeric_limits<double>::infinity()})
        values.push_back(T(static_cast<float>(v)));
    const Array x = from_vector(values);
    expect_the_hosts_result(kernel, x, x, zeros({19, 11, 11}, dtype_of<T>),
                            zeros({11, 11}, DType::int32));
}

template <class T>
class CudaAtomics : public ::testing::Test {};
using AtomicTypes =
    ::testing::Types<std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double>;
TYPED_TEST_SUITE(CudaAtomics, AtomicTypes);

TYPED_TEST(CudaAtomics, give_the_old_value_and_leave_the_hosts) {
    using T = TypeParam;
    const Kernel kernel("all", [](InOut<T> cells, In<T> x, Out<T> old) {
        parallel(1, [&](Index) {
            for_(x.size(), [&](Index i) {
                old(0, i) = atomic_add(cells[0], x[i]);
                old(1, i) = atomic_min(cells[1], x[i]);
                old(2, i) = atomic_max(cells[2], x[i]);
            });
        });
    });
    using Limits = std::numeric_limits<T>;
    expect_the_hosts_result(kernel, from_vector<T>({T(3), T(3), T(3)}),
                            from_vector<T>({T(5), Limits::max(), T(-2), Limits::lowest(), T(1)}),
                            zeros({3, 5}, dtype_of<T>));
}

// NVIDIA/cudf#11420
TYPED_TEST(CudaAtomics, end_and_keep_a_nan) {
    using T = TypeParam;
    if constexpr (std::is_floating_point_v<T>) {
        const Kernel kernel("extremes", [](InOut<T> cells, In<T> x) {
            parallel(x.size(), [&](Index i) {
                atomic_min(cells[0], x[i]);
                atomic_max(cells[1], x[i]);
                atomic_max(cells[2], x[i]);
            });
        });
        const T nan = std::numeric_limits<T>::quiet_NaN();
        expect_the_hosts_result(kernel, from_vector<T>({nan, nan, T(9)}),
                                from_vector<T>({T(1), T(2), nan, T(4)}));
    }
}

TEST(CudaBounds, an_index_out_of_range_is_the_hosts_error) {
    const Kernel kernel("shifted",
                        [](In<float> x, Out<float> z, Scalar<std::int64_t> by) {
                            const Expr last = x[x.size() - by];
                            parallel(z.size(), [&](Index i) { z[i] = x[i + 1 - by] + last; });
                            if_(x[x.size() - 2 * by] > 0.0, [] {});
                        },
                        {.check_bounds = true});
    const Device device(detail::make_ref<SourceDevice>(IndexWidth::narrow));
    const Array x = zeros({4}, DType::float32, device);
    EXPECT_EQ(testing::error_of([&] { kernel(x, x.copy(), std::int64_t{1}); }), "");
    EXPECT_EQ(of(device).last.entries[0].parameters.back().kind, Kind::fault);
    for (const std::int64_t by : {0, 2, 3}) {
        const std::string host = testing::error_of([&] { kernel(zeros({4}), zeros({4}), by); });
        EXPECT_NE(host, "") << by;
        EXPECT_EQ(testing::error_of([&] { kernel(x, x.copy(), by); }), host) << by;
    }
}

TEST(CudaText, has_no_word_of_the_hosts_compilers) {
    const Kernel kernel("words", [](InOut<float> x, Out<float16> h, InOut<std::int32_t> n) {
        parallel(x.size(), [&](Index i) {
            const Expr a = x[i] % 3.0 + floor_divide(x[i], 2.0) + round(x[i]) + abs(x[i]);
            x[i] = a + math(ir::Math::gamma, a) + sin(a) + pow(a, 1.25) +
                   std::numeric_limits<double>::infinity() + random(7, i);
            h[i] = select(math(ir::Math::isfinite, a), a, 0.0);
            atomic_min(x[i], a);
            atomic_add(n[0], n[0] % 5);
        });
    });
    const GpuSource source = source_of(kernel, IndexWidth::narrow, counted<float>({4}),
                                       zeros({4}, DType::float16), zeros({1}, DType::int32));
    for (const char* word : {"__builtin", "__atomic", "__attribute__", "_Float16", "_Bool",
                             " restrict", "int64_t", "#include", "std::", "tack_sin"})
        EXPECT_FALSE(has(source, word)) << word << "\n" << source.text;
}

}  // namespace
}  // namespace tack
