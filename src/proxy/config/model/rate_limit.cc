#include "proxy/config/model/rate_limit.h"

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {

absl::StatusOr<Rate> Rate::parse(std::string_view text) {
  const auto unexpected = [text](std::string_view hint) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a rate such as 100/s, 20/m or 1000/h, got ", in_quotes(text), hint));
  };
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return unexpected("; add its unit, as in 100/s");
  const absl::StatusOr<uint32_t> events = parse_count(text.substr(0, slash));
  if (!events.ok()) return unexpected("; a whole number is before the slash");
  if (*events == 0 || *events > kMaxEvents) return unexpected(absl::StrCat("; from 1 to ", kMaxEvents));
  Rate rate;
  rate.events_ = *events;
  const std::string_view unit = text.substr(slash + 1);
  if (unit == "s") {
    rate.period_ = std::chrono::seconds(1);
  } else if (unit == "m") {
    rate.period_ = std::chrono::minutes(1);
  } else if (unit == "h") {
    rate.period_ = std::chrono::hours(1);
  } else {
    return unexpected("; the units are s, m and h");
  }
  return rate;
}

std::string Rate::text() const {
  if (events_ == 0) return "";
  const std::string_view unit = period_ >= std::chrono::hours(1) ? "h" : period_ >= std::chrono::minutes(1) ? "m" : "s";
  return absl::StrCat(events_, "/", unit);
}

}  // namespace sluice::config
