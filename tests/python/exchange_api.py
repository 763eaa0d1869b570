"""DLPack's C exchange API (1.3) by ctypes: to call one, and to be one."""

import ctypes

from managed_tensor import PYTHON, Producer, Tensor, Versioned

ATTRIBUTE = "__dlpack_c_exchange_api__"
NAME = b"dlpack_exchange_api"

SET_ERROR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
# PYFUNCTYPE keeps the GIL and raises the error that a slot has set.
ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(Tensor),
    ctypes.POINTER(ctypes.POINTER(Versioned)),
    ctypes.c_void_p,
    SET_ERROR,
)
FROM_OBJECT = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(Versioned))
)
TO_OBJECT = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Versioned), ctypes.POINTER(ctypes.c_void_p)
)
TENSOR_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Tensor))
STREAM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class ExchangeAPI(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("prev_api", ctypes.c_void_p),
        ("allocate", ALLOCATE),
        ("from_object", FROM_OBJECT),
        ("to_object", TO_OBJECT),
        ("tensor_from_object", TENSOR_FROM_OBJECT),
        ("stream", STREAM),
    ]


def api_of(kind):
    """The API that a type carries."""
    address = PYTHON.PyCapsule_GetPointer(getattr(kind, ATTRIBUTE), NAME)
    return ExchangeAPI.from_address(address)


def api_capsule(api, name=NAME):
    return PYTHON.PyCapsule_New(ctypes.addressof(api), ctypes.c_char_p(name), None)


def make_type(status=0):
    """A kind of Producer whose API hands out its managed tensor; calls counts how often.

    status: what the slot returns; other than 0 it hands out nothing.
    """

    class Exchanging(Producer):
        calls = 0

        def __dlpack__(self, **keywords):
            raise AssertionError("a capsule was asked for")

    def from_object(address, out):
        source = ctypes.cast(address, ctypes.py_object).value
        Exchanging.calls += 1
        if status != 0:
            return status
        out[0] = ctypes.pointer(source.managed)
        return 0

    api = ExchangeAPI(major=1, minor=3, from_object=FROM_OBJECT(from_object))
    Exchanging.api = api
    setattr(Exchanging, ATTRIBUTE, api_capsule(api))
    return Exchanging
