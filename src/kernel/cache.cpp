#include "kernel/cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "tack/cache.hpp"
#include "tack/error.hpp"

namespace tack {
namespace {

class Descriptor {
public:
    explicit Descriptor(int fd) noexcept : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) close(fd_);
    }
    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }

private:
    int fd_;
};

// FNV-1a, 128 bits wide. It names files and finds damage; a key is compared in full.
struct Hash {
    __extension__ using Value = unsigned __int128;
    Value value = (Value{0x6c62272e07bb0142} << 64) | 0x62b821756295c58d;

    void add(std::string_view bytes) {
        constexpr Value prime = (Value{1} << 88) | 0x13b;
        for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * prime;
    }
    std::array<std::uint64_t, 2> halves() const {
        return {static_cast<std::uint64_t>(value >> 64), static_cast<std::uint64_t>(value)};
    }
};

constexpr std::string_view entry_suffix = ".kernel";
constexpr std::string_view temporary_prefix = ".new-";

std::string entry_name(std::string_view key) {
    Hash hash;
    hash.add(key);
    const auto [high, low] = hash.halves();
    char digits[33];
    std::snprintf(digits, sizeof digits, "%016llx%016llx", static_cast<unsigned long long>(high),
                  static_cast<unsigned long long>(low));
    return std::string(digits).append(entry_suffix);
}

// An entry is this header, the key and the payload. A new layout gets a new magic.
struct Header {
    char magic[8] = {'T', 'A', 'C', 'K', 'O', 'B', 'J', '1'};
    std::uint64_t key_size = 0;
    std::uint64_t payload_size = 0;
    std::array<std::uint64_t, 2> checksum{};  // of key and payload
};

std::array<std::uint64_t, 2> checksum(std::string_view key, std::string_view payload) {
    Hash hash;
    hash.add(key);
    hash.add(payload);
    return hash.halves();
}

std::int64_t size_limit() {
    constexpr std::int64_t default_megabytes = 512, most = std::int64_t{1} << 40;
    const char* text = std::getenv("TACK_CACHE_MAX_MB");
    if (!text || !*text) return default_megabytes << 20;
    char* end = nullptr;
    const long long megabytes = std::strtoll(text, &end, 10);
    if (*end || megabytes < 0) return default_megabytes << 20;
    return std::min<std::int64_t>(megabytes, most) << 20;
}

void make_folders(const std::string& path) {
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        mkdir(path.substr(0, end).c_str(), 0700);
        if (end == std::string::npos) return;
    }
}

