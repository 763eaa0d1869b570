// What asarray() would make of an object, without taking anything of it.
#include <memory>

#include "exchange.hpp"
#include "interop/dlpack_types.hpp"
#include "managed_tensor.hpp"
#include "view.hpp"

namespace tack::python {
namespace {

using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;

/// A look at a tensor: it is read, never adopted.
struct Look {
    const char* protocol = nullptr;
    std::string ordering;  // how an import would order Tack's work after the producer's
    dlpack::Tensor tensor{};
    bool read_only = false;
    std::uint32_t major = 1;
    nb::object keeper;                        // the capsule
    ManagedTensorVersioned* owned = nullptr;  // given back with the look

    Look() = default;
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;
    ~Look() {
        if (owned && owned->deleter) owned->deleter(owned);
    }

    void at(const ManagedTensorVersioned& managed) {
        major = managed.version.major;
        if (major > 1) return;  // nothing else may be read
        tensor = managed.dl_tensor;
        read_only = managed.flags & dlpack::flag_read_only;
    }
    void own(ManagedTensorVersioned* managed) {
        owned = managed;
        at(*managed);
    }
};

/// Of the devices that have streams, those whose producers are asked about them.
bool has_streams(std::int32_t device_type) {
    return device_type == dlpack::cuda || device_type == dlpack::cuda_managed ||
           device_type == dlpack::rocm;
}

void look_at_capsule(Look& look, PyObject* source) {
    const std::optional<dlpack::Device> device = producer_device(source);
    const bool asks = device && has_streams(device->device_type);
    if (asks) look.ordering = "the producer makes Tack's stream wait for its work (stream=)";
    constexpr std::int64_t no_order = -1;
    look.keeper = request_capsule(source, asks ? std::optional(no_order) : std::nullopt);
    PyObject* capsule = look.keeper.ptr();
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return look.at(*static_cast<ManagedTensorVersioned*>(
            PyCapsule_GetPointer(capsule, "dltensor_versioned")));
    if (!PyCapsule_IsValid(capsule, "dltensor")) fail_capsule(capsule);
    look.tensor = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
    look.read_only = buffer_is_read_only(source);
}

void look_at_dlpack(Look& look, PyObject* source) {
    const ArrayKind kind = array_kind(source);
    if (!kind.api) return look_at_capsule(look, source);
    look.protocol = "DLPack C exchange API";
    look.own(export_exchange(source, kind));
    if (look.major == 1 && has_streams(look.tensor.device.device_type))
        look.ordering = "Tack's stream waits for the producer's current one (an event)";
}

void look_at_cuda_array(Look& look, PyObject* source) {
    const CudaArray array = cuda_array(source);
    look.own(array.tensor);
    look.ordering = array.stream ? "Tack's stream waits for the producer's stream " +
                                       std::to_string(*array.stream) + " (an event)"
                                 : "none: the producer has no work to wait for";
}

void look_by(Protocol protocol, Look& look, PyObject* source) {
    switch (protocol) {
        case Protocol::tack:
            look.protocol = "none needed, a tack.Array";
            return look.own(export_versioned(*array_of(source)));
        case Protocol::dlpack:
            look.protocol = "DLPack";
            return look_at_dlpack(look, source);
        case Protocol::capsule:
            look.protocol = "DLPack capsule";
            look_at_capsule(look, source);
            if (look.major == 1 && has_streams(look.tensor.device.device_type))
                look.ordering = "none: a bare capsule does not say what is queued";
            return;
        case Protocol::cuda_array_interface:
            look.protocol = "CUDA array interface";
            return look_at_cuda_array(look, source);
        case Protocol::array_interface:
            look.protocol = "array interface";
            return look.own(interface_tensor(source));
        case Protocol::buffer:
            look.protocol = "buffer protocol";
            return look.own(buffer_tensor(source));
        case Protocol::none:
            throw Error(ErrorKind::type, "explain: a " + class_name(source) +
                                             " shares no memory. Use tack.array() for a copy");
    }
}

/// What an import would say of the tensor; nothing of it is kept.
Array judge(const Look& look) {
    ManagedTensorVersioned stand_in{};
    stand_in.version = {look.major, 0};
    stand_in.flags = look.read_only ? dlpack::flag_read_only : 0;
    stand_in.dl_tensor = look.tensor;
    return from_dlpack(&stand_in);
}

nb::tuple extents(const std::int64_t* values, int count) {
    nb::list list;
    for (int k = 0; k < count; ++k) list.append(values[k]);
    return nb::tuple(list);
}

void describe_tensor(nb::dict& record, const Look& look) {
    const dlpack::Tensor& tensor = look.tensor;
    const std::optional<DType> dtype = from_dlpack_type(tensor.dtype);
    record["device"] =
        device_type_name(tensor.device.device_type) + ":" + std::to_string(tensor.device.device_id);
    record["dtype"] =
        dtype && tensor.dtype.lanes == 1 ? std::string(name(*dtype)) : describe(tensor.dtype);
    if (tensor.ndim >= 0 && (tensor.shape || tensor.ndim == 0))
        record["shape"] = extents(tensor.shape, tensor.ndim);
    if (tensor.strides && tensor.ndim > 0) record["strides"] = extents(tensor.strides, tensor.ndim);
    record["writable"] = !look.read_only;
    if (!look.ordering.empty()) record["ordering"] = look.ordering;
}

std::string without_prefix(const char* message) {
    const std::string_view text = message;
    const std::size_t colon = text.find(": ");
    return std::string(colon == text.npos ? text : text.substr(colon + 2));
}

/// Fills in how the object would come in, and why not where it would not.
void explain_by(Protocol protocol, nb::dict& record, PyObject* source) {
    Look look;
    std::string reason;
    try {
        try {
            look_by(protocol, look, source);
            if (look.major == 1) describe_tensor(record, look);
            if (protocol == Protocol::cuda_array_interface) {
                place_cuda_array(look.owned, {});
                look.at(*look.owned);
                describe_tensor(record, look);
            }
            judge(look);
            record["shared"] = true;
        } catch (nb::python_error& refusal) {
            const Protocol next = protocol_after_dlpack(source);
            if (protocol == Protocol::dlpack && refusal.matches(PyExc_BufferError) &&
                next != Protocol::none)
                return explain_by(next, record, source);
            reason =
                without_prefix(nb::cast<std::string>(nb::str(nb::handle(refusal.value()))).c_str());
        }
    } catch (const Error& error) {
        reason = without_prefix(error.what());
        record["copyable"] =
            protocol == Protocol::none || (error.kind() == ErrorKind::non_contiguous &&
                                           is_host_memory(look.tensor.device.device_type));
    }
    record["protocol"] =
        look.protocol ? nb::object(nb::str(look.protocol)) : nb::object(nb::none());
    record["reason"] = reason;
}

}  // namespace

void bind_explain(nb::module_& m) {
    m.def(
        "_explain",
        [](nb::handle object) {
            nb::dict record;
            record["shared"] = false;
            record["copyable"] = false;
            explain_by(protocol_of(object.ptr()), record, object.ptr());
            return record;
        },
        nb::arg("object").none(), "The fields of tack.Explanation.");
}

}  // namespace tack::python
