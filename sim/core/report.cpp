#include "core/report.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "core/calls.hpp"

namespace tack_sim {
namespace {

struct Report {
    std::mutex mutex;
    std::string violations;
    std::atomic<std::string (*)()> lister = nullptr;
    std::atomic<bool> silent = false;
};

// Never destroyed: other threads may still call while the process exits.
Report& report() {
    static Report* instance = new Report;
    return *instance;
}

std::string prefixed(const std::string& lines, const char* prefix) {
    std::string out;
    for (size_t begin = 0; begin < lines.size();) {
        size_t end = lines.find('\n', begin);
        out += prefix + lines.substr(begin, end - begin) + '\n';
        begin = end + 1;
    }
    return out;
}

void append(const char* path, const std::string& text) {
    if (FILE* file = std::fopen(path, "a")) {
        std::fwrite(text.data(), 1, text.size(), file);
        std::fclose(file);
    }
}

// Runs after the client's own exit handlers and destructors, as it is loaded before them or is not
// needed by them.
__attribute__((destructor)) void report_at_exit() {
    Report& r = report();
    if (r.silent) return;
    std::string (*lister)() = r.lister;
    std::string text = prefixed(violations(), "tack-sim: violation: ");
    if (lister) text += prefixed(lister(), "tack-sim: leak: ");
    if (const char* path = std::getenv("TACK_SIM_CALLS"))
        append(path, all_calls() + "failed " + std::to_string(failed_count()) + '\n');
    if (const char* path = std::getenv("TACK_SIM_REPORT")) {
        append(path, text);
        return;
    }
    if (text.empty()) return;
    std::fflush(nullptr);
    for (size_t written = 0; written < text.size();) {
        ssize_t n = write(STDERR_FILENO, text.data() + written, text.size() - written);
        if (n <= 0) break;
        written += static_cast<size_t>(n);
    }
    _exit(97);
}

}  // namespace

void violation(const std::string& text) {
    std::lock_guard lock(report().mutex);
    report().violations += text + '\n';
}

std::string violations() {
    std::lock_guard lock(report().mutex);
    return report().violations;
}

void forget_violations() {
    std::lock_guard lock(report().mutex);
    report().violations.clear();
}

void set_leak_lister(std::string (*lister)()) { report().lister = lister; }

bool is_kept(const char* kind) { return environment_lists("TACK_SIM_KEEP", kind); }

void silence_report() { report().silent = true; }

bool host_can_read(const void* address) {
    char byte;
    iovec local{&byte, 1};
    iovec remote{const_cast<void*>(address), 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

}  // namespace tack_sim
