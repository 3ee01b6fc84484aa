#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "proxy/config/model/config.h"
#include "proxy/router/request_attributes.h"

namespace sluice {

/// A condition of a route that a request does not fit: which kind, and, in a list of them, which one.
struct Misfit {
  enum class Kind : uint8_t { kPeer, kSource, kMethod, kHeader, kQuery, kPathRegex };
  Kind kind;
  size_t index = 0;
};

/// The first condition that a request does not fit; those on the host, and on paths that are exact or a prefix, apart,
/// which the router's tables have found. What is not known fits no condition, not even one that is turned around; no
/// regular expression then fits the path either. Allocates nothing, but see config::Regex::fits.
std::optional<Misfit> find_misfit(const config::HttpMatch& match, const RequestAttributes& facts);

/// Conditions on host and path, one at a time: as the router's tables have it. For telling why.
bool fits_host(const config::HostPattern& pattern, std::string_view host);
bool fits_path(const config::PathMatch& match, std::string_view path);

}  // namespace sluice
