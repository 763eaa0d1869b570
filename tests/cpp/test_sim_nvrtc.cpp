// The stand-in for NVRTC, without the simulated driver: the images that it makes are loaded and
// called here.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/module_abi.h"

namespace {

using Strings = std::vector<std::string>;

void* library() {
    static void* const handle = dlopen(TACK_SIM_NVRTC, RTLD_NOW | RTLD_LOCAL);
    return handle;
}

/// Calls the entry point of this name.
template <class... Arguments>
int call(const char* name, Arguments... arguments) {
    const auto entry = reinterpret_cast<int (*)(Arguments...)>(dlsym(library(), name));
    if (!entry) {
        ADD_FAILURE() << name << " is not exported";
        return -1;
    }
    return entry(arguments...);
}

struct Compiled {
    int result = -1;
    std::string log, cubin, ptx;
    Strings lowered;
};

std::string text_of(void* program, const std::string& what) {
    size_t size = 0;
    EXPECT_EQ(call(("nvrtcGet" + what + "Size").c_str(), program, &size), 0);
    std::string text(size, '?');
    if (size > 0) {
        EXPECT_EQ(call(("nvrtcGet" + what).c_str(), program, text.data()), 0);
    }
    return text;
}

Compiled compile(const std::string& source, const Strings& options = {"-arch=sm_90"},
                 const Strings& names = {}) {
    Compiled out;
    void* program = nullptr;
    const char* const* no_headers = nullptr;
    EXPECT_EQ(call("nvrtcCreateProgram", &program, source.c_str(), "kernel.cu", 0, no_headers,
                   no_headers),
              0);
    for (const std::string& name : names)
        EXPECT_EQ(call("nvrtcAddNameExpression", program, name.c_str()), 0);
    std::vector<const char*> arguments;
    for (const std::string& option : options) arguments.push_back(option.c_str());
    const char* const* first = arguments.data();
    out.result = call("nvrtcCompileProgram", program, static_cast<int>(arguments.size()), first);
    out.log = text_of(program, "ProgramLog").c_str();
    if (out.result == 0) {
        out.cubin = text_of(program, "CUBIN");
        out.ptx = text_of(program, "PTX");
        for (const std::string& name : names) {
            const char* lowered = nullptr;
            EXPECT_EQ(call("nvrtcGetLoweredName", program, name.c_str(), &lowered), 0);
            out.lowered.emplace_back(lowered ? lowered : "");
        }
    }
    EXPECT_EQ(call("nvrtcDestroyProgram", &program), 0);
    return out;
}

std::string kernel(const std::string& body) {
    return "extern \"C\" __global__ void k(int* i, float* f, double* d, unsigned long long* u) "
           "{\n" +
           body + "\n}\n";
}

jmp_buf after_failure;
std::string failure;

struct Image {
    explicit Image(const std::string& bytes) {
        const int file = memfd_create("image", MFD_CLOEXEC);
        EXPECT_EQ(write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
        const std::string path = "/proc/self/fd/" + std::to_string(file);
        handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        close(file);
        EXPECT_NE(handle, nullptr) << dlerror();
    }
    Image(const Image&) = delete;
    ~Image() {
        if (handle) dlclose(handle);
    }

    const tack_sim_kernel* find(const std::string& name) const {
        const auto* table =
            static_cast<const tack_sim_kernel* const*>(dlsym(handle, TACK_SIM_IMAGE_KERNELS));
        for (const tack_sim_kernel* entry = *table; entry->name; ++entry)
            if (entry->name == name) return entry;
        ADD_FAILURE() << "the image has no kernel " << name;
        return nullptr;
    }

    void* handle = nullptr;
};

struct Shape {
    std::array<unsigned, 3> grid = {1, 1, 1}, block = {1, 1, 1};
    unsigned dynamic_shared_bytes = 0;
};

/// Runs a kernel to its end; the text with which it has failed, or nothing.
template <class... Arguments>
std::string launch(const tack_sim_kernel* entry, const Shape& shape, Arguments... arguments) {
    std::vector<char> memory(shape.dynamic_shared_bytes);
    tack_sim_launch launch{};
    std::copy(shape.grid.begin(), shape.grid.end(), launch.grid);
    std::copy(shape.block.begin(), shape.block.end(), launch.block);
    launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    launch.dynamic_shared = memory.data();
    launch.fail = [](const char* text) {
        failure = text;
        longjmp(after_failure, 1);
    };
    void* parameters[] = {&arguments..., nullptr};
    failure.clear();
    if (setjmp(after_failure) == 0) entry->invoke(parameters, &launch);
    return failure;
}

/// The arrays of kernel(), run on one thread of one block.
struct Arrays {
    std::array<int, 64> i{};
    std::array<float, 64> f{};
    std::array<double, 64> d{};
    std::array<unsigned long long, 64> u{};

