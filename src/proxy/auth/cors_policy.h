#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"
#include "proxy/http/message/head.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// The CORS policy of a route: what pages of other origins may do with its responses (the Fetch standard, section 3.2).
/// Immutable.
class CorsPolicy {
 public:
  explicit CorsPolicy(const config::Cors& config);

  /// Whether a request is a CORS preflight.
  static bool is_preflight(const Head& request);
  /// Whether pages of this origin may send requests.
  bool allows(std::string_view origin) const;

  /// Adds the fields of the response to a preflight. `origin` is empty if the request has none. Returns false if there
  /// is no room.
  [[nodiscard]] bool add_to_preflight(ChunkPool& pool, std::string_view origin, Fields& fields) const;
  /// Adds the fields of any other response, after removing those that an upstream has set. `origin` is empty if the
  /// request has none. Returns false if there is no room.
  [[nodiscard]] bool add_to_response(ChunkPool& pool, std::string_view origin, Fields& fields) const;

 private:
  [[nodiscard]] bool add_origin(ChunkPool& pool, std::string_view origin, Fields& fields) const;

  std::vector<std::string> exact_;
  std::vector<std::string> before_label_, after_label_;  // The parts around the star of each wildcard origin.
  std::vector<config::Regex> regexes_;
  bool any_origin_ = false;
  bool credentials_;
  // Field values; empty if the field is not sent.
  std::string methods_, headers_, expose_, max_age_;
};

}  // namespace sluice
