#include "proxy/compression/accept_encoding.h"

#include <algorithm>

#include "proxy/common/token.h"

namespace sluice {

namespace {

constexpr uint16_t kMostWeight = 1000;

// A qvalue (RFC 9110 section 12.4.2): 0 or 1 with at most three decimals, in thousandths.
std::optional<uint16_t> parse_weight(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  uint16_t weight = text[0] == '1' ? kMostWeight : 0;
  uint16_t unit = kMostWeight;
  for (const char digit : text.substr(std::min<size_t>(text.size(), 2))) {
    if (digit < '0' || digit > '9') return std::nullopt;
    unit = static_cast<uint16_t>(unit / 10);
    weight = static_cast<uint16_t>(weight + unit * (digit - '0'));
  }
  if (weight > kMostWeight) return std::nullopt;
  return weight;
}

// Parses what follows a coding: nothing, or `;q=` and its weight.
std::optional<uint16_t> parse_parameter(std::string_view text) {
  if (text.empty()) return kMostWeight;
  text = http1::trimmed(text.substr(1));
  if (!http1::same(text.substr(0, 2), "q=")) return std::nullopt;
  return parse_weight(text.substr(2));
}

std::optional<ContentCoding> coding_of(std::string_view name) {
  if (http1::same(name, "x-gzip")) return ContentCoding::kGzip;  // RFC 9110 section 8.4.1.3.
  for (size_t i = 0; i < kContentCodings; ++i) {
    const auto coding = static_cast<ContentCoding>(i);
    if (http1::same(name, content_coding_name(coding))) return coding;
  }
  return std::nullopt;
}

}  // namespace

bool AcceptEncoding::read(std::string_view value) {
  return http1::each_member(value, [this](std::string_view item) { return read_item(item); });
}

bool AcceptEncoding::read_item(std::string_view item) {
  const size_t semicolon = std::min(item.find(';'), item.size());
  const std::string_view name = http1::trimmed(item.substr(0, semicolon));
  const std::optional<uint16_t> weight = parse_parameter(item.substr(semicolon));
  if (!weight || !http1::is_token(name)) return false;
  if (name == "*") {
    any_other_ = weight;
  } else if (const std::optional<ContentCoding> coding = coding_of(name)) {
    weights_[static_cast<size_t>(*coding)] = weight;
  }
  return true;
}

uint16_t AcceptEncoding::weight(ContentCoding coding) const {
  if (const auto& weight = weights_[static_cast<size_t>(coding)]) return *weight;
  if (any_other_) return *any_other_;
  return coding == ContentCoding::kIdentity ? 1 : 0;
}

ContentCoding AcceptEncoding::choose(std::span<const ContentCoding> offered) const {
  ContentCoding best = ContentCoding::kIdentity;
  uint16_t best_weight = 0;
  for (const ContentCoding coding : offered) {
    if (weight(coding) <= best_weight) continue;
    best = coding;
    best_weight = weight(coding);
  }
  // Only if the client names identity explicitly: `*` stands for codings that the client does not know.
  const auto& identity = weights_[static_cast<size_t>(ContentCoding::kIdentity)];
  return identity && *identity > best_weight ? ContentCoding::kIdentity : best;
}

}  // namespace sluice