    std::string run(const std::string& body, const Shape& shape = {}) {
        const Compiled compiled = compile(kernel(body));
        EXPECT_EQ(compiled.result, 0) << compiled.log;
        if (compiled.result != 0) return "not compiled";
        const Image image(compiled.cubin);
        return launch(image.find("k"), shape, i.data(), f.data(), d.data(), u.data());
    }
};

bool compiles(const std::string& body) { return compile(kernel(body)).result == 0; }

struct Folder {
    Folder() {
        char name[] = "/tmp/tack-sim-test-XXXXXX";
        path = mkdtemp(name);
    }
    Folder(const Folder&) = delete;
    ~Folder() { std::filesystem::remove_all(path); }
    Strings files(const std::string& extension) const {
        Strings out;
        for (const auto& entry : std::filesystem::directory_iterator(path))
            if (entry.path().extension() == extension) out.push_back(entry.path().string());
        return out;
    }
    std::string path;
};

std::string contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

TEST(SimNvrtc, a_kernel_computes_with_its_indices_and_arguments) {
    const Compiled compiled = compile(
        "extern \"C\" __global__ void saxpy(float a, const float* x, float* y, long long n) {\n"
        "    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n) y[i] += a * x[i];\n}\n");
    ASSERT_EQ(compiled.result, 0) << compiled.log;
    const Image image(compiled.cubin);
    std::vector<float> x(100), y(100, 1);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    const tack_sim_kernel* entry = image.find("saxpy");
    ASSERT_EQ(launch(entry, {{4, 1, 1}, {32, 1, 1}}, 2.0f, x.data(), y.data(), 100ll), "");
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], 1 + 2 * static_cast<float>(i));
}

TEST(SimNvrtc, a_kernels_table_entry_gives_the_size_of_each_parameter) {
    const Compiled compiled =
        compile("struct P { char c[12]; };\n__global__ void k(char a, P b, double* c) {}");
    ASSERT_EQ(compiled.result, 0) << compiled.log;
    const Image image(compiled.cubin);
    const tack_sim_kernel* entry = image.find("_Z1kc1PPd");
    ASSERT_NE(entry, nullptr);
    ASSERT_EQ(entry->parameter_count, 3u);
    EXPECT_EQ(entry->parameter_sizes[0], 1u);
    EXPECT_EQ(entry->parameter_sizes[1], 12u);
    EXPECT_EQ(entry->parameter_sizes[2], 8u);
    EXPECT_EQ(entry->uses_barriers, 0u);
}

TEST(SimNvrtc, a_name_expression_makes_an_instance_with_a_lowered_name) {
    const Compiled compiled = compile(
        "template <class T> __global__ void fill(T* x, T value) { x[threadIdx.x] = value; }",
        {"-arch=sm_90"}, {"fill<float>", "fill<int>"});
    ASSERT_EQ(compiled.result, 0) << compiled.log;
    EXPECT_EQ(compiled.lowered[0], "_Z4fillIfEvPT_S0_");
    const Image image(compiled.cubin);
    std::array<int, 4> x{};
    ASSERT_EQ(launch(image.find(compiled.lowered[1]), {{1, 1, 1}, {4, 1, 1}}, x.data(), 7), "");
    EXPECT_EQ(x, (std::array<int, 4>{7, 7, 7, 7}));
}