// What lies in the folder is run as code: it must be this user's and no one else may write there.
bool trusted(int folder) {
    struct stat status;
    return fstat(folder, &status) == 0 && status.st_uid == geteuid() &&
           (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

Descriptor open_folder(const std::string& path) {
    Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder && !trusted(folder.get())) return Descriptor(-1);
    return folder;
}

std::optional<std::string> read_file(int folder, const std::string& name) {
    // Non-blocking, so that a FIFO of that name is a miss rather than a wait.
    const Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    constexpr off_t largest = off_t{1} << 28;
    if (status.st_size > largest) return {};
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t count = read(file.get(), bytes.data() + done, bytes.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return {};
        done += static_cast<std::size_t>(count);
    }
    // The time of the last use decides what the size limit removes.
    futimens(file.get(), nullptr);
    return bytes;
}

// A write beyond RLIMIT_FSIZE raises SIGXFSZ, which kills by default. Held back here and taken
// from the queue, it is a failed write like that on a full disk.
class HoldFileSizeSignal {
public:
    HoldFileSizeSignal() {
        sigemptyset(&signal_);
        sigaddset(&signal_, SIGXFSZ);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGXFSZ);
        pthread_sigmask(SIG_BLOCK, &signal_, &before_);
    }
    HoldFileSizeSignal(const HoldFileSizeSignal&) = delete;
    HoldFileSizeSignal& operator=(const HoldFileSizeSignal&) = delete;
    ~HoldFileSizeSignal() {
        constexpr timespec at_once{};
        if (!was_pending_) sigtimedwait(&signal_, nullptr, &at_once);
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

private:
    sigset_t signal_, before_;
    bool was_pending_;
};

bool write_all(int file, std::string_view bytes) {
    const HoldFileSizeSignal hold;
    while (!bytes.empty()) {
        const ssize_t count = write(file, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
}

struct File {
    std::string name;
    std::int64_t bytes;
    timespec used;
    bool temporary;
};

std::vector<File> list_files(int folder) {
    std::vector<File> files;
    const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* stream = copy < 0 ? nullptr : fdopendir(copy);
    if (!stream) {
        if (copy >= 0) close(copy);
        return files;
    }
    while (const dirent* item = readdir(stream)) {
        const std::string_view name = item->d_name;
        const bool temporary = name.starts_with(temporary_prefix);
        struct stat status;
        if ((!temporary && !name.ends_with(entry_suffix)) ||
            fstatat(folder, item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(status.st_mode))
            continue;
        files.push_back({std::string(name), status.st_size, status.st_mtim, temporary});
    }
    closedir(stream);
    return files;
}

std::int64_t total_bytes(const std::vector<File>& files) {
    std::int64_t total = 0;
    for (const File& file : files) total += file.bytes;
    return total;
}

// Removes what was used longest ago until nine tenths of the limit are left, and returns the bytes
// in use. Files that a killed process left half-written age like entries.
std::int64_t trim(int folder, std::int64_t limit) {
    std::vector<File> files = list_files(folder);
    std::int64_t total = total_bytes(files);
    if (total <= limit) return total;
    std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
        return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
    });
    for (const File& file : files) {
        if (total <= limit / 10 * 9) break;
        if (unlinkat(folder, file.name.c_str(), 0) == 0) total -= file.bytes;
    }
    return total;
}

// Listing the folder costs a microsecond an entry: it is done where the limit may be near, and
// every so often since other processes write too.
void keep_within_limit(int folder, const std::string& path, std::int64_t limit,
                       std::int64_t added) {
    constexpr int stores_between_listings = 64;
    static std::mutex mutex;
    static std::string last_path;
    static std::int64_t last_limit = -1, in_use = 0;
    static int stores = 0;
    const std::lock_guard lock(mutex);
    in_use += added;
    if (path == last_path && limit == last_limit && in_use <= limit &&
        ++stores < stores_between_listings)
        return;
    in_use = trim(folder, limit);
    stores = 0;
    last_path = path;
    last_limit = limit;
}

}  // namespace

std::string cache_directory() {
    const auto variable = [](const char* name) {
        const char* text = std::getenv(name);
        return std::string(text ? text : "");
    };
    if (std::string own = variable("TACK_CACHE_DIR"); !own.empty()) return own;
    // A relative XDG_CACHE_HOME is to be ignored, as its specification says.
    if (std::string xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/')) return xdg + "/tack";
    if (std::string home = variable("HOME"); !home.empty()) return home + "/.cache/tack";
    return {};
}

CacheUsage cache_usage() {
    CacheUsage usage;
    usage.limit = size_limit();
    const Descriptor folder = open_folder(cache_directory());
    if (!folder) return usage;
    const std::vector<File> files = list_files(folder.get());
    usage.bytes = total_bytes(files);
    usage.entries =
        std::count_if(files.begin(), files.end(), [](const File& file) { return !file.temporary; });
    return usage;
}

std::int64_t clear_cache() {
    const std::string path = cache_directory();
    const Descriptor folder = open_folder(path);
    if (!folder) return 0;
    std::int64_t removed = 0;
    for (const File& file : list_files(folder.get())) {
        if (unlinkat(folder.get(), file.name.c_str(), 0) == 0) {
            removed += !file.temporary;
        } else if (errno != ENOENT) {
            throw Error(ErrorKind::runtime, "clear_cache: " + path + "/" + file.name +
                                                " cannot be removed (" + std::strerror(errno) +
                                                "). Check the permissions of the folder.");
        }
    }
    return removed;
}

namespace kernel::cache {

std::optional<std::string> load(std::string_view key) {
    const std::string path = cache_directory();
    if (path.empty()) return {};
    const Descriptor folder = open_folder(path);
    if (!folder) return {};
    std::optional<std::string> bytes = read_file(folder.get(), entry_name(key));
    Header header;
    const Header expected;
    if (!bytes || bytes->size() < sizeof header) return {};
    std::memcpy(&header, bytes->data(), sizeof header);
    const std::string_view rest = std::string_view(*bytes).substr(sizeof header);
    if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0 ||
        header.key_size != key.size() || !rest.starts_with(key) ||
        header.payload_size != rest.size() - key.size() ||
        header.checksum != checksum(key, rest.substr(key.size())))
        return {};
    bytes->erase(0, sizeof header + key.size());
    return bytes;
}

void store(std::string_view key, std::string_view payload) {
    const std::string path = cache_directory();
    const std::int64_t limit = size_limit();
    Header header;
    const auto size = static_cast<std::int64_t>(sizeof header + key.size() + payload.size());
    if (path.empty() || size > limit) return;
    make_folders(path);
    const Descriptor folder = open_folder(path);
    if (!folder) return;

    header.key_size = key.size();
    header.payload_size = payload.size();
    header.checksum = checksum(key, payload);
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.append(key).append(payload);

    // Readers see a whole entry or none: it gets its name only when it is complete.
    std::string temporary = path + "/" + std::string(temporary_prefix) + "XXXXXX";
    const Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));
    if (!file) return;
    if (write_all(file.get(), bytes) &&
        renameat(AT_FDCWD, temporary.c_str(), folder.get(), entry_name(key).c_str()) == 0)
        keep_within_limit(folder.get(), path, limit, size);
    else
        unlink(temporary.c_str());
}

}  // namespace kernel::cache
}  // namespace tack
