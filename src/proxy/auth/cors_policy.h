#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pool/chunk_pool.h"
#include "proxy/config/model/config.h"
#include "proxy/http/message/fields.h"
#include "proxy/http/message/head.h"

namespace sluice {

/// What pages of other origins may do with a route's answers (the Fetch standard, section 3.2). Immutable.
class CorsPolicy {
 public:
  explicit CorsPolicy(const config::Cors& config);

  /// Whether a browser asks for leave, before a request that needs it.
  static bool is_preflight(const Head& request);
  /// Whether pages of this origin may ask.
  bool allows(std::string_view origin) const;

  /// Fields of the answer to a preflight,
  [[nodiscard]] bool add_to_preflight(ChunkPool& pool, std::string_view origin, Fields& fields) const;
  /// and of any other answer; what an upstream says of these things is taken out. `origin` is empty where the request
  /// has none.
  [[nodiscard]] bool add_to_answer(ChunkPool& pool, std::string_view origin, Fields& fields) const;

 private:
  [[nodiscard]] bool add_origin(ChunkPool& pool, std::string_view origin, Fields& fields) const;

  std::vector<std::string> exact_;
  std::vector<std::string> before_label_, behind_label_;  // In step: around the star.
  bool anybody_ = false;
  bool credentials_;
  // As the fields have them; empty: none.
  std::string methods_, headers_, expose_, max_age_;
};

}  // namespace sluice