TEST(SimNvrtc, kernels_are_found_behind_attributes_and_in_extern_c_blocks) {
    const Compiled compiled = compile(
        "extern \"C\" {\n__global__ void __launch_bounds__(64, 2) one(int* x) { *x = 1; }\n"
        "__global__ /* here */ void\ntwo(int* x) { *x = 2; }\n}\n"
        "// __global__ void three(int* x) {}\n");
    ASSERT_EQ(compiled.result, 0) << compiled.log;
    const Image image(compiled.cubin);
    int x = 0;
    ASSERT_EQ(launch(image.find("one"), {}, &x), "");
    EXPECT_EQ(x, 1);
    ASSERT_EQ(launch(image.find("two"), {}, &x), "");
    EXPECT_EQ(x, 2);
}

TEST(SimNvrtc, variables_of_the_device_are_in_the_table_of_symbols) {
    const Compiled compiled =
        compile("__constant__ float table[3] = {1, 2, 3};\n__device__ int counter;");
    ASSERT_EQ(compiled.result, 0) << compiled.log;
    const Image image(compiled.cubin);
    const auto* symbols =
        *static_cast<const tack_sim_symbol* const*>(dlsym(image.handle, TACK_SIM_IMAGE_SYMBOLS));
    ASSERT_STREQ(symbols[0].name, "table");
    EXPECT_EQ(symbols[0].size, 12u);
    EXPECT_EQ(static_cast<const float*>(symbols[0].address)[2], 3.0f);
    EXPECT_STREQ(symbols[1].name, "counter");
    EXPECT_EQ(symbols[2].name, nullptr);
}

TEST(SimNvrtc, an_error_names_the_users_file_and_line) {
    const Compiled compiled = compile(kernel("f[0] = 1;\nf[1] = missing;\ni[0] = 1 +;"));
    EXPECT_EQ(compiled.result, 6);
    EXPECT_NE(compiled.log.find("kernel.cu(3): error: "), std::string::npos) << compiled.log;
    EXPECT_NE(compiled.log.find("missing"), std::string::npos) << compiled.log;
    EXPECT_NE(compiled.log.find("kernel.cu(4): error: "), std::string::npos) << compiled.log;
    EXPECT_NE(compiled.log.find("2 errors"), std::string::npos) << compiled.log;
}

TEST(SimNvrtc, a_function_that_is_declared_only_is_an_error_of_the_compilation) {
    const Compiled compiled = compile("__device__ int g(int);\n" + kernel("i[0] = g(1);"));
    EXPECT_EQ(compiled.result, 6);
    EXPECT_NE(compiled.log.find("_Z1gi"), std::string::npos) << compiled.log;
}

TEST(SimNvrtc, functions_and_variables_of_the_host_are_refused) {
    const Compiled function = compile("\nstatic inline float half(float x) { return x / 2; }\n");
    EXPECT_EQ(function.result, 6);
    EXPECT_NE(function.log.find("kernel.cu(2): error: "), std::string::npos) << function.log;
    EXPECT_NE(function.log.find("'half'"), std::string::npos) << function.log;
    EXPECT_EQ(compile("template <class T> T half(T x) { return x / 2; }").result, 6);
    EXPECT_EQ(compile("int counter;").result, 6);
    EXPECT_EQ(compile("static const int limit = 4; constexpr float half = 0.5f;").result, 0);
    EXPECT_EQ(compile("float half(float x) { return x / 2; }\nint counter;",
                      {"--device-as-default-execution-space"})
                  .result,
              0);
}

