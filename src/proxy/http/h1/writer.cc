#include "proxy/http/h1/writer.h"

#include <algorithm>
#include <charconv>

#include "proxy/common/token.h"
#include "proxy/http/h1/head_reader.h"
#include "sluice/internal/check.h"

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
  constexpr size_t kMostDigits = 20;
  if (left() < kMostDigits) {
    commit();
    take_room(kMostDigits);
  }
  char* const at = reinterpret_cast<char*>(at_);
  at_ += std::to_chars(at, at + kMostDigits, value, base).ptr - at;
}

void Writer::fields(const Fields& fields, Of of) {
  const auto belongs = [of](std::string_view name) {
    if (is_hop_by_hop(name)) return of == Of::kUpgradeRequired && name == "upgrade";
    return name != "content-length" && !(of == Of::kRequest && name == "host");
  };
  for (const Fields::Field field : fields) {
    if (field.traits.ordinary || belongs(field.name)) this->field(field.name, field.value);
  }
}

bool are_safe(const Fields& fields) {
  const auto is_safe = [](const Fields::Field& field) { return is_token(field.name) && is_field_text(field.value); };
  for (const Fields::Field field : fields) {
    SLUICE_DCHECK(!field.traits.ordinary || (is_safe(field) && is_ordinary(field.name)));
    if (!field.traits.ordinary && !is_safe(field)) return false;
  }
  return true;
}

}  // namespace sluice::http1
