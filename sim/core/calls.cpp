#include "core/calls.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <vector>

namespace tack_sim {
namespace {

constinit Entry* entries = nullptr;

struct Failure {
    std::string name;
    uint64_t call;
    int error;
};

struct Failures {
    std::mutex mutex;
    std::vector<Failure> list;
    std::atomic<bool> any = false;
    std::atomic<uint64_t> made = 0;
};

Failures& failures() {
    static Failures* instance = new Failures;
    return *instance;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (size_t begin = 0; begin <= text.size();) {
        size_t end = std::min(text.find(separator, begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

template <typename Number>
bool parse(std::string_view text, Number& out) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Entry::Entry(const char* name_, const char* base_, int version_, void* address_)
    : name(name_), base(base_), version(version_), address(address_), next(entries) {
    entries = this;
}

int Entry::count() {
    uint64_t call = ++calls;
    Failures& f = failures();
    if (!f.any) return 0;
    std::lock_guard lock(f.mutex);
    for (const Failure& failure : f.list) {
        if (failure.call == call && (failure.name == name || failure.name == base)) {
            ++f.made;
            return failure.error;
        }
    }
    return 0;
}

Entry* first_entry() { return entries; }

bool set_failures(const char* spec, int otherwise) {
    std::vector<Failure> list;
    for (std::string_view item : split(spec ? spec : "", ',')) {
        if (item.empty()) continue;
        std::vector<std::string_view> parts = split(item, ':');
        Failure failure{std::string(parts[0]), 0, otherwise};
        if (parts.size() < 2 || parts.size() > 3 || !parse(parts[1], failure.call)) return false;
        if (parts.size() == 3 && !parse(parts[2], failure.error)) return false;
        list.push_back(std::move(failure));
    }
    Failures& f = failures();
    std::lock_guard lock(f.mutex);
    f.list = std::move(list);
    f.any = !f.list.empty();
    return true;
}

uint64_t call_count(const char* name) {
    uint64_t total = 0;
    for (Entry* entry = entries; entry; entry = entry->next) {
        if (!std::strcmp(entry->name, name)) return entry->calls;
        if (!std::strcmp(entry->base, name)) total += entry->calls;
    }
    return total;
}

uint64_t failed_count() { return failures().made; }

void reset_counts() {
    failures().made = 0;
    for (Entry* entry = entries; entry; entry = entry->next) entry->calls = 0;
}

std::string all_calls() {
    std::string text;
    for (Entry* entry = entries; entry; entry = entry->next) {
        uint64_t calls = entry->calls;
        if (calls) text += std::string(entry->name) + ' ' + std::to_string(calls) + '\n';
    }
    return text;
}

void hide_entries(bool (*absent)(const Entry&)) {
    Dl_info info;
    link_map* map = nullptr;
    if (!dladdr1(reinterpret_cast<void*>(&hide_entries), &info, reinterpret_cast<void**>(&map),
                 RTLD_DL_LINKMAP)) {
        return;
    }
    auto* symbols = static_cast<ElfW(Sym)*>(nullptr);
    const char* strings = nullptr;
    const uint32_t* hash = nullptr;
    for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<ElfW(Sym)*>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<char*>(entry->d_un.d_ptr);
        if (entry->d_tag == DT_HASH) hash = reinterpret_cast<uint32_t*>(entry->d_un.d_ptr);
    }
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    for (Entry* entry = entries; entry; entry = entry->next) {
        if (!absent(*entry)) continue;
        // The second word of a System V hash table is the number of symbols.
        for (uint32_t i = 0; hash && i < hash[1]; ++i) {
            if (std::strcmp(strings + symbols[i].st_name, entry->name)) continue;
            auto begin = reinterpret_cast<uintptr_t>(&symbols[i]) / page * page;
            size_t size = reinterpret_cast<uintptr_t>(&symbols[i] + 1) - begin;
            mprotect(reinterpret_cast<void*>(begin), size, PROT_READ | PROT_WRITE);
            symbols[i].st_value = 0;
            symbols[i].st_shndx = SHN_UNDEF;
            mprotect(reinterpret_cast<void*>(begin), size, PROT_READ);
        }
    }
}

bool environment_lists(const char* variable, const char* name) {
    const char* text = std::getenv(variable);
    if (!text) return false;
    for (std::string_view item : split(text, ',')) {
        if (item == name) return true;
    }
    return false;
}

uint64_t environment_number(const char* variable, uint64_t otherwise) {
    const char* text = std::getenv(variable);
    uint64_t number;
    return text && parse(std::string_view(text), number) ? number : otherwise;
}

}  // namespace tack_sim
