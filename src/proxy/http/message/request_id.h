#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "proxy/common/token.h"

namespace sluice {

/// The length of an id generated here: 128 random bits, as in nginx's $request_id.
inline constexpr size_t kRequestIdDigits = 32;
/// The maximum length of an id that is accepted from a client.
inline constexpr size_t kMaxRequestIdBytes = 128;

/// Whether a client's id may be passed on. It may contain letters, digits and the characters of common ids (UUIDs,
/// base64, ULIDs), but nothing with a meaning in HTML, JSON, a shell or a list.
inline bool is_request_id(std::string_view text) {
  const auto fits = [](char c) {
    return http1::is_alpha(c) || http1::is_digit(c) || std::string_view("-._~:+/=@").find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kMaxRequestIdBytes && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace sluice
