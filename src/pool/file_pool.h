#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "pool/chunk.h"

namespace sluice {

/// Why a FilePool cannot be used, or did not do what it was asked.
struct FileError {
  enum class Kind : uint8_t {
    kNone,
    kUnusable,  ///< No file can be kept there: no such directory, not writable, blocks cannot be reserved or given
                ///< back.
    kLimit,     ///< The pool's own limit is used up.
    kDisk,      ///< The file system or a quota has no room left, or writing failed.
  };
  Kind kind = Kind::kNone;
  int code = 0;         ///< The errno behind it, or 0.
  std::string message;  ///< What was wanted, where, why it failed, and what to do about it.
};

/// Chunks that lie in one unlinked file, mapped once: a place for bytes that have to wait. Their pages are the page
/// cache's, so that the system writes them to disk and takes them out of memory when it is short of it; what a chunk
/// costs for certain is disk space.
///
/// The blocks of a chunk are reserved before it is handed out, since a store into a hole of a full disk would be a
/// SIGBUS. Blocks of released chunks serve the next ones; a thread of the pool punches what is more than `step_bytes`
/// out of the file at once, and the rest when it was not needed for a second or two. So the file's st_blocks says what
/// is used, to disk quotas too.
///
/// Views, leases and buffers take the chunks as any other. Thread-safe, and chunks may be released on any thread; what
/// is called here may wait for a lock, and all but a release may wait for the disk.
///
///     FilePool files({.directory = "/var/lib/sluice", .limit_bytes = size_t{4} << 30});
///     if (!files.ok()) return fail(files.error().message);
///     if (!spill(body, files)) stop_reading();
class FilePool {
 public:
  /// Chunks of up to this are cut out of larger extents; it is also the least that a chunk takes.
  static constexpr size_t kMinBytes = 4096;
  /// The unit in which blocks are reserved and given back.
  static constexpr size_t kExtentBytes = 64 * 1024;

  struct Options {
    std::string directory;                 ///< Must be there. The file has no name in it.
    size_t limit_bytes = size_t{1} << 30;  ///< Bound on the file's blocks, rounded down to whole extents.
    size_t step_bytes = size_t{16} << 20;  ///< The file grows by so much; and so much stays reserved for what comes.
  };

  /// Figures of one moment.
  struct Stats {
    size_t out_bytes = 0;  ///< Capacity of the chunks that somebody holds.
    size_t out_bytes_peak = 0;
    uint64_t out_chunks = 0;
    size_t disk_bytes = 0;  ///< Reserved on disk: the extents that chunks lie in, and those kept for what comes.
    size_t disk_bytes_peak = 0;
    size_t limit_bytes = 0;
    uint64_t refused_by_limit = 0;  ///< get() calls that met the limit.
    uint64_t refused_by_disk = 0;   ///< get() and write() calls that the file system refused.
    uint64_t given_back_bytes = 0;  ///< Punched out of the file.
    uint64_t give_back_errors = 0;  ///< Times that failed; what should have been given back serves the next chunks.
  };

  /// Makes the file and tries out what it needs; whether that went well is what ok() says.
  explicit FilePool(Options options);
  /// Reports chunks that did not come home to stderr. Their memory is left mapped, and the file open, until the last of
  /// them is released.
  ~FilePool();
  FilePool(const FilePool&) = delete;
  FilePool& operator=(const FilePool&) = delete;

  bool ok() const;
  /// Why the pool cannot be used. A pool that is not ok refuses everything with this error.
  const FileError& error() const;

  /// A chunk of at least `bytes` with reference count 1, its contents unspecified; or null, with the reason in `error`
  /// when that is given. One that is ChunkKind::kReadOnly is filled by write() only.
  ///
  /// A store into a chunk that was written to disk and read back may need blocks of neighbours that were given back:
  /// the page cache works in larger pieces. Then a full disk is a SIGBUS all the same; so prefer kReadOnly.
  /// Precondition: bytes <= kMaxChunkBytes, and `kind` is one of those two.
  Chunk* get(size_t bytes, FileError* error = nullptr, ChunkKind kind = ChunkKind::kExternal);

  /// Fills [to, to + the size of `from`) with a system call, which costs less than stores that fault page after page
  /// in. Uses `from` up. False when the file system refused; the range's contents are unspecified then. Precondition:
  /// the range lies in one chunk, and the caller alone uses it. (Pieces of the page cache are as large as what is
  /// written at once; they should not reach over to another chunk, which may be given back before.)
  [[nodiscard]] bool write(std::byte* to, std::span<iovec> from, FileError* error = nullptr);

  /// Whether a chunk of this pool lies at `data`.
  bool contains(const std::byte* data) const;
  /// Gives back at once what no chunk uses.
  void trim();

  /// Bytes reserved on disk. What the file system adds for its own bookkeeping is not in it.
  size_t disk_bytes() const;
  /// The same as the file system has it (st_blocks), its bookkeeping included. One system call.
  size_t file_system_bytes() const;
  Stats stats() const;
  /// Whether the file system itself lives in memory (tmpfs): then bytes that wait here save none of it.
  bool in_memory() const;

 private:
  struct State;
  State* state_;  // Lives on while chunks are out.
};

}  // namespace sluice
