#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "compiler_support.hpp"
#include "kernel/cache.hpp"
#include "tack/cache.hpp"

namespace tack::kernel::cache {
namespace {

using tack::testing::Environment;
using tack::testing::Folder;
using tack::testing::read_whole;
using tack::testing::run_in_child;
using tack::testing::write_whole;

class Cache : public ::testing::Test {
protected:
    std::string only_file() const {
        const auto names = folder.names();
        EXPECT_EQ(names.size(), 1u);
        return names.empty() ? "" : folder.path() + "/" + names[0];
    }
    const Folder folder;
    const Environment directory{"TACK_CACHE_DIR", folder.path()};
    const Environment limit{"TACK_CACHE_MAX_MB", nullptr};
};

TEST_F(Cache, what_was_stored_is_loaded_by_the_same_key_only) {
    const std::string payload("a\0b", 3);
    store("key", payload);
    EXPECT_EQ(load("key"), payload);
    EXPECT_EQ(load("kez"), std::nullopt);
    EXPECT_EQ(load("key "), std::nullopt);
}

TEST_F(Cache, a_second_payload_replaces_the_first) {
    store("key", "first");
    store("key", "second");
    EXPECT_EQ(load("key"), "second");
    EXPECT_EQ(folder.names().size(), 1u);
}

// ml-explore/mlx#3832
TEST_F(Cache, an_entry_of_another_key_under_the_same_name_is_a_miss) {
    store("one", "payload of one");
    const std::string entry = read_whole(only_file());
    clear_cache();
    store("two", "payload of two");
    write_whole(only_file(), entry);  // as if both keys had one hash
    EXPECT_EQ(load("two"), std::nullopt);
    store("two", "payload of two");
    EXPECT_EQ(load("two"), "payload of two");
}

// numba/numba#10434
TEST_F(Cache, an_entry_cut_at_any_length_is_a_miss_and_is_replaced) {
    store("key", "some payload");
    const std::string file = only_file(), whole = read_whole(file);
    for (std::size_t length = 0; length < whole.size(); ++length) {
        write_whole(file, whole.substr(0, length));
        EXPECT_EQ(load("key"), std::nullopt) << length;
    }
    store("key", "some payload");
    EXPECT_EQ(load("key"), "some payload");
}

TEST_F(Cache, any_changed_byte_is_a_miss) {
    store("key", "some payload");
    const std::string file = only_file(), whole = read_whole(file);
    for (std::size_t i = 0; i < whole.size(); ++i) {
        std::string changed = whole;
        changed[i] = static_cast<char>(changed[i] ^ 0x20);
        write_whole(file, changed);
        EXPECT_EQ(load("key"), std::nullopt) << i;
    }
}

TEST_F(Cache, a_fifo_in_place_of_an_entry_is_a_miss) {
    store("key", "payload");
    const std::string file = only_file();
    unlink(file.c_str());
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    EXPECT_EQ(load("key"), std::nullopt);
}

TEST_F(Cache, the_folder_is_made_for_this_user_alone) {
    const std::string made = folder.path() + "/inner";
    const Environment inner("TACK_CACHE_DIR", made);
    store("key", "payload");
    EXPECT_EQ(load("key"), "payload");
    struct stat status;
    ASSERT_EQ(stat(made.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    clear_cache();
    rmdir(made.c_str());
}

// NVIDIA/cudf#4857
TEST_F(Cache, a_folder_that_others_may_write_is_not_used) {
    store("key", "payload");
    for (const mode_t mode : {0777, 0720, 0702}) {
        ASSERT_EQ(chmod(folder.path().c_str(), mode), 0);
        EXPECT_EQ(load("key"), std::nullopt) << std::oct << mode;
        store("other", "payload");
        EXPECT_EQ(folder.names().size(), 1u) << std::oct << mode;
    }
}

TEST_F(Cache, a_folder_of_another_user_is_not_used) {
    // Root may give its folder away; other users have root's folders to look at.
    if (geteuid() != 0) {
        const Environment foreign("TACK_CACHE_DIR", "/usr");
        store("key", "payload");
        EXPECT_EQ(load("key"), std::nullopt);
        EXPECT_EQ(clear_cache(), 0);
        return;
    }
    store("key", "payload");
    ASSERT_EQ(chown(folder.path().c_str(), 65534, 65534), 0);
    EXPECT_EQ(load("key"), std::nullopt);
    store("other", "payload");
    EXPECT_EQ(folder.names().size(), 1u);
}

TEST_F(Cache, a_read_only_folder_still_serves_its_entries) {
    constexpr uid_t nobody = 65534;
    const bool root = geteuid() == 0;  // whom permissions do not bind
    store("key", "payload");
    if (root) {
        ASSERT_EQ(chown(only_file().c_str(), nobody, nobody), 0);
        ASSERT_EQ(chown(folder.path().c_str(), nobody, nobody), 0);
    }
    ASSERT_EQ(chmod(folder.path().c_str(), 0500), 0);
    EXPECT_EQ(run_in_child([&] {
                  if (root && setresuid(nobody, nobody, nobody) != 0) return false;
                  store("other", "payload");
                  return load("key") == "payload" && load("other") == std::nullopt;
              }),
              0);
    EXPECT_EQ(folder.names().size(), 1u);
}

TEST_F(Cache, a_folder_that_cannot_be_made_costs_nothing_but_the_cache) {
    const std::string file = folder.path() + "/file";
    write_whole(file, "");
    const Environment beyond("TACK_CACHE_DIR", file + "/cache");
    store("key", "payload");
    EXPECT_EQ(load("key"), std::nullopt);
}

TEST_F(Cache, a_write_that_fails_half_way_leaves_nothing_and_raises_no_signal) {
    EXPECT_EQ(run_in_child([&] {
                  const rlimit small{4096, 4096};
                  if (setrlimit(RLIMIT_FSIZE, &small) != 0) return false;
                  store("large", std::string(100000, 'x'));
                  store("small", "payload");
                  return load("large") == std::nullopt && load("small") == "payload";
              }),
              0);
    EXPECT_EQ(folder.names().size(), 1u);
}

TEST_F(Cache, without_any_directory_there_is_no_cache) {
    const Environment own("TACK_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", nullptr),
        home("HOME", nullptr);
    EXPECT_EQ(cache_directory(), "");
    store("key", "payload");
    EXPECT_EQ(load("key"), std::nullopt);
    EXPECT_EQ(cache_usage().entries, 0);
    EXPECT_EQ(clear_cache(), 0);
}

TEST_F(Cache, the_directory_is_tacks_own_then_xdgs_then_homes) {
    const Environment home("HOME", "/home/someone");
    EXPECT_EQ(cache_directory(), folder.path());
    const Environment own("TACK_CACHE_DIR", nullptr);
    {
        const Environment xdg("XDG_CACHE_HOME", "/xdg");
        EXPECT_EQ(cache_directory(), "/xdg/tack");
    }
    for (const char* ignored : {"", "relative"}) {
        const Environment xdg("XDG_CACHE_HOME", ignored);
        EXPECT_EQ(cache_directory(), "/home/someone/.cache/tack");
    }
}

TEST_F(Cache, usage_counts_entries_bytes_and_the_limit) {
    EXPECT_EQ(cache_usage().limit, std::int64_t{512} << 20);
    store("one", std::string(1000, 'x'));
    store("two", std::string(2000, 'x'));
    write_whole(folder.path() + "/unrelated", std::string(5000, 'x'));
    const Environment smaller("TACK_CACHE_MAX_MB", "7");
    const CacheUsage usage = cache_usage();
    EXPECT_EQ(usage.limit, 7 << 20);
    EXPECT_EQ(usage.entries, 2);
    EXPECT_GE(usage.bytes, 3000);
    EXPECT_LT(usage.bytes, 4000);
}

TEST_F(Cache, clearing_removes_the_entries_and_nothing_else) {
    store("one", "payload");
    store("two", "payload");
    write_whole(folder.path() + "/unrelated", "");
    EXPECT_EQ(clear_cache(), 2);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"unrelated"});
}

TEST_F(Cache, above_the_limit_what_was_used_longest_ago_goes) {
    const Environment one_megabyte("TACK_CACHE_MAX_MB", "1");
    const std::string payload(300000, 'x');
    const auto age = [&](int seconds) {  // makes all that is there so much older
        for (const std::string& name : folder.names()) {
            const std::string path = folder.path() + "/" + name;
            struct stat status;
            stat(path.c_str(), &status);
            const timespec times[2] = {{status.st_mtim.tv_sec - seconds, 0},
                                       {status.st_mtim.tv_sec - seconds, 0}};
            utimensat(AT_FDCWD, path.c_str(), times, 0);
        }
    };
    for (const char* key : {"one", "two", "three"}) {
        store(key, payload);
        age(100);
    }
    EXPECT_EQ(load("one"), payload);  // used last, though it is the oldest
    store("four", payload);
    EXPECT_EQ(load("one"), payload);
    EXPECT_EQ(load("two"), std::nullopt);
    EXPECT_EQ(load("four"), payload);
    EXPECT_LE(cache_usage().bytes, (1 << 20) / 10 * 9 + 1);
}

TEST_F(Cache, a_limit_of_zero_keeps_nothing) {
    const Environment none("TACK_CACHE_MAX_MB", "0");
    store("key", "payload");
    EXPECT_EQ(folder.names().size(), 0u);
}

TEST_F(Cache, a_limit_that_is_no_number_is_the_usual_one) {
    for (const char* wrong : {"", "many", "-1", "5 MB"}) {
        const Environment set("TACK_CACHE_MAX_MB", wrong);
        EXPECT_EQ(cache_usage().limit, std::int64_t{512} << 20) << wrong;
    }
}

// libocca/occa#449, CHIP-SPV/chipStar#1081
TEST_F(Cache, processes_that_store_and_load_at_once_see_whole_entries) {
    std::vector<pid_t> children;
    for (int c = 0; c < 8; ++c)
        children.push_back(tack::testing::start_child([&] {
            for (int i = 0; i < 200; ++i) {
                const std::string key = "key" + std::to_string(i % 5);
                const std::string payload(static_cast<std::size_t>(10000 + i % 5), 'x');
                const auto found = load(key);
                if (found && *found != payload) return false;
                store(key, payload);
                if (load(key) != payload) return false;
            }
            return true;
        }));
    for (const pid_t child : children) EXPECT_EQ(tack::testing::wait_for(child), 0);
    EXPECT_EQ(folder.names().size(), 5u);
}

}  // namespace
}  // namespace tack::kernel::cache
