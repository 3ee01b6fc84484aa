#pragma once

#include "sluice/buffer.h"
#include "sluice/file_pool.h"

namespace sluice::inline v0_1 {

/// Moves a buffer's bytes to a file, which frees the memory of chunks without other holders. Windows that lie in the
/// file already stay as they are. Readers of the buffer see no difference; moved bytes are read-only (make_writable
/// copies them to memory).
///
/// All or nothing: on failure it returns false, stores the reason in `error` if that is not null, and leaves the buffer
/// unchanged. The bytes count as copied. May wait for the disk. Each contiguous run of moved windows takes separate
/// chunks of at least 4 KiB, so spill large amounts at once.
///
///     if (body.pinned_bytes() > memory_mark && !spill(body, files)) stop_reading();
[[nodiscard]] bool spill(Buffer& buffer, FilePool& files, FileError* error = nullptr);

}  // namespace sluice::inline v0_1
