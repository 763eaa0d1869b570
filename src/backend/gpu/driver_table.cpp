#include "backend/gpu/driver_table.hpp"

#include "tack/error.hpp"

namespace tack::gpu {

EntryBase::EntryBase(DriverTable& table, const char* symbol, int version, const char* without)
    : table_(table), symbol_(symbol), version_(version), without_(without) {
    table.rows_.push_back(this);
}

void EntryBase::fail_missing() const {
    throw Error(ErrorKind::runtime, std::string(symbol_) + " is not in " + table_.library_path() +
                                        " (" + table_.release_ + "); without it there is no " +
                                        (without_ ? without_ : "device of this driver") +
                                        ". A newer driver has it");
}

void DriverTable::load(Library library, Find find, const std::string& release) {
    library_ = std::move(library);
    release_ = release;
    for (EntryBase* const row : rows_) {
        row->function_ =
            find ? find(library_, row->symbol_, row->version_) : library_.symbol(row->symbol_);
        if (!row->function_ && !row->without_) row->fail_missing();
    }
}

}  // namespace tack::gpu
