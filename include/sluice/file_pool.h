#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "sluice/chunk.h"

namespace sluice::inline v0_1 {

/// Why a FilePool is unusable or refused a call.
struct FileError {
  enum class Kind : uint8_t {
    kNone,
    kUnusable,  ///< The directory cannot hold the file: it does not exist, is not writable, or its file system cannot
                ///< reserve or punch blocks.
    kLimit,     ///< The pool's own limit is used up.
    kDisk,      ///< The file system or a quota has no room left, or writing failed.
  };
  Kind kind = Kind::kNone;
  int code = 0;         ///< The underlying errno, or 0.
  std::string message;  ///< What was attempted, where, why it failed, and what to do about it.
};

/// Chunks in one unlinked file that is mapped once, for bytes that have to wait. Their pages belong to the page
/// cache, so the system can write them to disk and evict them when memory is short. Only disk space is certain to be
/// used.
///
/// The blocks of a chunk are reserved before it is handed out, because a store into a hole of a full disk raises
/// SIGBUS. Blocks of released chunks are reused for later chunks. A thread of the pool punches blocks beyond
/// `step_bytes` out of the file at once, and the rest after one to two seconds without use. The file's st_blocks
/// therefore shows the actual use, to disk quotas too.
///
/// Views, leases and buffers accept these chunks like any other. Thread-safe; chunks may be released on any thread.
/// Calls may wait for a lock, and all except a release may wait for the disk.
///
///     FilePool files({.directory = "/var/lib/sluice", .limit_bytes = size_t{4} << 30});
///     if (!files.ok()) return fail(files.error().message);
///     if (!spill(body, files)) stop_reading();
class FilePool {
 public:
  /// Minimum size of a chunk. Chunks of less than an extent are carved from one.
  static constexpr size_t kMinBytes = 4096;
  /// The unit in which blocks are reserved and returned.
  static constexpr size_t kExtentBytes = 64 * 1024;

  struct Options {
    std::string directory;                 ///< Must exist. The file has no name in it.
    size_t limit_bytes = size_t{1} << 30;  ///< Bound on the file's blocks, rounded down to whole extents.
    size_t step_bytes = size_t{16} << 20;  ///< Growth step of the file, and the most that stays reserved for later.
  };

  /// A snapshot.
  struct Stats {
    size_t out_bytes = 0;  ///< Capacity of the outstanding chunks.
    size_t out_bytes_peak = 0;
    uint64_t out_chunks = 0;
    size_t disk_bytes = 0;  ///< Reserved on disk: extents that hold chunks, and spare ones.
    size_t disk_bytes_peak = 0;
    size_t limit_bytes = 0;
    uint64_t refused_by_limit = 0;  ///< get() calls refused by the limit.
    uint64_t refused_by_disk = 0;   ///< get() and write() calls that the file system refused.
    uint64_t given_back_bytes = 0;  ///< Bytes punched out of the file.
    uint64_t give_back_errors = 0;  ///< Failed punches; those blocks are reused for later chunks.
  };

  /// Creates the file and tests the operations that the pool needs. Check ok() afterwards.
  explicit FilePool(Options options);
  /// Reports outstanding chunks to stderr. Their memory stays mapped and the file stays open until the last of them is
  /// released.
  ~FilePool();
  FilePool(const FilePool&) = delete;
  FilePool& operator=(const FilePool&) = delete;

  bool ok() const;
  /// Why the pool is unusable. An unusable pool refuses every get() with this error.
  const FileError& error() const;

  /// Returns a chunk of at least `bytes` with reference count 1 and unspecified contents, or null with the reason in
  /// `error` if that is not null. A chunk of ChunkKind::kReadOnly can be filled by write() only.
  ///
  /// Prefer kReadOnly. The page cache works in larger pieces, so a store into a chunk that was written to disk and read
  /// back may need blocks of neighbors that were punched out; on a full disk that raises SIGBUS despite the
  /// reservation. Precondition: bytes <= kMaxChunkBytes, and `kind` is kExternal or kReadOnly.
  Chunk* get(size_t bytes, FileError* error = nullptr, ChunkKind kind = ChunkKind::kExternal);

  /// Writes the bytes of `from` to the range that starts at `to` with a system call, which costs less than stores that
  /// fault page after page. Consumes `from`. False if the file system refused; the contents of the range are then
  /// unspecified. Precondition: the range lies in one chunk that only the caller uses. (Page cache pieces are as large
  /// as one write. A write must not extend into another chunk, which may be released earlier.)
  [[nodiscard]] bool write(std::byte* to, std::span<iovec> from, FileError* error = nullptr);

  /// Whether `data` lies in the address range of this pool.
  bool contains(const std::byte* data) const;
  /// Returns all unused blocks to the file system at once.
  void trim();

  /// Bytes reserved on disk, without the file system's own bookkeeping.
  size_t disk_bytes() const;
  /// Bytes that the file occupies according to the file system (st_blocks), including its bookkeeping. One system call.
  size_t file_system_bytes() const;
  Stats stats() const;
  /// Whether the file system itself lives in memory (tmpfs). Spilling to it then saves no memory.
  bool in_memory() const;

 private:
  struct State;
  State* state_;  // Outlives the pool while chunks are outstanding.
};

}  // namespace sluice::inline v0_1