TEST(SimNvrtc, what_only_the_hosts_compiler_knows_is_refused) {
    for (const char* body :
         {"int64_t x = 0;", "uint32_t x = 0;", "f[0] = INFINITY;", "f[0] = std::sin(1.0f);",
          "d[0] = __builtin_fmod(d[0], d[0]);", "__half x;", "_Float16 x = 1;", "__int128 x = 1;",
          "thread_local int x;", "throw 1;", "threadIdx.x = 1;", "int v[i[0]];",
          "int x = ({ 1; });", "__atomic_fetch_add(i, 1, 0);"})
        EXPECT_FALSE(compiles(body)) << body;
    EXPECT_EQ(compile("#include <cstdint>\n" + kernel("")).result, 6);
    EXPECT_EQ(compile(kernel("__int128 x = 1; i[0] = x;"), {"--device-int128"}).result, 0);
}

TEST(SimNvrtc, ambiguous_calls_of_math_functions_are_refused) {
    for (const char* call : {"sin(i[0])", "sqrt(i[0])", "pow(f[0], d[0])", "max(1ull, 2)"})
        EXPECT_FALSE(compiles("d[0] = " + std::string(call) + ";")) << call;
    for (const char* call : {"sin(f[0])", "pow(f[0], 2)", "max(1u, i[0])", "min(f[0], d[0])"})
        EXPECT_TRUE(compiles("d[0] = " + std::string(call) + ";")) << call;
}

TEST(SimNvrtc, atomics_exist_for_the_devices_types_only) {
    for (const char* good : {"atomicAdd(i, 1)", "atomicAdd((unsigned*)i, 1u)", "atomicAdd(f, 1.f)",
                             "atomicAdd(d, 1.0)", "atomicAdd(u, 1ull)", "atomicMin(i, 1)",
                             "atomicMax((long long*)u, 1ll)", "atomicExch(f, 1.f)",
                             "atomicCAS((unsigned short*)i, (unsigned short)1, (unsigned short)2)"})
        EXPECT_TRUE(compiles(std::string(good) + ";")) << good;
    for (const char* bad :
         {"atomicAdd((long long*)u, 1ll)", "atomicAdd((long*)u, 1l)", "atomicAdd((size_t*)u, 1)",
          "atomicAdd((short*)i, 1)", "atomicMin(f, 1.f)", "atomicMin((long*)u, 1l)",
          "atomicExch(d, 1.0)", "atomicCAS((long long*)u, 1ll, 1ll)", "atomicSub(u, 1ull)"})
        EXPECT_FALSE(compiles(std::string(bad) + ";")) << bad;
}

TEST(SimNvrtc, atomics_give_the_old_value) {
    Arrays a;
    a.i = {5, 7, 9};
    a.f = {1.5f};
    a.d = {0.5};
    ASSERT_EQ(a.run("i[10] = atomicAdd(i, 2); f[10] = atomicAdd(f, 1.0f);\n"
                    "d[10] = atomicAdd(d, 1.0); i[11] = atomicMin(i + 1, -3);\n"
                    "i[12] = atomicCAS(i + 2, 9, 4); i[13] = atomicCAS(i + 2, 9, 5);"),
              "");
    EXPECT_EQ(a.i[0], 7);
    EXPECT_EQ(a.i[1], -3);
    EXPECT_EQ(a.i[2], 4);
    EXPECT_EQ(a.i[10], 5);
    EXPECT_EQ(a.i[11], 7);
    EXPECT_EQ(a.i[12], 9);
    EXPECT_EQ(a.i[13], 4);
    EXPECT_EQ(a.f[0], 2.5f);
    EXPECT_EQ(a.f[10], 1.5f);
    EXPECT_EQ(a.d[0], 1.5);
}

TEST(SimNvrtc, conversions_out_of_range_saturate) {
    Arrays a;
    a.f = {1e20f, -1e20f, std::numeric_limits<float>::quiet_NaN(), 2.5f, -2.5f};
    ASSERT_EQ(a.run("for (int k = 0; k < 5; ++k) { i[k] = __float2int_rz(f[k]);\n"
                    "u[k] = __float2ull_rz(f[k]); i[10 + k] = __float2int_rn(f[k]); }"),
              "");
    EXPECT_EQ(a.i[0], std::numeric_limits<int>::max());
    EXPECT_EQ(a.i[1], std::numeric_limits<int>::min());
    EXPECT_EQ(a.i[2], 0);
    EXPECT_EQ(a.i[3], 2);
    EXPECT_EQ(a.i[4], -2);
    EXPECT_EQ(a.i[13], 2);
    EXPECT_EQ(a.u[0], std::numeric_limits<unsigned long long>::max());
    EXPECT_EQ(a.u[1], 0u);
}

