#include "proxy/http/h1/writer.h"

#include <algorithm>
#include <charconv>

#include "proxy/common/token.h"
#include "proxy/http/h1/head_reader.h"

namespace sluice::http1 {

void Writer::take_room(size_t bytes) {
  bytes = std::clamp<size_t>(bytes, 1, kMaxChunkBytes);
  if (out_.tailroom() < bytes) {
    Chunk* const chunk = pool_.get_metadata(tier_bytes(tier_for(bytes)));
    room_ = Lease(ChunkRef::take(chunk), 0, chunk_capacity(*chunk));
  } else {
    room_ = out_.reserve(pool_, bytes);
  }
  at_ = room_.data();
  end_ = at_ + room_.size();
}

void Writer::put_in_pieces(std::string_view text) {
  while (text.size() > left()) {
    const size_t piece = left();
    put(text.substr(0, piece));
    text.remove_prefix(piece);
    commit();
    take_room(text.size());
  }
  put(text);
}

void Writer::put_field_in_pieces(std::string_view name, std::string_view value) {
  text(name);
  text(": ");
  text(value);
  text("\r\n");
}

void Writer::number(uint64_t value, int base) {
  std::array<char, 20> digits;
  const std::to_chars_result end = std::to_chars(digits.data(), digits.data() + digits.size(), value, base);
  text({digits.data(), static_cast<size_t>(end.ptr - digits.data())});
}

void Writer::fields(const Fields& fields, Of of) {
  for (const Fields::Field field : fields) {
    if (is_hop_by_hop(field.name) && !(of == Of::kUpgradeRequired && field.name == "upgrade")) continue;
    if (field.name == "content-length" || (of == Of::kRequest && field.name == "host")) continue;
    this->field(field.name, field.value);
  }
}

bool are_safe(const Fields& fields) {
  for (const Fields::Field field : fields) {
    if (!is_token(field.name) || !is_field_text(field.value)) return false;
  }
  return true;
}

}  // namespace sluice::http1
