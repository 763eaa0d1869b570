// Entry points: their names and versions, how often each was called, and which call is to fail.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace tack_sim {

// One exported function. Objects of it are static and register themselves.
class Entry {
public:
    // name: as exported. base: as asked for by a lookup by name and version.
    Entry(const char* name, const char* base, int version, void* address);

    // Counts a call. The error that this call must fail with, 0 if it is to work.
    int count();

    const char* name;
    const char* base;
    int version;
    void* address;
    Entry* next;
    std::atomic<uint64_t> calls = 0;
};

Entry* first_entry();

// Calls that are to fail: "<name>:<nth call>[:<error>]", comma separated, counted from 1 and from
// the last reset_counts(); null or empty for none. `otherwise` is the error where none is named.
// False when the text is malformed.
bool set_failures(const char* spec, int otherwise);

uint64_t call_count(const char* name);
uint64_t failed_count();  // calls that were made to fail since the last reset
void reset_counts();

// "name count" of each entry point called since the last reset, a line each.
std::string all_calls();

// Takes the entry points for which `absent` is true out of this library's dynamic symbols, so that
// dlsym does not find them.
void hide_entries(bool (*absent)(const Entry&));

// The list held by an environment variable, comma separated, contains `name`.
bool environment_lists(const char* variable, const char* name);

// The number in an environment variable, or `otherwise`.
uint64_t environment_number(const char* variable, uint64_t otherwise);

}  // namespace tack_sim