TEST(SimNvrtc, fmad_false_rounds_a_product_before_it_is_added) {
    const std::string source = kernel("f[0] = f[1] * f[2] + f[3];");
    for (const bool fmad : {false, true}) {
        const Compiled compiled =
            compile(source, {"-arch=sm_90", fmad ? "--fmad=true" : "--fmad=false"});
        ASSERT_EQ(compiled.result, 0) << compiled.log;
        const Image image(compiled.cubin);
        Arrays a;
        a.f = {0, 1 + 0x1p-12f, 1 + 0x1p-12f, -1};
        ASSERT_EQ(launch(image.find("k"), {}, a.i.data(), a.f.data(), a.d.data(), a.u.data()), "");
        const bool fused = fmad && __builtin_cpu_supports("fma");
        EXPECT_EQ(a.f[0], fused ? 0x1p-11f + 0x1p-24f : 0x1p-11f);
    }
}

TEST(SimNvrtc, bits_and_math_functions_are_the_devices) {
    Arrays a;
    a.f = {1.0f, 2.5f, 3.0f};
    ASSERT_EQ(a.run("u[0] = __umul64hi(1ull << 63, 6); i[0] = __clz(1); i[1] = __clz(0);\n"
                    "i[2] = __popc(0xff); i[3] = __float_as_int(f[0]); f[10] = rintf(f[1]);\n"
                    "f[11] = fmaf(f[0], f[1], f[2]); i[4] = isnan(nanf(\"\"));\n"
                    "i[5] = signbit(copysignf(1, -0.0f)); d[0] = rsqrt(4.0); i[6] = warpSize;"),
              "");
    EXPECT_EQ(a.u[0], 3u);
    EXPECT_EQ(a.i[0], 31);
    EXPECT_EQ(a.i[1], 32);
    EXPECT_EQ(a.i[2], 8);
    EXPECT_EQ(a.i[3], 0x3f800000);
    EXPECT_EQ(a.f[10], 2.0f);
    EXPECT_EQ(a.f[11], 5.5f);
    EXPECT_EQ(a.i[4], 1);
    EXPECT_EQ(a.i[5], 1);
    EXPECT_EQ(a.d[0], 0.5);
    EXPECT_EQ(a.i[6], 32);
}

TEST(SimNvrtc, every_thread_of_a_grid_in_three_dimensions_runs_once) {
    Arrays a;
    ASSERT_EQ(a.run("const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * "
                    "blockIdx.z);\nconst int thread = threadIdx.x + blockDim.x * (threadIdx.y + "
                    "blockDim.y * threadIdx.z);\n++i[block * 8 + thread];",
                    {{2, 2, 2}, {2, 2, 2}}),
              "");
    for (const int count : a.i) EXPECT_EQ(count, 1);
}

TEST(SimNvrtc, shared_memory_is_exchanged_across_a_barrier) {
    Arrays a;
    ASSERT_EQ(
        a.run("static __shared__ int s[16];\ns[threadIdx.x] = threadIdx.x + 100 * blockIdx.x;\n"
              "__syncthreads();\ni[16 * blockIdx.x + threadIdx.x] = s[15 - threadIdx.x];",
              {{4, 1, 1}, {16, 1, 1}}),
        "");
    for (int k = 0; k < 64; ++k)
        EXPECT_EQ(a.i[static_cast<size_t>(k)], 15 - k % 16 + 100 * (k / 16));
}

