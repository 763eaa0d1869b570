/// Puts a relocatable x86-64 ELF object into memory and makes it callable.
#pragma once

#include <span>
#include <string_view>

#include "backend/cpu/compiler.hpp"

namespace tack::cpu {

/// A function outside the object that compiled code may call.
struct ExternalSymbol {
    std::string_view name;
    void* address;
};
/// All of them, sorted by name: libm's functions and what compilers call of their own accord.
/// Nothing else of the process can be reached.
std::span<const ExternalSymbol> external_symbols();

/// Loads position-independent code of the small code model, as Clang and GCC emit it with -fPIC.
/// object: the bytes, at any alignment; not needed once this returns. Every offset in it is
/// checked, so that a damaged one is an error here; what its instructions do is not checked.
/// The module's functions may call external symbols at any distance. No page of it is writable
/// and executable at once.
/// Throws runtime: not such an object; a symbol that is neither in external_symbols() nor one of
/// vector_math.hpp's; a kind of
/// section or relocation that does not occur in such code; no memory.
/// Source: System V ABI, AMD64 supplement, "Relocation".
detail::Ref<Module> load_object(std::string_view object);

}  // namespace tack::cpu
