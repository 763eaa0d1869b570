"""tack.explain: how an object would become an array, in words."""

from collections import namedtuple

from tack._core import _explain

# A dataclass would load as much at `import tack` as all the rest.
_FIELDS = "type protocol device dtype shape strides writable ordering shared copyable reason"


class Explanation(namedtuple("Explanation", _FIELDS)):
    """How tack.asarray takes an object in; str() of it is a text to read.

    What the object does not say is None. device is DLPack's name and number of it, shape and
    strides are in elements (strides None: C order). ordering: how Tack's work comes after what the
    producer has queued on a device, None on the host. shared: whether an array would be a view.
    reason: why not, and what to do, in the words of the error. copyable: whether asarray(x) makes
    a copy instead.
    """

    __slots__ = ()

    @property
    def layout(self):
        """C-contiguous, or the strides in words."""
        if self.shape is None:
            return None
        expected = 1
        for extent, stride in reversed(list(zip(self.shape, self.strides or ()))):
            if extent != 1 and stride != expected and 0 not in self.shape:
                return f"strides {self.strides} in elements"
            expected *= extent
        return "C-contiguous"

    @property
    def advice(self):
        """What to call."""
        if not self.shared:
            if self.copyable:
                return "tack.asarray(x) makes a copy; copy=False refuses"
            return "see the reason"
        if self.writable:
            return "tack.asarray(x), or x as a kernel's argument, uses its memory"
        return "read it in place; to write, take a copy: tack.asarray(x, copy=True)"

    def __str__(self):
        access = {True: "writable", False: "read-only", None: None}[self.writable]
        lines = {
            "protocol": self.protocol,
            "device": self.device,
            "dtype": self.dtype,
            "shape": self.shape,
            "layout": self.layout,
            "access": access,
            "ordering": self.ordering,
            "memory": "shared" if self.shared else f"not shared: {self.reason}",
            "advice": self.advice,
        }
        facts = [f"  {name:<9}{value}" for name, value in lines.items() if value is not None]
        return "\n".join([self.type, *facts])


def explain(x, /):
    """How tack.asarray would take x in, by which protocol, shared or not and why.

    Nothing is taken: a capsule stays usable. print() shows the text.
    """
    fields = dict.fromkeys(("device", "dtype", "shape", "strides", "writable", "ordering"))
    kind = type(x)
    module = "" if kind.__module__ == "builtins" else kind.__module__ + "."
    return Explanation(**{"type": module + kind.__qualname__, **fields, **_explain(x)})
