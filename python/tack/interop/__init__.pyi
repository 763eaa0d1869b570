from tack.interop import dlpack as dlpack

__all__ = ["dlpack"]
