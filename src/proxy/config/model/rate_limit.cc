#include "proxy/config/model/rate_limit.h"

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"

namespace sluice::config {
namespace {

constexpr std::string_view kByteRange = "; from 1KB/s to 10GiB/s";

}  // namespace

absl::StatusOr<Rate> Rate::parse(std::string_view text) {
  const auto unexpected = [text](std::string_view hint) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a rate such as 100/s, 20/m or 1000/h, got ", in_quotes(text), hint));
  };
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return unexpected("; add its unit, as in 100/s");
  Rate rate;
  if (const absl::StatusOr<uint32_t> events = parse_count(text.substr(0, slash)); events.ok()) {
    if (*events == 0 || *events > kMaxEvents) return unexpected(absl::StrCat("; from 1 to ", kMaxEvents));
    rate.events_ = *events;
  } else {
    const absl::StatusOr<Size> size = parse_size(text.substr(0, slash));
    if (!size.ok() || text[slash - 1] != 'B')
      return unexpected("; a whole number is before the slash, or a size as in 2MiB/s");
    // Before it is known how long the period is; this also keeps per_second() from overflowing.
    if (size->bytes > kMaxBytesPerSecond * 3600) return unexpected(kByteRange);
    rate.events_ = size->bytes;
    rate.bytes_ = true;
  }
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
  if (rate.bytes_ && (rate.per_second() < kMinBytesPerSecond || rate.per_second() > kMaxBytesPerSecond)) {
    return unexpected(kByteRange);
  }
  return rate;
}

std::string Rate::text() const {
  if (events_ == 0) return "";
  const std::string_view unit = period_ >= std::chrono::hours(1) ? "h" : period_ >= std::chrono::minutes(1) ? "m" : "s";
  if (!bytes_) return absl::StrCat(events_, "/", unit);
  // Without a unit it would be a number of events. Every size has one that was read here, as KB divides it or KiB does.
  const std::string size = events_ % kKiB == 0 ? print_size({events_}) : absl::StrCat(events_ / 1000, "KB");
  return absl::StrCat(size, "/", unit);
}

absl::StatusOr<Burst> Burst::parse(std::string_view text) {
  if (text == "auto") return Burst();
  const absl::StatusOr<Size> size = parse_size(text);
  if (!size.ok() || size->bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected `auto`, a number from 1 such as 200, or a size such as 8MiB, got ", in_quotes(text)));
  }
  Burst burst(size->bytes);
  burst.size_ = text.back() == 'B';
  return burst;
}

std::string Burst::text() const {
  if (is_auto()) return "auto";
  if (!size_) return absl::StrCat(amount_);
  return amount_ % kKiB == 0 ? print_size({amount_}) : absl::StrCat(amount_ / 1000, "KB");
}

}  // namespace sluice::config
