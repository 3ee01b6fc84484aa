"""Pretty-printers for gdb.

    (gdb) source tools/gdb/sluice_gdb.py
    (gdb) print buffer
    $1 = sluice::Buffer of 9 bytes, 2 windows in place = {
      [0] = {chunk = 0x7ffff7a0d010, offset = 0, size = 3, exclusive = true, refs = 1, capacity = 64, bytes = 68 65 6c},
      [1] = ...

The program needs debug information with types (-g; the preset "debug", not "release"). At most `set print elements`
windows are shown.
"""

import gdb
import gdb.printing

INLINE_WINDOWS = 3  # Buffer::kInline
MIN_CHUNK_BYTES = 64  # kMinChunkBytes
SHOWN_BYTES = 16


def atomic(value):
    """The number in a std::atomic, of libstdc++ or libc++."""
    for path in (("_M_i",), ("__a_", "__a_value"), ("__a_",)):
        inner = value
        try:
            for name in path:
                inner = inner[name]
            return int(inner)
        except gdb.error:
            continue
    raise gdb.error("unknown layout of std::atomic")


def capacity(chunk):
    if int(chunk["home"]) == 0:
        return int(chunk["capacity"])
    return MIN_CHUNK_BYTES << int(chunk["tier"])


def hex_bytes(address, size):
    shown = min(size, SHOWN_BYTES)
    memory = gdb.selected_inferior().read_memory(address, shown)
    text = " ".join(f"{b:02x}" for b in bytes(memory))
    return text + (" ..." if size > shown else "")


class WindowPrinter:
    """sluice::Buffer::Window: a range of a chunk."""

    def __init__(self, value):
        self.value = value

    def fields(self):
        window = self.value
        offset, size = int(window["offset"]), int(window["size"])
        exclusive = "true" if int(window["exclusive"]) else "false"
        yield "chunk", hex(int(window["chunk"]))
        yield "offset", str(offset)
        yield "size", str(size)
        yield "exclusive", exclusive
        try:
            chunk = window["chunk"].dereference()
            yield "refs", str(atomic(chunk["refs"]))
            yield "capacity", str(capacity(chunk))
            yield "bytes", hex_bytes(int(chunk["data"]) + offset, size)
        except gdb.MemoryError:
            yield "bytes", "<cannot be read>"

    def to_string(self):
        return "{" + ", ".join(f"{name} = {text}" for name, text in self.fields()) + "}"


class BufferPrinter:
    """sluice::Buffer: its size, and its windows in their order."""

    def __init__(self, value):
        self.value = value
        self.count = int(value["count_"])
        self.spilled = int(value["spilled_"]) != 0
        self.slots = int(value["ring_"]["mask"]) + 1 if self.spilled else INLINE_WINDOWS

    def is_sound(self):
        return self.count <= self.slots and int(self.value["head_"]) < self.slots

    def to_string(self):
        size = int(self.value["size_"])
        if not self.is_sound():
            return f"sluice::Buffer <not initialized, or destroyed: {self.count} windows in {self.slots} slots>"
        if self.count == 0:
            return "sluice::Buffer, empty"
        where = f"on a ring of {self.slots}" if self.spilled else "in place"
        plural = "" if self.count == 1 else "s"
        return f"sluice::Buffer of {size} byte{'' if size == 1 else 's'}, {self.count} window{plural} {where}"

    def children(self):
        if not self.is_sound():
            return
        windows = self.value["inline_"]
        window_type = windows.type.target()
        if self.spilled:
            try:
                windows = self.value["ring_"]["chunk"]["data"].cast(window_type.pointer())
                windows.dereference().fetch_lazy()
            except gdb.MemoryError:
                yield "ring", "<cannot be read>"
                return
        head = int(self.value["head_"])
        for index in range(self.count):  # gdb asks for no more than it shows.
            yield f"[{index}]", windows[(head + index) % self.slots]


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("sluice")
    collection.add_printer("Buffer", "^sluice::Buffer$", BufferPrinter)
    collection.add_printer("Window", "^sluice::Buffer::Window$", WindowPrinter)
    return collection


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
