#include "backend/cpu/object_loader.hpp"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/cpu/vector_math.hpp"
#include "tack/error.hpp"

namespace tack::cpu {
namespace {

[[noreturn]] void fail(const std::string& what) {
    throw Error(ErrorKind::runtime, "load_object: " + what);
}
[[noreturn]] void damaged(const std::string& what) {
    fail("the compiled object is damaged: " + what + ". Clear the cache and compile again.");
}

// Views of the object's bytes, each checked against its end. Nothing in it need be aligned.
class Bytes {
public:
    explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

    std::string_view range(std::uint64_t offset, std::uint64_t size, const char* what) const {
        if (offset > bytes_.size() || size > bytes_.size() - offset)
            damaged(std::string(what) + " at offset " + std::to_string(offset) + " of " +
                    std::to_string(size) + " bytes ends beyond the " +
                    std::to_string(bytes_.size()) + " there are");
        return bytes_.substr(offset, size);
    }
    template <class T>
    T read(std::uint64_t offset, const char* what) const {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        std::memcpy(&value, range(offset, sizeof(T), what).data(), sizeof(T));
        return value;
    }
    template <class T>
    std::vector<T> read_table(std::uint64_t offset, std::uint64_t size, const char* what) const {
        const std::string_view bytes = range(offset, size, what);
        if (size % sizeof(T) != 0) damaged(std::string(what) + " has a partial entry");
        std::vector<T> table(size / sizeof(T));
        if (size != 0) std::memcpy(table.data(), bytes.data(), size);
        return table;
    }

private:
    std::string_view bytes_;
};

std::string text_at(std::string_view table, std::uint64_t offset) {
    const std::size_t end = offset < table.size() ? table.find('\0', offset) : table.npos;
    if (end == table.npos) damaged("a name runs out of its string table");
    return std::string(table.substr(offset, end - offset));
}

// The parts of the mapping, each on pages of its own.
enum Region : std::size_t { code, constants, variables, region_count };
constexpr std::array<int, region_count> protection = {PROT_READ | PROT_EXEC, PROT_READ,
                                                      PROT_READ | PROT_WRITE};
// Offsets between any two places must fit the 32 bits that the small code model gives them; and
// a damaged size must not ask for all memory.
constexpr std::uint64_t largest_image = std::uint64_t{1} << 28;

class Mapping {
public:
    explicit Mapping(std::size_t size) : size_(size) {
        void* start =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED)
            fail("no memory for " + std::to_string(size) + " bytes of code (" +
                 std::strerror(errno) + ")");
        start_ = static_cast<char*>(start);
    }
    Mapping(Mapping&& other) noexcept
        : start_(std::exchange(other.start_, nullptr)), size_(other.size_) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping() {
        if (start_) munmap(start_, size_);
    }
    char* start() const noexcept { return start_; }

private:
    char* start_;
    std::size_t size_;
};

struct LoadedObject final : Module {
    LoadedObject(Mapping mapping_, std::vector<std::pair<std::string, void*>> functions_)
        : mapping(std::move(mapping_)), functions(std::move(functions_)) {}

    void* symbol(const char* name) const override {
        for (const auto& [known, address] : functions)
            if (known == name) return address;
        throw Error(ErrorKind::runtime,
                    std::string("symbol: the compiled code has no function '") + name + "'");
    }

    const Mapping mapping;
    const std::vector<std::pair<std::string, void*>> functions;
};

void* external_address(const std::string& name) {
    const auto symbols = external_symbols();
    const auto found = std::lower_bound(symbols.begin(), symbols.end(), name,
                                        [](const auto& a, const auto& b) { return a.name < b; });
    if (found != symbols.end() && found->name == name) return found->address;
    void* const function = math_symbol(name);
    if (!function)
        fail("compiled code refers to '" + name +
             "', which is not among the functions that it may call");
    return function;
}

// One load of one object, from its tables to protected memory.
class Loader {
public:
    explicit Loader(std::string_view object) : bytes_(object) {
        read_tables();
        place_sections();
    }

