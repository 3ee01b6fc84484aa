#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/common/short_text.h"
#include "proxy/http/message/fields.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice::http1 {

/// Writes text to the end of a buffer, which receives it at the latest when the writer is destroyed. It fills the last
/// chunk of the buffer first if there is room, then chunks of its own, beyond the pool's budget if need be. The text
/// does not count as copied, because it is not payload.
class Writer {
 public:
  /// `bytes` is the approximate amount of text to come.
  Writer(Buffer& out, ChunkPool& pool, size_t bytes) : out_(out), pool_(pool) { take_room(bytes); }
  ~Writer() { commit(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void text(std::string_view text) { text.size() <= left() ? put(text) : put_in_pieces(text); }
  void number(uint64_t value, int base = 10);
  void field(std::string_view name, std::string_view value) {
    if (name.size() + value.size() + 4 > left()) [[unlikely]]
      return put_field_in_pieces(name, value);
    put(name);
    put(": ");
    put(value);
    put("\r\n");
  }
  enum class Of : uint8_t { kOther, kRequest, kUpgradeRequired };
  /// Writes those of `fields` that the codec does not write itself: without Host in a request, and with Upgrade in a
  /// 426.
  void fields(const Fields& fields, Of of = Of::kOther);

 private:
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  /// Precondition: there is room.
  void put(std::string_view text) {
    copy_short(at_, text.data(), text.size());
    at_ += text.size();
  }
  void put_in_pieces(std::string_view text);
  void put_field_in_pieces(std::string_view name, std::string_view value);
  void take_room(size_t bytes);
  void commit() {
    room_.truncate(room_.size() - left());
    out_.append(std::move(room_));
  }

  Buffer& out_;
  ChunkPool& pool_;
  Lease room_;
  std::byte* at_ = nullptr;   // In room_: where the next text goes.
  std::byte* end_ = nullptr;  // The end of room_.
};

/// The approximate size of `fields` when written.
inline size_t written_bytes(const Fields& fields) { return fields.text_bytes() + 4 * fields.size(); }

/// Whether no field could be mistaken for a line ending or for another field's name. Needed because fields may come
/// from sources other than our own parsers.
bool are_safe(const Fields& fields);

}  // namespace sluice::http1
