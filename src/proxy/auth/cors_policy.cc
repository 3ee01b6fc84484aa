#include "proxy/auth/cors_policy.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

constexpr std::string_view kAllowOrigin = "access-control-allow-origin",
                           kAllowCredentials = "access-control-allow-credentials",
                           kExposeHeaders = "access-control-expose-headers", kVary = "vary";

std::string joined(const std::vector<config::FieldName>& names) {
  return absl::StrJoin(names, ", ",
                       [](std::string* out, const config::FieldName& name) { absl::StrAppend(out, name.text()); });
}

}  // namespace

CorsPolicy::CorsPolicy(const config::Cors& config)
    : regexes_(config.origin_regex),
      credentials_(config.credentials),
      methods_(absl::StrJoin(config.methods, ", ")),
      headers_(joined(config.headers)),
      expose_(joined(config.expose)),
      max_age_(absl::StrCat(std::chrono::duration_cast<std::chrono::seconds>(config.max_age).count())) {
  for (const std::string& origin : config.origins) {
    const size_t star = origin.find('*');
    if (origin == "*") {
      any_origin_ = true;
    } else if (star != std::string::npos) {
      before_label_.push_back(origin.substr(0, star));
      after_label_.push_back(origin.substr(star + 1));
    } else {
      exact_.push_back(origin);
    }
  }
}

bool CorsPolicy::is_preflight(const Head& request) {
  return request.method() == "OPTIONS" && request.fields.find("origin") != Fields::npos &&
         request.fields.find("access-control-request-method") != Fields::npos;
}

bool CorsPolicy::allows(std::string_view origin) const {
  if (origin.empty()) return false;
  if (any_origin_ || std::find(exact_.begin(), exact_.end(), origin) != exact_.end()) return true;
  for (size_t i = 0; i < before_label_.size(); ++i) {
    const std::string_view before = before_label_[i], after = after_label_[i];
    if (origin.size() <= before.size() + after.size() || !origin.starts_with(before) || !origin.ends_with(after)) {
      continue;
    }
    const std::string_view label = origin.substr(before.size(), origin.size() - before.size() - after.size());
    if (label.find_first_of("./:@") == std::string_view::npos) return true;
  }
  return std::any_of(regexes_.begin(), regexes_.end(), [&](const config::Regex& each) { return each.fits(origin); });
}

bool CorsPolicy::add_origin(ChunkPool& pool, std::string_view origin, Fields& fields) const {
  // Caches must not serve a response for one origin to another, or to a request without one.
  if (!any_origin_ && !fields.add(pool, kVary, "Origin")) return false;
  if (!allows(origin)) return true;
  return fields.add(pool, kAllowOrigin, any_origin_ ? "*" : origin) &&
         (!credentials_ || fields.add(pool, kAllowCredentials, "true"));
}

bool CorsPolicy::add_to_preflight(ChunkPool& pool, std::string_view origin, Fields& fields) const {
  const auto add = [&](std::string_view name, const std::string& value) {
    return value.empty() || fields.add(pool, name, value);
  };
  return add_origin(pool, origin, fields) && add("access-control-allow-methods", methods_) &&
         add("access-control-allow-headers", headers_) && add("access-control-max-age", max_age_);
}

bool CorsPolicy::add_to_response(ChunkPool& pool, std::string_view origin, Fields& fields) const {
  for (const std::string_view name : {kAllowOrigin, kAllowCredentials, kExposeHeaders}) fields.remove(name);
  return add_origin(pool, origin, fields) &&
         (expose_.empty() || !allows(origin) || fields.add(pool, kExposeHeaders, expose_));
}

}  // namespace sluice
