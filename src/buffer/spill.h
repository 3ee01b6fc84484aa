#pragma once

#include "buffer/buffer.h"
#include "pool/file_pool.h"

namespace sluice {

/// Moves a buffer's bytes to a file, so that the memory of its chunks becomes free (as far as nobody else refers to
/// them). Windows that lie in the file already stay as they are. Afterwards the buffer is as before for whoever reads
/// it; what was moved is read-only (make_writable copies it to memory).
///
/// All or nothing: false, with the reason in `error` when that is given, leaves the buffer as it was. The bytes count
/// as copied. May wait for the disk. Each stretch of windows that is moved takes chunks of its own, of 4 KiB at least:
/// it is better to spill much at once.
///
///     if (body.pinned_bytes() > memory_mark && !spill(body, files)) stop_reading();
[[nodiscard]] bool spill(Buffer& buffer, FilePool& files, FileError* error = nullptr);

}  // namespace sluice
