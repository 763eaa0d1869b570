"""DLPack producers made by hand, for what no library hands out."""

import ctypes

import numpy as np

import tack

# ctypes.pythonapi is one for all, and other libraries set its functions' types too.
PYTHON = ctypes.PyDLL(None)
PYTHON.PyCapsule_New.restype = ctypes.py_object
PYTHON.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
PYTHON.PyCapsule_GetPointer.restype = ctypes.c_void_p
PYTHON.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
PYTHON.PyCapsule_GetName.restype = ctypes.c_char_p
PYTHON.PyCapsule_GetName.argtypes = [ctypes.py_object]

CPU, CUDA, METAL, ONEAPI = 1, 2, 8, 14
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
READ_ONLY = 1


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Legacy(ctypes.Structure):
    _fields_ = [
        ("tensor", Tensor),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", DELETER),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


def capsule_name(capsule):
    return PYTHON.PyCapsule_GetName(capsule).decode()


def managed_tensor(capsule):
    """The struct in a capsule, which keeps the capsule."""
    kind = Versioned if "versioned" in capsule_name(capsule) else Legacy
    address = PYTHON.PyCapsule_GetPointer(capsule, PYTHON.PyCapsule_GetName(capsule))
    managed = kind.from_address(address)
    managed.capsule = capsule
    return managed


class Producer:
    """Eight float32 values 0 ... 7 as a DLPack tensor; keywords change what it says of them.

    They lie on the default device. Must outlive the arrays over it. deleted counts the deleter's
    calls, capsule is the last one.
    """

    def __init__(self, *, versioned=True, strides=None, shape=(8,), deleter=True, on_delete=None,
                 major=1, flags=0, device_type=None, **tensor):  # fmt: skip
        self.storage = tack.array(np.arange(8, dtype=np.float32))
        if device_type is None:
            device_type, device_id = self.storage.__dlpack_device__()
            tensor = {"device_id": device_id, **tensor}
        self.shape = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.strides = (ctypes.c_int64 * max(1, len(shape)))(*strides) if strides else None
        self.deleted = 0
        self.on_delete = on_delete
        self.managed = Versioned(major=major, minor=0, flags=flags) if versioned else Legacy()
        self.managed.deleter = DELETER(self._delete) if deleter else DELETER()
        fields = {"data": self.storage.ptr, "device_type": device_type,
                  "ndim": len(shape), "code": FLOAT, "bits": 32, "lanes": 1}  # fmt: skip
        fields |= tensor
        for name, value in fields.items():
            setattr(self.managed.tensor, name, value)
        self.managed.tensor.shape = ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64))
        if self.strides:
            self.managed.tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))
        self.name = ctypes.create_string_buffer(b"dltensor_versioned" if versioned else b"dltensor")

    def _delete(self, address):
        assert address == ctypes.addressof(self.managed)
        self.deleted += 1
        if self.on_delete:
            self.on_delete()

    def make_capsule(self):
        """Without a destructor: one that nobody consumes leaves the tensor as it is."""
        self.capsule = PYTHON.PyCapsule_New(
            ctypes.addressof(self.managed), ctypes.addressof(self.name), None
        )
        return self.capsule

    def __dlpack__(self, **keywords):
        return self.make_capsule()

    def __dlpack_device__(self):
        return (self.managed.tensor.device_type, self.managed.tensor.device_id)