TEST(SimNvrtc, barriers_in_a_loop_reduce_a_block) {
    Arrays a;
    ASSERT_EQ(a.run("extern __shared__ float s[];\nconst int t = threadIdx.x;\ns[t] = t;\n"
                    "__syncthreads();\nfor (int n = blockDim.x / 2; n > 0; n /= 2) {\n"
                    "if (t < n) s[t] += s[t + n];\n__syncthreads();\n}\nif (t == 0) f[0] = s[0];",
                    {{1, 1, 1}, {256, 1, 1}, 1024}),
              "");
    EXPECT_EQ(a.f[0], 255.0f * 128);
}

TEST(SimNvrtc, a_thread_that_returns_before_a_barrier_is_reported) {
    Arrays a;
    const std::string text =
        a.run("if (threadIdx.x == 3) return;\n__syncthreads();", {{1, 1, 1}, {8, 1, 1}});
    EXPECT_NE(text.find("divergent barrier"), std::string::npos) << text;
    EXPECT_NE(text.find("7 of block (0, 0, 0)'s 8 threads wait in line 3"), std::string::npos)
        << text;
}

TEST(SimNvrtc, threads_at_two_barriers_are_reported) {
    Arrays a;
    const std::string text = a.run("if (threadIdx.x < 4)\n__syncthreads();\nelse\n__syncthreads();",
                                   {{1, 1, 1}, {8, 1, 1}});
    EXPECT_NE(text.find("in line 3 and in line 5"), std::string::npos) << text;
}

TEST(SimNvrtc, a_launch_after_a_divergent_one_runs) {
    const Compiled compiled =
        compile(kernel("if (threadIdx.x == i[0]) return;\n__syncthreads();\nf[threadIdx.x] = 1;"));
    ASSERT_EQ(compiled.result, 0) << compiled.log;
    const Image image(compiled.cubin);
    const tack_sim_kernel* entry = image.find("k");
    EXPECT_EQ(entry->uses_barriers, 1u);
    const Shape shape{{1, 1, 1}, {8, 1, 1}};
    Arrays a;
    EXPECT_NE(launch(entry, shape, a.i.data(), a.f.data(), a.d.data(), a.u.data()), "");
    a.i[0] = -1;
    EXPECT_EQ(launch(entry, shape, a.i.data(), a.f.data(), a.d.data(), a.u.data()), "");
    EXPECT_EQ(a.f[7], 1.0f);
}

TEST(SimNvrtc, a_failed_assert_names_its_line_and_thread) {
    Arrays a;
    const std::string text =
        a.run("assert(i[0] == 0);\nassert(threadIdx.x != 2);", {{1, 1, 1}, {4, 1, 1}});
    EXPECT_NE(text.find("kernel.cu(3)"), std::string::npos) << text;
    EXPECT_NE(text.find("thread (2, 0, 0)"), std::string::npos) << text;
}

TEST(SimNvrtc, options_are_taken_and_refused_as_by_the_real_compiler) {
    const std::string source = kernel("");
    for (const char* good :
         {"-arch=sm_75", "--gpu-architecture=sm_121", "-arch=compute_90", "-arch=sm_90a",
          "-arch=sm_100f", "--fmad=false", "-fmad=true", "--use_fast_math", "--std=c++20", "-DX=1",
          "-D X=1", "--define-macro=X", "-default-device", "-lineinfo", "-G", "-w"})
        EXPECT_EQ(compile(source, {good}).result, 0) << good;
    for (const char* bad : {"-arch=sm_70", "-arch=sm_91", "-arch=sm_75a", "-arch=90", "-arch sm_90",
                            "--fmad", "--fmad=maybe", "--fmad false", "--use_fast_math=true", "-O3",
                            "-nonsense", "", "-", "--std=c++98", "kernel.cu"}) {
        const Compiled compiled = compile(source, {bad});
        EXPECT_EQ(compiled.result, 5) << bad;
        EXPECT_TRUE(compiled.log.starts_with("nvrtc: error: ")) << compiled.log;
    }
}