    detail::Ref<Module> load() {
        Mapping mapping(image_size_);
        start_ = mapping.start();
        copy_sections();
        write_slots();
        relocate();
        for (std::size_t region = 0; region < region_count; ++region) {
            char* const first = start_ + region_start_[region];
            const std::size_t size = region_start_[region + 1] - region_start_[region];
            if (size != 0 && mprotect(first, size, protection[region]) != 0)
                fail(std::string("compiled code cannot be made executable (") +
                     std::strerror(errno) + "). A security policy of the system may forbid it.");
        }
        return detail::make_ref<LoadedObject>(std::move(mapping), functions());
    }

private:
    static constexpr std::uint64_t unplaced = ~std::uint64_t{0};
    static constexpr std::uint32_t no_slot = ~std::uint32_t{0};
    static constexpr std::size_t address_size = 8;
    // jmp *slot(%rip), padded
    static constexpr std::array<unsigned char, 8> stub = {0xff, 0x25, 0, 0, 0, 0, 0xcc, 0xcc};
    static constexpr std::size_t stub_operand = 2, stub_operand_end = 6;

    bool is_loaded(std::size_t section) const { return place_[section] != unplaced; }

    void read_tables() {
        const auto header = bytes_.read<Elf64_Ehdr>(0, "the header");
        if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
            header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
            header.e_type != ET_REL || header.e_machine != EM_X86_64 ||
            header.e_shentsize != sizeof(Elf64_Shdr))
            damaged("it is not a relocatable ELF object for x86-64");
        sections_ = bytes_.read_table<Elf64_Shdr>(
            header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr),
            "the section table");
        for (const Elf64_Shdr& section : sections_) {
            if (section.sh_type != SHT_SYMTAB) continue;
            if (!symbols_.empty()) damaged("it has two symbol tables");
            if (section.sh_entsize != sizeof(Elf64_Sym)) damaged("its symbols have another size");
            symbols_ = bytes_.read_table<Elf64_Sym>(section.sh_offset, section.sh_size,
                                                    "the symbol table");
            if (section.sh_link >= sections_.size()) damaged("its symbols have no names");
            const Elf64_Shdr& names = sections_[section.sh_link];
            names_ = bytes_.range(names.sh_offset, names.sh_size, "the string table");
        }
        slot_of_symbol_.assign(symbols_.size(), no_slot);
        for (const Elf64_Shdr& section : sections_) {
            if (section.sh_type == SHT_REL) damaged("it has relocations without addends");
            if (section.sh_type != SHT_RELA) continue;
            if (section.sh_info >= sections_.size()) damaged("relocations for no section");
            if (!(sections_[section.sh_info].sh_flags & SHF_ALLOC)) continue;
            for (const auto& relocation : bytes_.read_table<Elf64_Rela>(
                     section.sh_offset, section.sh_size, "a relocation table"))
                relocations_.emplace_back(section.sh_info, relocation);
        }
        for (const auto& [section, relocation] : relocations_) give_slot(relocation);
    }

    // A slot holds a symbol's address: the global offset table, which calls of far functions and
    // GCC's and Clang's -fPIC loads go through.
    void give_slot(const Elf64_Rela& relocation) {
        const std::uint64_t symbol = ELF64_R_SYM(relocation.r_info);
        if (symbol >= symbols_.size()) damaged("a relocation by an unknown symbol");
        const auto type = ELF64_R_TYPE(relocation.r_info);
        const bool by_slot = type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX ||
                             type == R_X86_64_REX_GOTPCRELX;
        const bool external = symbols_[symbol].st_shndx == SHN_UNDEF && type != R_X86_64_NONE;
        if ((by_slot || external) && slot_of_symbol_[symbol] == no_slot) {
            slot_of_symbol_[symbol] = static_cast<std::uint32_t>(slots_.size());
            slots_.push_back(static_cast<std::uint32_t>(symbol));
        }
    }

    void place_sections() {
        place_.assign(sections_.size(), unplaced);
        const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        std::uint64_t end = 0;
        const auto take = [&](std::uint64_t size, std::uint64_t alignment) {
            const std::uint64_t start = (end + alignment - 1) & ~(alignment - 1);
            if (size > largest_image || start + size > largest_image)
                fail("the object's sections are larger than " + std::to_string(largest_image) +
                     " bytes");
            end = start + size;
            return start;
        };
        for (std::size_t region = 0; region < region_count; ++region) {
            region_start_[region] = take(0, page);
            if (region == code) stubs_ = take(slots_.size() * stub.size(), stub.size());
            if (region == constants) table_ = take(slots_.size() * address_size, address_size);
            for (std::size_t i = 0; i < sections_.size(); ++i) {
                const Elf64_Shdr& section = sections_[i];
                if (!(section.sh_flags & SHF_ALLOC) || region_of(section) != region) continue;
                const std::uint64_t alignment = std::max<std::uint64_t>(section.sh_addralign, 1);
                if ((alignment & (alignment - 1)) != 0 || alignment > page)
                    damaged("a section's alignment is " + std::to_string(alignment));
                place_[i] = take(section.sh_size, alignment);
            }
        }
        region_start_[region_count] = take(0, page);
        image_size_ = std::max(end, page);
    }

    static Region region_of(const Elf64_Shdr& section) {
        const bool known_type = section.sh_type == SHT_PROGBITS || section.sh_type == SHT_NOBITS ||
                                section.sh_type == SHT_NOTE || section.sh_type == SHT_X86_64_UNWIND;
        const bool executable = section.sh_flags & SHF_EXECINSTR;
        const bool writable = section.sh_flags & SHF_WRITE;
        if (!known_type || (section.sh_flags & (SHF_TLS | SHF_COMPRESSED)) ||
            (executable && writable))
            fail("compiled code has a section of type " + std::to_string(section.sh_type) +
                 " with flags " + std::to_string(section.sh_flags) +
                 ": thread-local variables, constructors and writable code are not supported");
        return executable ? code : writable ? variables : constants;
    }

    void copy_sections() const {
        for (std::size_t i = 0; i < sections_.size(); ++i) {
            const Elf64_Shdr& section = sections_[i];
            if (!is_loaded(i) || section.sh_type == SHT_NOBITS || section.sh_size == 0) continue;
            const auto content = bytes_.range(section.sh_offset, section.sh_size, "a section");
            std::memcpy(start_ + place_[i], content.data(), content.size());
        }
    }

    std::uint64_t address_of(std::uint64_t symbol_index) const {
        const Elf64_Sym& symbol = symbols_[symbol_index];
        const auto type = ELF64_ST_TYPE(symbol.st_info);
        if (symbol.st_shndx == SHN_UNDEF)
            return reinterpret_cast<std::uintptr_t>(
                external_address(text_at(names_, symbol.st_name)));
        if (symbol.st_shndx >= sections_.size() || !is_loaded(symbol.st_shndx) || type == STT_TLS ||
            type == STT_GNU_IFUNC)
            fail("compiled code refers to '" + text_at(names_, symbol.st_name) +
                 "', a symbol of a kind that is not supported (type " + std::to_string(type) +
                 ", section " + std::to_string(symbol.st_shndx) + ")");
        if (symbol.st_value > sections_[symbol.st_shndx].sh_size)
            damaged("a symbol lies outside its section");
        return reinterpret_cast<std::uintptr_t>(start_ + place_[symbol.st_shndx] + symbol.st_value);
    }

    char* slot_address(std::uint32_t slot) const { return start_ + table_ + slot * address_size; }
    char* stub_address(std::uint32_t slot) const { return start_ + stubs_ + slot * stub.size(); }

    void write_slots() const {
        for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
            const std::uint64_t address = address_of(slots_[slot]);
            std::memcpy(slot_address(slot), &address, sizeof address);
            char* const jump = stub_address(slot);
            std::memcpy(jump, stub.data(), stub.size());
            const auto distance =
                static_cast<std::int32_t>(slot_address(slot) - (jump + stub_operand_end));
            std::memcpy(jump + stub_operand, &distance, sizeof distance);
        }
    }

    void relocate() const {
        for (const auto& [section, relocation] : relocations_) apply(section, relocation);
    }

    void apply(std::size_t section, const Elf64_Rela& relocation) const {
        const std::uint64_t symbol = ELF64_R_SYM(relocation.r_info);
        const auto type = ELF64_R_TYPE(relocation.r_info);
        const std::uint64_t offset = relocation.r_offset, size = sections_[section].sh_size;
        char* const where = start_ + place_[section] + (offset < size ? offset : 0);
        const auto write = [&](auto value) {
            if (sizeof value > size || offset > size - sizeof value)
                damaged("a relocation lies outside its section");
            std::memcpy(where, &value, sizeof value);
        };
        // Unsigned, since a damaged addend may overflow.
        const auto place = reinterpret_cast<std::uintptr_t>(where);
        const auto addend = static_cast<std::uint64_t>(relocation.r_addend);
        const auto write_distance = [&](std::uint64_t target) {
            const auto distance = static_cast<std::int64_t>(target + addend - place);
            if (distance != static_cast<std::int32_t>(distance))
                damaged("a relocation is out of reach");
            write(static_cast<std::int32_t>(distance));
        };
        const auto in_object = [&](const char* address) {
            return reinterpret_cast<std::uintptr_t>(address);
        };
        switch (type) {
            case R_X86_64_NONE:
                return;
            case R_X86_64_64:
                return write(address_of(symbol) + addend);
            case R_X86_64_PC64:
                return write(address_of(symbol) + addend - place);
            case R_X86_64_PC32:
            case R_X86_64_PLT32:
                return write_distance(symbols_[symbol].st_shndx == SHN_UNDEF
                                          ? in_object(stub_address(slot_of_symbol_[symbol]))
                                          : address_of(symbol));
            case R_X86_64_GOTPCREL:
            case R_X86_64_GOTPCRELX:
            case R_X86_64_REX_GOTPCRELX:
                return write_distance(in_object(slot_address(slot_of_symbol_[symbol])));
            default:
                fail("compiled code has a relocation of type " + std::to_string(type) +
                     ", which position-independent code of the small model has not");
        }
    }

    std::vector<std::pair<std::string, void*>> functions() const {
        std::vector<std::pair<std::string, void*>> functions;
        for (std::size_t i = 0; i < symbols_.size(); ++i) {
            const Elf64_Sym& symbol = symbols_[i];
            if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
                ELF64_ST_BIND(symbol.st_info) != STB_LOCAL)
                functions.emplace_back(text_at(names_, symbol.st_name),
                                       reinterpret_cast<void*>(address_of(i)));
        }
        return functions;
    }

    const Bytes bytes_;
    std::vector<Elf64_Shdr> sections_;
    std::vector<Elf64_Sym> symbols_;
    std::string_view names_;
    std::vector<std::pair<std::size_t, Elf64_Rela>> relocations_;  // section, what to change in it
    std::vector<std::uint32_t> slot_of_symbol_;
    std::vector<std::uint32_t> slots_;  // the symbol of each
    std::vector<std::uint64_t> place_;  // of each section in the image
    std::array<std::uint64_t, region_count + 1> region_start_{};
    std::uint64_t stubs_ = 0, table_ = 0, image_size_ = 0;
    char* start_ = nullptr;
};

}  // namespace

detail::Ref<Module> load_object(std::string_view object) { return Loader(object).load(); }

}  // namespace tack::cpu
