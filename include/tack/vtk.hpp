/// Exchange of data arrays with VTK (9.1 and newer), without a copy. Header-only, for programs that
/// have VTK: libtack does not. Link VTK::CommonCore.
#pragma once

#include <vtkAOSDataArrayTemplate.h>
#include <vtkDataArray.h>
#include <vtkSmartPointer.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tack/array.hpp"
#include "tack/dlpack.hpp"
#include "tack/error.hpp"

namespace tack::vtk {

namespace detail {

/// What keeps memory alive that VTK frees through release(): a Tack array, or a VTK array that
/// holds the buffer an imported array had.
using Owner = std::shared_ptr<const void>;

/// Owners by address, one for each VTK buffer over it. VTK's free functions get an address only.
struct Owners {
    std::mutex mutex;
    std::unordered_multimap<void*, Owner> table;

    /// Never destroyed: VTK arrays in static variables outlive any order of destruction.
    static Owners& instance() {
        static auto* owners = new Owners;
        return *owners;
    }
    void add(void* address, Owner owner) {
        const std::lock_guard lock(mutex);
        table.emplace(address, std::move(owner));
    }
    Owner find(void* address) {
        const std::lock_guard lock(mutex);
        const auto found = table.find(address);
        return found == table.end() ? Owner() : found->second;
    }
};

/// VTK's free function of the buffers made here. After such a buffer has been resized VTK calls it
/// on memory of its own, from malloc, or on null.
inline void release(void* address) {
    Owner last;  // dropped outside the lock: it may run anyone's deleter
    Owners& owners = Owners::instance();
    {
        const std::lock_guard lock(owners.mutex);
        const auto found = owners.table.find(address);
        if (found != owners.table.end()) {
            last = std::move(found->second);
            owners.table.erase(found);
            return;
        }
    }
    std::free(address);
}

/// Calls `body` with a null pointer of the VTK type's C++ type. Throws type for the others.
template <class Body>
void visit(int vtk_type, const char* operation, Body&& body) {
    switch (vtk_type) {
        case VTK_CHAR:
            return body(static_cast<char*>(nullptr));
        case VTK_SIGNED_CHAR:
            return body(static_cast<signed char*>(nullptr));
        case VTK_UNSIGNED_CHAR:
            return body(static_cast<unsigned char*>(nullptr));
        case VTK_SHORT:
            return body(static_cast<short*>(nullptr));
        case VTK_UNSIGNED_SHORT:
            return body(static_cast<unsigned short*>(nullptr));
        case VTK_INT:
            return body(static_cast<int*>(nullptr));
        case VTK_UNSIGNED_INT:
            return body(static_cast<unsigned int*>(nullptr));
        case VTK_LONG:
            return body(static_cast<long*>(nullptr));
        case VTK_UNSIGNED_LONG:
            return body(static_cast<unsigned long*>(nullptr));
        case VTK_LONG_LONG:
            return body(static_cast<long long*>(nullptr));
        case VTK_UNSIGNED_LONG_LONG:
            return body(static_cast<unsigned long long*>(nullptr));
        case VTK_ID_TYPE:
            return body(static_cast<vtkIdType*>(nullptr));
        case VTK_FLOAT:
            return body(static_cast<float*>(nullptr));
        case VTK_DOUBLE:
            return body(static_cast<double*>(nullptr));
        default:
            throw Error(ErrorKind::type, std::string(operation) + ": VTK's type number " +
                                             std::to_string(vtk_type) +
                                             " is no integer of 8 to 64 bits, float or double");
    }
}

inline int vtk_type(DType dtype) {
    switch (dtype) {
        case DType::int8:
            return VTK_SIGNED_CHAR;
        case DType::int16:
            return VTK_SHORT;
        case DType::int32:
            return VTK_INT;
        case DType::int64:
            return VTK_LONG_LONG;
        case DType::uint8:
            return VTK_UNSIGNED_CHAR;
        case DType::uint16:
            return VTK_UNSIGNED_SHORT;
        case DType::uint32:
            return VTK_UNSIGNED_INT;
        case DType::uint64:
            return VTK_UNSIGNED_LONG_LONG;
        case DType::float32:
            return VTK_FLOAT;
        case DType::float64:
            return VTK_DOUBLE;
        default:
            throw Error(ErrorKind::type, "from_array: VTK has no arrays of " +
                                             std::string(name(dtype)) +
                                             "; it takes integers, float32 and float64");
    }
}

/// Puts a VTK array over memory that release() gives back to `owner`.
template <class T>
void set_memory(vtkAOSDataArrayTemplate<T>& array, void* memory, vtkIdType values, Owner owner) {
    Owners::instance().add(memory, std::move(owner));
    // In this order: SetArray() forgets a free function that was set before.
    array.SetArray(static_cast<T*>(memory), values, 0,
                   vtkAbstractArray::VTK_DATA_ARRAY_USER_DEFINED);
    array.SetArrayFreeFunction(release);
}

/// Gives the array a buffer over its own memory that can be left behind when VTK moves the array;
/// what had the memory until now is the owner.
template <class T>
Owner detach(vtkDataArray& array, vtkAOSDataArrayTemplate<T>& typed) {
    auto before = vtkSmartPointer<vtkDataArray>::Take(array.NewInstance());
    before->ShallowCopy(&array);
    auto after = vtkSmartPointer<vtkDataArray>::Take(array.NewInstance());
    after->SetName(array.GetName());
    after->SetNumberOfComponents(array.GetNumberOfComponents());
    after->CopyComponentNames(&array);
    const Owner owner = std::make_shared<const vtkSmartPointer<vtkDataArray>>(before);
    set_memory(*vtkAOSDataArrayTemplate<T>::FastDownCast(after.GetPointer()), typed.GetPointer(0),
               array.GetNumberOfValues(), owner);
    array.ShallowCopy(after);
    return owner;
}

/// Found once; like the owners never destroyed.
inline const Device& host() {
    static const auto* device = new Device(tack::device("cpu"));
    return *device;
}

struct Tensor {
    dlpack::ManagedTensor managed{};
    std::int64_t shape[2];
    Owner owner;
};

}  // namespace detail

/// A Tack array over a VTK array's memory: shape (tuples,) for one component, else (tuples,
/// components). The memory stays while the Tack array or a reshape of it lives, also when VTK
/// moves or drops the array; what VTK moves is from then on no longer shared. Not to be called
/// while another thread uses the same VTK array.
/// Throws value: null, values that do not lie one after another (structure of arrays, implicit
/// arrays). type: bit, string and variant arrays.
inline Array to_array(vtkDataArray* array) {
    if (!array) throw Error(ErrorKind::value, "to_array: the VTK array is null");
    const std::int64_t tuples = array->GetNumberOfTuples();
    const std::int64_t components = array->GetNumberOfComponents();
    Array result;
    detail::visit(array->GetDataType(), "to_array", [&]<class T>(T*) {
        auto* typed = vtkAOSDataArrayTemplate<T>::FastDownCast(array);
        if (!typed || !array->HasStandardMemoryLayout())
            throw Error(ErrorKind::value,
                        std::string("to_array: ") + array->GetClassName() +
                            " does not keep its values one after another in memory; copy it into "
                            "an ordinary array with DeepCopy()");
        auto tensor = std::make_unique<detail::Tensor>();
        tensor->shape[0] = tuples;
        tensor->shape[1] = components;
        if (tuples > 0) {
            tensor->owner = detail::Owners::instance().find(typed->GetPointer(0));
            if (!tensor->owner) tensor->owner = detail::detach(*array, *typed);
        }
        tensor->managed.dl_tensor = {.data = tuples > 0 ? typed->GetPointer(0) : nullptr,
                                     .device = {dlpack::cpu, 0},
                                     .ndim = components == 1 ? 1 : 2,
                                     .dtype = {std::is_floating_point_v<T> ? dlpack::code_float
                                               : std::is_signed_v<T>       ? dlpack::code_int
                                                                           : dlpack::code_uint,
                                               sizeof(T) * 8, 1},
                                     .shape = tensor->shape,
                                     .strides = nullptr,
                                     .byte_offset = 0};
        tensor->managed.manager_ctx = tensor.get();
        tensor->managed.deleter = [](dlpack::ManagedTensor* self) {
            delete static_cast<detail::Tensor*>(self->manager_ctx);
        };
        result = from_dlpack(&tensor->managed, detail::host());
        tensor.release();
    });
    return result;
}

/// A VTK array over a Tack array's memory, which stays alive until VTK drops it. `components`:
/// values per tuple. The array must be host memory (to_device("cpu")) and writable, since VTK has
/// no read-only arrays.
/// Throws value: components below 1 or not dividing the size; a read-only array. type: bool,
/// float16, bfloat16. runtime: a device's memory.
inline vtkSmartPointer<vtkDataArray> from_array(const Array& array, int components,
                                                const std::string& name) {
    if (components < 1 || array.size() % components != 0)
        throw Error(ErrorKind::value, "from_array: " + std::to_string(array.size()) +
                                          " values do not divide into tuples of " +
                                          std::to_string(components) + " components");
    const int type = detail::vtk_type(array.dtype());
    if (!array.writable())
        throw Error(ErrorKind::value,
                    "from_array: the array is read-only, and VTK has no such arrays; pass its "
                    "copy()");
    if (array.device().name() != "cpu")
        throw Error(ErrorKind::runtime, "from_array: the array is on " +
                                            array.device().to_string() +
                                            "; pass to_device(\"cpu\")");
    auto result = vtkSmartPointer<vtkDataArray>::Take(vtkDataArray::CreateDataArray(type));
    result->SetName(name.c_str());
    result->SetNumberOfComponents(components);
    if (array.size() == 0) return result;
    detail::visit(type, "from_array", [&]<class T>(T*) {
        detail::set_memory(*vtkAOSDataArrayTemplate<T>::FastDownCast(result.GetPointer()),
                           array.ptr(), array.size(), std::make_shared<const Array>(array));
    });
    return result;
}

}  // namespace tack::vtk
