#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "proxy/common/token.h"

namespace sluice {

/// An id that is made here: 128 random bits, as nginx's $request_id.
inline constexpr size_t kRequestIdDigits = 32;
/// One that is believed may be longer, and is no longer than this.
inline constexpr size_t kMaxRequestIdBytes = 128;

/// Whether a client's id may be passed on: letters, digits and what is in usual ids (UUIDs, base64, ULIDs), and nothing
/// that means something in HTML, JSON, a shell or a list.
inline bool is_request_id(std::string_view text) {
  const auto fits = [](char c) {
    return http1::is_alpha(c) || http1::is_digit(c) || std::string_view("-._~:+/=@").find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kMaxRequestIdBytes && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace sluice
