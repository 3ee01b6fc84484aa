// How libnghttp2 decodes the header blocks that HpackDecoder decodes, and HpackEncoder makes.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/internal/check.h"

namespace sluice::test {

struct ReferenceField {
  std::string name, value;
  bool sensitive = false;

  bool operator==(const ReferenceField&) const = default;
};

class ReferenceHpack {
 public:
  ReferenceHpack() { SLUICE_CHECK(nghttp2_hd_inflate_new(&inflater_) == 0); }
  ~ReferenceHpack() { nghttp2_hd_inflate_del(inflater_); }
  ReferenceHpack(const ReferenceHpack&) = delete;
  ReferenceHpack& operator=(const ReferenceHpack&) = delete;

  /// Sets the size of the table. The next block must announce it if it is smaller.
  void set_table_bytes(uint32_t bytes) { SLUICE_CHECK(nghttp2_hd_inflate_change_table_size(inflater_, bytes) == 0); }
  /// The fields of a whole block. Nothing if it is malformed; then nothing can be decoded afterwards.
  std::optional<std::vector<ReferenceField>> decode(std::string_view block) {
    const std::string copy(block);  // Never null.
    const auto* at = reinterpret_cast<const uint8_t*>(copy.data());
    const uint8_t* const end = at + copy.size();
    std::vector<ReferenceField> fields;
    int flags = 0;
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
      nghttp2_nv field;
      flags = 0;
      const nghttp2_ssize read =
          nghttp2_hd_inflate_hd3(inflater_, &field, &flags, at, static_cast<size_t>(end - at), 1);
      if (read < 0) return std::nullopt;
      at += read;
      if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0) continue;
      fields.push_back({.name = {reinterpret_cast<const char*>(field.name), field.namelen},
                        .value = {reinterpret_cast<const char*>(field.value), field.valuelen},
                        .sensitive = (field.flags & NGHTTP2_NV_FLAG_NO_INDEX) != 0});
    }
    nghttp2_hd_inflate_end_headers(inflater_);
    return fields;
  }

 private:
  nghttp2_hd_inflater* inflater_ = nullptr;
};

}  // namespace sluice::test
