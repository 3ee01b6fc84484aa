"""Pretty-printers for gdb.

    (gdb) source sluice_gdb.py
    (gdb) print buffer
    $1 = sluice::Buffer of 9 bytes, 2 windows in place = {
      [0] = {chunk = 0x7ffff7a0d010, offset = 0, size = 3, exclusive = true, refs = 1, capacity = 64, bytes = 68 65 6c},
      [1] = ...

The installed library holds this script: gdb loads it from a program that is linked with the library and lies in a folder that
`add-auto-load-safe-path FOLDER` has named, in ~/.config/gdb/gdbinit for instance. Otherwise load it by `source`.

The program needs debug information with types (-g; the preset "debug", not "release"). At most `set print elements`
windows are shown.
"""

import gdb
import gdb.printing

INLINE_WINDOWS = 3  # WindowChain::kInline
BLOCK_WINDOWS = 13  # WindowChain::kBlockWindows
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
    """sluice::Window: a range of a chunk."""

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
    """sluice::Buffer: its size, and its windows in order."""

    def __init__(self, value):
        self.chain = value["windows_"]
        self.count = int(self.chain["count_"])
        self.spilled = int(self.chain["spilled_"]) != 0

    def is_sound(self):
        if self.spilled:
            return self.count > 0
        return self.count <= INLINE_WINDOWS and int(self.chain["head_"]) < INLINE_WINDOWS

    def to_string(self):
        size = int(self.chain["bytes_"])
        if not self.is_sound():
            return f"sluice::Buffer <not initialized, or destroyed: {self.count} windows>"
        if self.count == 0:
            return "sluice::Buffer, empty"
        where = "in blocks" if self.spilled else "in place"
        plural = "" if self.count == 1 else "s"
        return f"sluice::Buffer of {size} byte{'' if size == 1 else 's'}, {self.count} window{plural} {where}"

    def children(self):
        """gdb requests no more than it prints."""
        if not self.is_sound():
            return
        for index, window in enumerate(self.in_blocks() if self.spilled else self.in_place()):
            yield f"[{index}]", window

    def in_place(self):
        head = int(self.chain["head_"])
        for index in range(self.count):
            yield self.chain["inline_"][(head + index) % INLINE_WINDOWS]

    def in_blocks(self):
        block, left = self.chain["blocks_"]["first"], self.count
        try:
            while left > 0:
                begin, end = int(block["begin"]), int(block["end"])
                if not 0 <= begin < end <= BLOCK_WINDOWS:
                    yield "<a block that is not sound>"
                    return
                for slot in range(begin, end):
                    yield block["windows"][slot]
                left -= end - begin
                block = block["next"]
        except gdb.MemoryError:
            yield "<cannot be read>"


def printers():
    # The types are in an inline namespace (include/sluice/version.h).
    collection = gdb.printing.RegexpCollectionPrettyPrinter("sluice")
    collection.add_printer("Buffer", r"^sluice::(v\w+::)?Buffer$", BufferPrinter)
    collection.add_printer("Window", r"^sluice::(v\w+::)?Window$", WindowPrinter)
    return collection


gdb.printing.register_pretty_printer(gdb.current_objfile(), printers(), replace=True)
