#include "backend/cpu/compiler.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <climits>
#include <limits>
#include <thread>

#include "backend/cpu/processor.hpp"
#include "compiler_support.hpp"
#include "tack/cache.hpp"
#include "tack/device.hpp"

namespace tack::cpu {
namespace {

using tack::testing::Environment;
using tack::testing::error_of;
using tack::testing::Folder;
using tack::testing::function;
using tack::testing::read_whole;
using tack::testing::run_in_child;
using tack::testing::start_child;
using tack::testing::wait_for;
using tack::testing::write_whole;

std::string answering(int value) { return "int f(void) { return " + std::to_string(value) + "; }"; }
int answer(const detail::Ref<Module>& module) { return function<int()>(*module, "f")(); }

class CompileTest : public ::testing::Test {
protected:
    const Folder cache;
    const Environment directory{"TACK_CACHE_DIR", cache.path()};
};

// With each compiler that there is.
class Compile : public CompileTest, public ::testing::WithParamInterface<std::string> {
    const Environment choice_{"TACK_COMPILER", GetParam()};
};
INSTANTIATE_TEST_SUITE_P(EveryCompiler, Compile, ::testing::ValuesIn(tack::testing::compilers()),
                         [](const auto& each) { return each.param; });

TEST_P(Compile, a_loop_over_arrays_computes_each_element) {
    const auto module = compile(
        "void saxpy(long n, float a, const float* x, float* restrict y) {"
        "  for (long i = 0; i < n; ++i) y[i] = a * x[i] + y[i];"
        "}",
        {});
    std::vector<float> x(1003), y(1003);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = y[i] = static_cast<float>(i);
    function<void(long, float, const float*, float*)>(*module, "saxpy")(1003, 2, x.data(),
                                                                        y.data());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 3 * static_cast<float>(i));
}

TEST_P(Compile, a_refused_source_is_an_error_with_the_place_and_nothing_on_stderr) {
    ::testing::internal::CaptureStderr();
    const std::string what = error_of([] { compile("int f(void) {\n  return missing;\n}", {}); });
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(what.substr(0, 9), "compile: ");
    EXPECT_CONTAINS(what, "kernel.c:2:");
    EXPECT_CONTAINS(what, "missing");
}

TEST_P(Compile, a_warning_is_not_printed) {
    ::testing::internal::CaptureStderr();
    compile("int f(int a) { return a / 0; }", {});
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_P(Compile, signed_integers_wrap) {
    const auto module = compile("int f(int a) { return a + 1 > a; }", {});
    EXPECT_EQ(function<int(int)>(*module, "f")(INT_MAX), 0);
}

TEST_P(Compile, memory_may_be_read_as_another_type) {
    const auto module = compile("int f(int* p, float* q) { *p = 1; *q = 2; return *p; }", {});
    int cell = 0;
    EXPECT_EQ(function<int(int*, float*)>(*module, "f")(&cell, reinterpret_cast<float*>(&cell)),
              0x40000000);
}

TEST_P(Compile, products_and_sums_round_separately) {
    const auto module = compile("double f(double a, double b, double c) { return a * b + c; }", {});
    const double a = 1 + 0x1p-30;
    volatile double product = a * a;
    EXPECT_EQ(function<double(double, double, double)>(*module, "f")(a, a, -1), product - 1);
}

TEST_P(Compile, each_half_precision_operation_rounds) {
    const auto module = compile(
        "float f(float a, float b) {"
        "  _Float16 s = (_Float16)a + (_Float16)b; return (float)(s - (_Float16)a);"
        "}",
        {});
    // 2048 + 1 is not a half, and rounds to even.
    EXPECT_EQ(function<float(float, float)>(*module, "f")(2048, 1), 0);
}

TEST_P(Compile, division_by_a_zero_float_is_infinite) {
    const auto module = compile("float f(float a) { return 1 / a; }", {});
    EXPECT_EQ(function<float(float)>(*module, "f")(0), std::numeric_limits<float>::infinity());
}

TEST_P(Compile, fast_math_is_compiled_apart) {
    const std::string source = "double f(double a, double b, double c) { return a * b + c; }";
    compile(source, {});
    CompileOptions fast;
    fast.fast_math = true;
    compile(source, fast);
    EXPECT_EQ(cache_usage().entries, 2);
}

TEST_P(Compile, the_assembly_holds_the_functions_and_is_not_cached) {
    EXPECT_CONTAINS(compile_to_assembly(answering(77), {}), "$77");
    EXPECT_EQ(cache_usage().entries, 0);
}

TEST_P(Compile, the_same_source_is_compiled_once) {
    EXPECT_EQ(answer(compile(answering(1), {})), 1);
    EXPECT_EQ(answer(compile(answering(1), {})), 1);
    EXPECT_EQ(answer(compile(answering(2), {})), 2);
    EXPECT_EQ(cache_usage().entries, 2);
}

// numba/numba#10434
TEST_P(Compile, a_damaged_cache_entry_is_compiled_anew_and_replaced) {
    compile(answering(3), {});
    const std::string file = cache.path() + "/" + cache.names().at(0);
    const std::string whole = read_whole(file);
    for (const std::size_t length : {std::size_t{0}, whole.size() / 2}) {
        write_whole(file, whole.substr(0, length));
        EXPECT_EQ(answer(compile(answering(3), {})), 3);
        EXPECT_EQ(read_whole(file).size(), whole.size());
    }
}

TEST_P(Compile, an_unusable_cache_costs_only_the_compilation) {
    const Environment impossible("TACK_CACHE_DIR", "/dev/null/cache");
    EXPECT_EQ(answer(compile(answering(4), {})), 4);
}

// NVIDIA/warp#1705
TEST_P(Compile, threads_compile_at_once_with_a_cold_cache) {
    std::array<int, 4> answers{};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            answers[static_cast<std::size_t>(t)] = answer(compile(answering(t / 2), {}));
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(answers, (std::array<int, 4>{0, 0, 1, 1}));
}

TEST_P(Compile, eight_processes_compile_the_same_at_once_with_a_cold_cache) {
    std::vector<pid_t> children;
    for (int c = 0; c < 8; ++c)
        children.push_back(start_child([] { return answer(compile(answering(5), {})) == 5; }));
    for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(cache.names().size(), 1u);
}

TEST_P(Compile, a_forked_child_runs_old_code_and_compiles_new) {
    const auto module = compile(answering(6), {});
    EXPECT_EQ(
        run_in_child([&] { return answer(module) == 6 && answer(compile(answering(7), {})) == 7; }),
        0);
}

// triton-lang/triton#4129
TEST_P(Compile, an_interrupt_reaches_its_handler_after_a_compilation) {
    static volatile sig_atomic_t interrupts;
    interrupts = 0;
    const auto before = signal(SIGINT, [](int) { interrupts = interrupts + 1; });
    compile(answering(8), {});
    raise(SIGINT);
    signal(SIGINT, before);
    EXPECT_EQ(interrupts, 1);
}

class EmbeddedCompiler : public CompileTest {
protected:
    void SetUp() override {
        if (!embedded_toolchain()) GTEST_SKIP() << "built without the embedded compiler";
    }
    // The start of the plugin, with its build id but nothing that could be loaded.
    std::string stump() const {
        std::string bytes(64 << 10, '\0');
        std::ifstream(embedded_path(), std::ios::binary)
            .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        return bytes;
    }
    const Environment choice{"TACK_COMPILER", "embedded"};
    const Folder folder;
};

TEST_F(EmbeddedCompiler, describes_itself_with_its_version) {
    const std::string description = tack::compiler_description();
    EXPECT_EQ(description.substr(0, 9), "Clang 22.");
    EXPECT_CONTAINS(description, "(embedded)");
}

TEST_F(EmbeddedCompiler, is_not_loaded_for_what_the_cache_has) {
    compile(answering(10), {});
    const std::string path = folder.path() + "/libtack_clang.so";
    write_whole(path, stump());
    const Environment plugin("TACK_CLANG", path);
    EXPECT_EQ(answer(compile(answering(10), {})), 10);
    EXPECT_CONTAINS(error_of([] { compile(answering(11), {}); }), "cannot be loaded");
}

// NVIDIA/warp#1759
TEST_F(EmbeddedCompiler, of_another_build_does_not_share_cache_entries) {
    compile(answering(12), {});
    std::string bytes = stump();
    const std::string identity = embedded_toolchain()->identity();
    const std::string digits = identity.substr(identity.rfind(' ') + 1);
    std::string id;
    for (std::size_t i = 0; i < digits.size(); i += 2)
        id += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    const std::size_t place = bytes.find(id);
    ASSERT_NE(place, std::string::npos);
    bytes[place] = static_cast<char>(bytes[place] + 1);
    const std::string path = folder.path() + "/libtack_clang.so";
    write_whole(path, bytes);
    const Environment plugin("TACK_CLANG", path);
    EXPECT_CONTAINS(error_of([] { compile(answering(12), {}); }), "cannot be loaded");
}

// mitsuba-renderer/drjit#196
TEST_F(CompileTest, a_plugin_that_cannot_be_loaded_says_why) {
    const std::string path = cache.path() + "/libtack_clang.so";
    write_whole(path, "not a library");
    const Environment plugin("TACK_CLANG", path);
    const std::string what = error_of([] { compile(answering(13), {}); });
    EXPECT_CONTAINS(what, path + " cannot be loaded");
    EXPECT_CONTAINS(what, "file too short");
}

TEST_F(CompileTest, without_any_compiler_the_error_lists_all_that_was_looked_for) {
    const Environment plugin("TACK_CLANG", "/nowhere/libtack_clang.so");
    const Environment path("PATH", "/nowhere/bin");
    const Environment named("TACK_CC", nullptr), choice("TACK_COMPILER", nullptr);
    const std::string what = error_of([] { compile(answering(14), {}); });
    for (const char* part :
         {"/nowhere/libtack_clang.so", "cc, gcc and clang", "/nowhere/bin", "TACK_CC"})
        EXPECT_CONTAINS(what, part);
    EXPECT_EQ(tack::compiler_description(), what);
}

TEST_F(CompileTest, an_unknown_choice_of_compiler_is_a_value_error) {
    const Environment choice("TACK_COMPILER", "icc");
    try {
        compile(answering(15), {});
        FAIL() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::value);
        EXPECT_CONTAINS(error.what(), "'icc'");
    }
}

class SystemCompiler : public CompileTest {
protected:
    void SetUp() override {
        if (!system_toolchain()) GTEST_SKIP() << "there is no C compiler on PATH";
    }
    const Environment choice{"TACK_COMPILER", "system"};
};

TEST_F(SystemCompiler, describes_itself_with_path_and_version) {
    const std::string description = tack::compiler_description();
    EXPECT_EQ(description[0], '/');
    EXPECT_NE(description.find_first_of("0123456789"), std::string::npos);
}

TEST_F(SystemCompiler, is_the_one_that_tack_cc_names) {
    const std::string script = cache.path() + "/mycc";
    write_whole(script, "#!/bin/sh\necho the chosen one >&2\nexit 1\n");
    chmod(script.c_str(), 0700);
    const Environment named("TACK_CC", script);
    EXPECT_CONTAINS(error_of([] { compile(answering(16), {}); }), "the chosen one");
}

TEST_F(SystemCompiler, that_tack_cc_names_in_vain_is_an_error_that_names_it) {
    const Environment named("TACK_CC", "/nowhere/cc");
    EXPECT_CONTAINS(error_of([] { compile(answering(17), {}); }), "TACK_CC=/nowhere/cc");
}

TEST_F(SystemCompiler, is_never_taken_from_the_current_folder) {
    const Environment named("TACK_CC", nullptr);
    for (const char* path : {"", ".", ":", "bin"}) {
        const Environment set("PATH", path);
        EXPECT_EQ(system_toolchain(), nullptr) << path;
    }
}

TEST_F(SystemCompiler, leaves_no_temporary_files) {
    const Folder temporary;
    const Environment set("TMPDIR", temporary.path());
    compile(answering(18), {});
    EXPECT_NE(error_of([] { compile("int f(", {}); }), "");
    EXPECT_EQ(temporary.names().size(), 0u);
}

TEST_F(SystemCompiler, works_where_children_are_not_waited_for) {
    const auto before = signal(SIGCHLD, SIG_IGN);
    EXPECT_EQ(answer(compile(answering(19), {})), 19);
    EXPECT_NE(error_of([] { compile("int f(", {}); }), "");
    signal(SIGCHLD, before);
}

TEST_F(SystemCompiler, changed_in_place_does_not_share_cache_entries) {
    const std::string script = cache.path() + "/mycc";
    const std::string real = system_toolchain()->identity().substr(7);
    const std::string compiler = real.substr(0, real.find(' '));
    const Environment named("TACK_CC", script);
    write_whole(script, "#!/bin/sh\nexec " + compiler + " \"$@\"\n");
    chmod(script.c_str(), 0700);
    compile(answering(20), {});
    write_whole(script, "#!/bin/sh\nexec  " + compiler + " \"$@\"\n");
    compile(answering(20), {});
    EXPECT_EQ(cache_usage().entries, 2);
}

// A processor with all that AVX-512 takes.
ProcessorBits full_processor() {
    ProcessorBits bits;
    bits.leaf1_ecx = bits.leaf7_ebx = bits.leaf7_ecx = bits.extended1_ecx = ~0u;
    bits.xcr0 = 0xe7;
    return bits;
}
bool has(const ProcessorBits& bits, std::string_view name) {
    const auto features = features_of(bits);
    return std::find(features.begin(), features.end(), name) != features.end();
}

// jax-ml/jax#2906
TEST(ProcessorFeatures, registers_that_the_system_does_not_save_are_not_used) {
    ProcessorBits bits = full_processor();
    EXPECT_TRUE(has(bits, "avx512vl"));
    bits.xcr0 = 0x7;  // no mask registers, no ZMM
    EXPECT_TRUE(has(bits, "avx2"));
    for (const std::string_view feature : features_of(bits))
        EXPECT_NE(feature.substr(0, 6), "avx512");
    bits.xcr0 = 0x3;  // no YMM
    EXPECT_TRUE(has(bits, "sse4.2"));
    for (const char* feature : {"avx", "avx2", "fma", "f16c"}) EXPECT_FALSE(has(bits, feature));
}

// jax-ml/jax#2906
TEST(ProcessorFeatures, a_masked_feature_takes_along_what_builds_on_it) {
    ProcessorBits bits = full_processor();
    bits.leaf7_ebx &= ~(1u << 5);  // AVX2
    EXPECT_TRUE(has(bits, "fma"));
    EXPECT_FALSE(has(bits, "avx512f"));
    EXPECT_FALSE(has(bits, "avx512bw"));
}

TEST(ProcessorFeatures, an_old_processor_has_none) {
    EXPECT_TRUE(features_of(ProcessorBits{}).empty());
}

TEST(ProcessorFeatures, the_description_names_threads_and_the_widest_vectors) {
    const std::string description = processor_description();
    EXPECT_EQ(description.rfind(std::to_string(num_threads()) + " thread", 0), 0u) << description;
    EXPECT_CONTAINS(description, "x86-64 with ");
}

TEST(TackError, a_copy_has_the_same_kind_and_text) {
    const Error original(ErrorKind::index, "the text");
    Error copy(ErrorKind::value, "another");
    copy = original;
    EXPECT_EQ(copy.kind(), ErrorKind::index);
    EXPECT_STREQ(copy.what(), "the text");
    const Error second(copy);
    EXPECT_EQ(second.what(), original.what()) << "the text is shared";
    static_assert(std::is_nothrow_copy_constructible_v<Error>);
}

}  // namespace
}  // namespace tack::cpu
