#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "buffer/buffer.h"
#include "pool/chunk_pool.h"
#include "proxy/http/message/fields.h"

namespace sluice::http1 {

/// Writes text to the end of a buffer, which has it after the writer's end: behind what its last chunk has where there
/// is room, else in chunks of its own, beyond the budget if need be. It is not counted as copied: it is no payload.
class Writer {
 public:
  /// `bytes` is about how much will be written.
  Writer(Buffer& out, ChunkPool& pool, size_t bytes) : out_(out), pool_(pool) { take_room(bytes); }
  ~Writer() { commit(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void text(std::string_view text) {
    while (text.size() > room_.size() - used_) {
      const size_t piece = room_.size() - used_;
      put(text.substr(0, piece));
      text.remove_prefix(piece);
      commit();
      take_room(text.size());
    }
    put(text);
  }
  void number(uint64_t value, int base = 10);
  void field(std::string_view name, std::string_view value) {
    text(name);
    text(": ");
    text(value);
    text("\r\n");
  }
  enum class Of : uint8_t { kOther, kRequest, kUpgradeRequired };
  /// Of `fields`, those that a codec does not write itself: of a request not Host, of a 426 also Upgrade.
  void fields(const Fields& fields, Of of = Of::kOther);

 private:
  void put(std::string_view text) {
    if (!text.empty()) std::memcpy(room_.data() + used_, text.data(), text.size());
    used_ += text.size();
  }
  void take_room(size_t bytes);
  void commit() {
    room_.truncate(std::exchange(used_, 0));
    out_.append(std::move(room_));
  }

  Buffer& out_;
  ChunkPool& pool_;
  Lease room_;
  size_t used_ = 0;
};

/// About what `fields` take when they are written.
inline size_t written_bytes(const Fields& fields) { return fields.text_bytes() + 4 * fields.size(); }

/// Whether nothing in them could be taken for the end of a line, or for a field's name: they may come from elsewhere
/// than from a reader of ours.
bool are_safe(const Fields& fields);

}  // namespace sluice::http1