TEST(SimNvrtc, the_architecture_and_definitions_reach_the_source) {
    const Compiled compiled = compile(
        "#if __CUDA_ARCH__ != 860 || VALUE != 3 || !defined(__CUDACC_RTC__)\n#error\n#endif",
        {"-arch=sm_86", "-DVALUE=3"});
    ASSERT_EQ(compiled.result, 0) << compiled.log;
    const Image image(compiled.cubin);
    const auto* architecture =
        static_cast<const uint32_t*>(dlsym(image.handle, TACK_SIM_IMAGE_ARCHITECTURE));
    ASSERT_NE(architecture, nullptr);
    EXPECT_EQ(*architecture, 86u);
}

TEST(SimNvrtc, a_virtual_architecture_gives_no_cubin_and_ptx_says_what_it_is) {
    const Compiled compiled = compile(kernel(""), {"-arch=compute_90"});
    ASSERT_EQ(compiled.result, 0) << compiled.log;
    EXPECT_EQ(compiled.cubin, "");
    EXPECT_TRUE(compiled.ptx.starts_with(TACK_SIM_PTX "7f454c46"));
    EXPECT_NE(compiled.ptx.find(".target sm_90\n"), std::string::npos);
}

TEST(SimNvrtc, version_and_architectures_are_those_of_a_real_release) {
    int major = 0, minor = 0, count = 0;
    ASSERT_EQ(call("nvrtcVersion", &major, &minor), 0);
    EXPECT_EQ(major, 13);
    ASSERT_EQ(call("nvrtcGetNumSupportedArchs", &count), 0);
    std::vector<int> all(static_cast<size_t>(count));
    ASSERT_EQ(call("nvrtcGetSupportedArchs", all.data()), 0);
    EXPECT_EQ(all.front(), 75);
    EXPECT_EQ(all.back(), 121);
}

TEST(SimNvrtc, a_program_that_does_not_exist_is_refused) {
    void* program = nullptr;
    const char* const* none = nullptr;
    EXPECT_EQ(call("nvrtcCompileProgram", program, 0, none), 4);
    EXPECT_EQ(call("nvrtcCreateProgram", &program, "", "a.cu", 0, none, none), 0);
    void* copy = program;
    EXPECT_EQ(call("nvrtcDestroyProgram", &program), 0);
    EXPECT_EQ(program, nullptr);
    EXPECT_EQ(call("nvrtcDestroyProgram", &copy), 4);
}

TEST(SimNvrtc, names_are_asked_for_in_order) {
    void* program = nullptr;
    const char* const* none = nullptr;
    const char* lowered = nullptr;
    ASSERT_EQ(call("nvrtcCreateProgram", &program, "template <class T> __global__ void k(T*) {}",
                   "a.cu", 0, none, none),
              0);
    EXPECT_EQ(call("nvrtcAddNameExpression", program, "k<int>"), 0);
    EXPECT_EQ(call("nvrtcGetLoweredName", program, "k<int>", &lowered), 9);
    EXPECT_EQ(call("nvrtcCompileProgram", program, 0, none), 0);
    EXPECT_EQ(call("nvrtcAddNameExpression", program, "k<float>"), 8);
    EXPECT_EQ(call("nvrtcGetLoweredName", program, "k<float>", &lowered), 10);
    EXPECT_EQ(call("nvrtcDestroyProgram", &program), 0);
}

TEST(SimNvrtc, the_chosen_call_of_an_entry_point_fails) {
    reinterpret_cast<void (*)()>(dlsym(library(), "tack_sim_reset_counts"))();
    ASSERT_EQ(call("tack_sim_fail", "nvrtcCompileProgram:2:1,nvrtcVersion:1"), 0);
    EXPECT_EQ(compile(kernel("")).result, 0);
    EXPECT_EQ(compile(kernel("")).result, 1);
    EXPECT_EQ(compile(kernel("")).result, 0);
    int major = 0, minor = 0;
    EXPECT_EQ(call("nvrtcVersion", &major, &minor), 11);
    EXPECT_EQ(call("tack_sim_call_count", "nvrtcCompileProgram"), 3);
    EXPECT_EQ(call("tack_sim_fail", ""), 0);
    EXPECT_EQ(call("tack_sim_fail", "nvrtcVersion"), 1);
}

