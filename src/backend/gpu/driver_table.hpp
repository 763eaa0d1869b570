/// A driver's functions, each looked up at run time and on its own.
#pragma once

#include <string>
#include <vector>

#include "backend/gpu/library.hpp"

namespace tack::gpu {

/// What a driver's function returned, and which function that was.
struct Status {
    int code;
    const char* symbol;

    explicit operator bool() const noexcept { return code != 0; }
};

class EntryBase;

/// Base of a driver: its members are Entry rows.
class DriverTable {
public:
    DriverTable() = default;
    DriverTable(const DriverTable&) = delete;
    DriverTable& operator=(const DriverTable&) = delete;

    const std::string& library_path() const noexcept { return library_.path; }

protected:
    ~DriverTable() = default;

    /// Looks every row up through `find`, or without one as the library's symbol.
    /// Throws runtime for a row that the backend cannot run without, naming it and the library.
    /// release: the driver's version, for that sentence.
    using Find = void* (*)(const Library& library, const char* symbol, int version);
    void load(Library library, Find find, const std::string& release);

    Library library_;

private:
    friend class EntryBase;
    std::vector<EntryBase*> rows_;
    std::string release_;
};

class EntryBase {
public:
    explicit operator bool() const noexcept { return function_ != nullptr; }
    const char* symbol() const noexcept { return symbol_; }

protected:
    EntryBase(DriverTable& table, const char* symbol, int version, const char* without);

    /// Throws runtime: the function is not there, and what goes without it.
    [[noreturn]] void fail_missing() const;

    void* function_ = nullptr;

private:
    friend class DriverTable;
    const DriverTable& table_;
    const char* const symbol_;
    const int version_;
    const char* const without_;
};

/// One row: the symbol by its full name, the version of the interface in which it has this
/// signature (0 where the driver has no versions), and what does not work without it. No such
/// words: the backend cannot run without it.
template <class Signature>
class Entry;
template <class... Args>
class Entry<int(Args...)> : public EntryBase {
public:
    Entry(DriverTable& table, const char* symbol, int version = 0, const char* without = nullptr)
        : EntryBase(table, symbol, version, without) {}

    Status operator()(Args... args) const {
        if (!function_) fail_missing();
        return {reinterpret_cast<int (*)(Args...)>(function_)(args...), symbol()};
    }
};

}  // namespace tack::gpu
