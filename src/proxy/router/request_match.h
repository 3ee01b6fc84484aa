#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// The condition of a route that a request does not match: its kind, and for a list of conditions its index.
struct Mismatch {
  enum class Kind : uint8_t { kPeer, kSource, kMethod, kHeader, kQuery, kPathRegex };
  Kind kind;
  size_t index = 0;
};

/// Returns the first condition that a request does not match, or nullopt. It does not check the host, nor exact and
/// prefix paths: the router's tables match those. An unknown attribute matches no condition, not even a negated one,
/// and no regular expression then matches the path. Allocates nothing, except as config::Regex::fits describes.
std::optional<Mismatch> find_mismatch(const config::HttpMatch& match, const RequestAttributes& facts);

/// Whether one condition on the host or the path matches, with the same result as the router's tables. For explaining a
/// routing decision.
bool fits_host(const config::HostPattern& pattern, std::string_view host);
bool fits_path(const config::PathMatch& match, std::string_view path);

}  // namespace sluice