TEST(SimNvrtc, a_program_that_was_not_destroyed_is_alive) {
    void* program = nullptr;
    const char* const* none = nullptr;
    const auto live =
        reinterpret_cast<size_t (*)(char*, size_t)>(dlsym(library(), "tack_sim_live_objects"));
    EXPECT_EQ(live(nullptr, 0), 1u);
    ASSERT_EQ(call("nvrtcCreateProgram", &program, "", "a.cu", 0, none, none), 0);
    char text[64];
    EXPECT_EQ(live(text, sizeof text), 14u);
    EXPECT_STREQ(text, "program a.cu\n");
    EXPECT_EQ(call("nvrtcDestroyProgram", &program), 0);
    EXPECT_EQ(live(text, sizeof text), 1u);
}

TEST(SimNvrtc, a_source_is_compiled_once) {
    const Folder cache;
    setenv("TACK_SIM_CACHE", cache.path.c_str(), 1);
    const Compiled first = compile(kernel("i[0] = 1;"));
    ASSERT_EQ(first.result, 0) << first.log;
    ASSERT_EQ(cache.files(".so").size(), 1u);
    EXPECT_EQ(contents(cache.files(".so")[0]), first.cubin);
    const auto written = std::filesystem::last_write_time(cache.files(".so")[0]);
    EXPECT_EQ(compile(kernel("i[0] = 1;")).cubin, first.cubin);
    EXPECT_EQ(std::filesystem::last_write_time(cache.files(".so")[0]), written);
    EXPECT_EQ(compile(kernel("i[0] = 2;")).result, 0);
    EXPECT_EQ(compile(kernel("i[0] = 1;"), {"-arch=sm_80"}).result, 0);
    EXPECT_EQ(cache.files(".so").size(), 3u);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(cache.path), {}), 3);
}

TEST(SimNvrtc, a_cache_that_others_can_write_to_is_refused) {
    const Folder cache;
    ASSERT_EQ(chmod(cache.path.c_str(), 0777), 0);
    setenv("TACK_SIM_CACHE", cache.path.c_str(), 1);
    const Compiled compiled = compile(kernel(""));
    EXPECT_EQ(compiled.result, 11);
    EXPECT_NE(compiled.log.find(cache.path), std::string::npos) << compiled.log;
}

TEST(SimNvrtc, threads_compile_the_same_source_at_once) {
    const Folder cache;
    setenv("TACK_SIM_CACHE", cache.path.c_str(), 1);
    std::array<Compiled, 4> compiled;
    std::vector<std::thread> threads;
    for (Compiled& mine : compiled)
        threads.emplace_back([&mine] { mine = compile(kernel("f[0] = sinf(f[1]);")); });
    for (std::thread& thread : threads) thread.join();
    for (const Compiled& mine : compiled) {
        EXPECT_EQ(mine.result, 0) << mine.log;
        const Image image(mine.cubin);
        EXPECT_NE(image.find("k"), nullptr);
    }
    EXPECT_EQ(cache.files(".so").size(), 1u);
}

TEST(SimNvrtc, compiled_sources_are_collected_with_their_options) {
    const Folder sources;
    setenv("TACK_SIM_SOURCES", sources.path.c_str(), 1);
    ASSERT_EQ(compile(kernel("i[0] = 1;"), {"-arch=sm_80", "--fmad=false"}).result, 0);
    EXPECT_EQ(compile(kernel("i[0] = missing;")).result, 6);
    ASSERT_EQ(sources.files(".cu").size(), 1u);
    EXPECT_EQ(contents(sources.files(".cu")[0]), kernel("i[0] = 1;"));
    ASSERT_EQ(sources.files(".options").size(), 1u);
    EXPECT_EQ(contents(sources.files(".options")[0]), "-arch=sm_80\n--fmad=false\n");
}

}  // namespace
