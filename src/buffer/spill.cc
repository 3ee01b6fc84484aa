#include "sluice/spill.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "sluice/copied.h"

namespace sluice::inline v0_1 {

namespace {

// A run of adjacent windows that are either all in the file or all to be moved.
struct Stretch {
  size_t bytes = 0;
  bool moves = false;
  Buffer moved;
};

// Iterates over a buffer's bytes and describes them for system calls.
class Source {
 public:
  explicit Source(const Buffer& buffer) : at_(buffer.windows().begin()) {}

  /// Fills `to` with the next bytes, at most `bytes` of them, and returns the number of entries filled.
  size_t fill(std::span<iovec> to, size_t bytes) {
    size_t filled = 0;
    while (filled < to.size() && bytes > 0) {
      const std::span<const std::byte> window = *at_;
      const size_t piece = std::min(window.size() - within_, bytes);
      to[filled++] = {const_cast<std::byte*>(window.data() + within_), piece};
      bytes -= piece;
      skip(piece);
    }
    return filled;
  }
  void skip(size_t bytes) {
    while (bytes > 0) {
      const size_t piece = std::min((*at_).size() - within_, bytes);
      bytes -= piece;
      within_ += piece;
      if (within_ == (*at_).size()) ++at_, within_ = 0;
    }
  }

 private:
  Buffer::Windows::Iterator at_;
  size_t within_ = 0;
};

// Fills the chunk at `to` with the next `bytes` of the source.
bool fill(FilePool& files, std::byte* to, Source& source, size_t bytes, FileError* error) {
  std::array<iovec, 128> pieces;
  while (bytes > 0) {
    const size_t filled = source.fill(pieces, bytes);
    size_t count = 0;
    for (size_t i = 0; i < filled; ++i) count += pieces[i].iov_len;
    if (!files.write(to, std::span(pieces).first(filled), error)) return false;
    to += count;
    bytes -= count;
  }
  return true;
}

// Copies the next `bytes` of the source into chunks of the file.
std::optional<Buffer> copy_to_file(FilePool& files, Source& source, size_t bytes, FileError* error) {
  Buffer copy;
  for (size_t left = bytes; left > 0;) {
    const size_t piece = std::min(left, kMaxChunkBytes);
    ChunkRef chunk = ChunkRef::take(files.get(piece, error, ChunkKind::kReadOnly));
    if (!chunk || !fill(files, chunk.data(), source, piece, error)) return std::nullopt;
    copy.append(View(std::move(chunk), 0, piece));
    left -= piece;
  }
  copied_bytes += bytes;
  return copy;
}

}  // namespace

bool spill(Buffer& buffer, FilePool& files, FileError* error) {
  std::vector<Stretch> stretches;
  for (std::span<const std::byte> window : buffer.windows()) {
    const bool moves = !files.contains(window.data());
    if (stretches.empty() || stretches.back().moves != moves) stretches.push_back({0, moves, {}});
    stretches.back().bytes += window.size();
  }
  Source source(buffer);
  for (Stretch& stretch : stretches) {
    if (!stretch.moves) {
      source.skip(stretch.bytes);
    } else if (std::optional<Buffer> moved = copy_to_file(files, source, stretch.bytes, error)) {
      stretch.moved = *std::move(moved);
    } else {
      return false;
    }
  }
  Buffer result;
  for (Stretch& stretch : stretches) {
    if (stretch.moves) {
      buffer.trim_front(stretch.bytes);
      result.append(std::move(stretch.moved));
    } else {
      result.append(buffer.split_front(stretch.bytes));
    }
  }
  buffer = std::move(result);
  return true;
}

}  // namespace sluice::inline v0_1
