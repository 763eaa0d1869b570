// `tack_tests --backend=cuda` runs the suites of arrays, DLPack, pointers and kernels there, but
// for what the table leaves out, and says how many tests ran and were skipped. The reasons are in
// the words of tests/python/backends.py.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "support.hpp"

namespace tack::test {
namespace {

constexpr std::string_view suites[] = {
    "test_array.cpp",       "test_dlpack.cpp",          "test_dlpack_exchange.cpp",
    "test_kernel.cpp",      "test_kernel_language.cpp", "test_kernel_forms.cpp",
    "test_raw_pointer.cpp",
};

constexpr const char* host_memory = "is about memory of the host's";
constexpr const char* host_view = "is about a view of the host's, which reaches no device's memory";
constexpr const char* host_code = "is about the code that the host's compiler gets";
constexpr const char* stand_in = "is about a stand-in for a device, the same on every backend";

struct Skip {
    std::string_view suite;  // without what a parameter adds
    std::string_view test;   // or the beginning of its name, before a star
    const char* reason;
};
constexpr Skip skips[] = {
    {"ArrayFromPtr", "a_whole_mapping*", host_memory},
    {"ArrayFromPtr", "a_range_that_*", host_memory},
    {"ArrayFromPtr", "a_page_*", host_memory},
    {"ArrayFromPtr", "read_only_pages_*", host_memory},
    {"ArrayFromPtr", "the_check_*", host_memory},
    {"Empty", "exportable_memory_is_refused_on_the_host", host_memory},
    {"ExportMemory", "is_refused_on_the_host_with_the_same_text", host_memory},
    {"HostAccess", "data_is_the_memory_and_shares_it", host_view},
    {"ReadOnly", "the_host_reads_in_place", host_memory},
    {"FromDlpack", "never_looks_at_the_memory", host_memory},
    {"Kernel", "inspect_shows_program_source_and_assembly", host_code},
    {"StreamingStores", "*", host_code},
    {"StreamingStoresOfRows", "*", host_code},
    {"PlainStores", "*", host_code},
    {"ArrayFromPtr", "an_address_of_a_device_is_not_looked_at_by_the_host", stand_in},
    {"Launch", "arrays_of_two_memory_domains_are_refused_and_nothing_runs", stand_in},
    {"Routing", "*", stand_in},
};

bool matches(std::string_view name, std::string_view pattern) {
    if (!pattern.ends_with('*')) return name == pattern;
    return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

/// "Reasons/PlainStores" and "Accumulation/2" without what their parameters added.
std::string_view plain_suite(const testing::TestInfo& test) {
    std::string_view name = test.test_suite_name();
    if (test.value_param()) name.remove_prefix(name.find('/') + 1);
    return name.substr(0, name.find('/'));
}

bool names(const Skip& skip, const testing::TestInfo& test) {
    const std::string_view name = test.name();
    return plain_suite(test) == skip.suite && matches(name.substr(0, name.find('/')), skip.test);
}

const char* reason_to_skip(const testing::TestInfo& test) {
    for (const Skip& skip : skips)
        if (names(skip, test)) return skip.reason;
    return nullptr;
}

/// The first row of the table that names no test; null where each does.
const Skip* stale_row() {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (const Skip& skip : skips) {
        bool used = false;
        for (int s = 0; s < all.total_test_suite_count(); ++s)
            for (int t = 0; t < all.GetTestSuite(s)->total_test_count(); ++t)
                used = used || names(skip, *all.GetTestSuite(s)->GetTestInfo(t));
        if (!used) return &skip;
    }
    return nullptr;
}

struct Skipping final : testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo& test) override {
        if (const char* reason = reason_to_skip(test)) GTEST_SKIP() << reason;
        ++run;
    }
    void OnTestEnd(const testing::TestInfo& test) override {
        if (test.result()->Skipped()) ++skipped[test.result()->GetTestPartResult(0).message()];
    }
    void OnTestProgramEnd(const testing::UnitTest&) override {
        int count = 0;
        for (const auto& [reason, tests] : skipped) count += tests;
        std::printf("Backend %s: %d C++ tests run, %d skipped.\n", backend.c_str(), run, count);
        for (const auto& [reason, tests] : skipped)
            std::printf("    %d %s\n", tests, reason.c_str());
    }
    int run = 0;
    std::map<std::string, int> skipped;
};

std::string filter_of_the_suites() {
    std::string filter;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
        const testing::TestSuite& suite = *all.GetTestSuite(s);
        const std::string_view file = suite.GetTestInfo(0)->file();
        for (const std::string_view name : suites)
            if (file.substr(file.rfind('/') + 1) == name)
                filter += std::string(suite.name()) + ".*:";
    }
    return filter;
}

}  // namespace
}  // namespace tack::test

int main(int argc, char** argv) {
    using namespace tack;
    testing::InitGoogleTest(&argc, argv);
    constexpr std::string_view option = "--backend=";
    if (argc > 1 && std::string_view(argv[1]).starts_with(option)) {
        test::backend = argv[1] + option.size();
        if (const auto* row = test::stale_row()) {
            std::fprintf(stderr, "backends.cpp: no test is called %s.%s\n",
                         std::string(row->suite).c_str(), std::string(row->test).c_str());
            return 1;
        }
        try {
            set_default_device(test::backend);
        } catch (const Error& error) {
            std::fprintf(stderr, "%s\n", error.what());
            return 1;
        }
        if (testing::GTEST_FLAG(filter) == "*")
            testing::GTEST_FLAG(filter) = test::filter_of_the_suites();
        testing::UnitTest::GetInstance()->listeners().Append(new test::Skipping);
    }
    return RUN_ALL_TESTS();
}
