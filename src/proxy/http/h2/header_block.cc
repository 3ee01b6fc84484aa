#include "proxy/http/h2/header_block.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proxy/http/h2/field_rules.h"
#include "proxy/http/message/message_rules.h"

namespace sluice {
namespace {

constexpr size_t kFieldOverhead = 32;  // RFC 9113 section 6.5.2.
constexpr uint8_t kPseudoFields = 5;   // The most in a request.

}  // namespace

void Http2HeaderBlock::expect(ChunkPool& pool, size_t encoded_bytes) {
  constexpr size_t kLeastBytes = 256;  // Short blocks refer to entries of the table.
  if (kind_ != Kind::kIgnored) head_.fields.reserve(pool, 0, std::max(kLeastBytes, 2 * encoded_bytes));
}

// Records a lack of room in the verdict.
bool Http2HeaderBlock::kept(bool kept) {
  if (!kept) verdict_ = Verdict::kTooLarge;
  return true;
}

bool Http2HeaderBlock::breaks(const char* rule) {
  error_ = rule;
  return false;
}

bool Http2HeaderBlock::add(ChunkPool& pool, const Http2Limits& limits, std::string_view name, std::string_view value,
                           bool sensitive) {
  bytes_ += static_cast<uint32_t>(name.size() + value.size() + kFieldOverhead);
  const bool pseudo = name.starts_with(':');
  if (!pseudo || fields_begun_ || pseudo_fields_++ >= kPseudoFields) ++fields_;  // The first are HTTP/1.1's start line.
  has_pseudo_ = has_pseudo_ || pseudo;
  if (bytes_ > 2 * limits.header_list_bytes || fields_ > limits.header_fields_hard) return false;
  if (kind_ == Kind::kIgnored || verdict_ != Verdict::kGood) return true;
  if (bytes_ > limits.header_list_bytes || fields_ > limits.header_fields) {
    verdict_ = Verdict::kTooLarge;
    return true;
  }
  const bool good = pseudo ? add_pseudo(pool, name, value) : add_field(pool, name, value, sensitive);
  if (!good) verdict_ = Verdict::kMalformed;
  return true;
}

bool Http2HeaderBlock::add_pseudo(ChunkPool& pool, std::string_view name, std::string_view value) {
  if (fields_begun_) return breaks("a pseudo-header field after a header field");
  if (kind_ == Kind::kResponse) {
    if (name != ":status" || head_.status != 0 || value.size() != 3) return breaks("a malformed :status");
    unsigned status = 0;
    for (const char digit : value) {
      if (digit < '0' || digit > '9') return breaks("a malformed :status");
      status = status * 10 + static_cast<unsigned>(digit - '0');
    }
    // HTTP/2 has no 101: RFC 9113 section 8.6.
    if (status < 100 || status > 599 || status == 101) return breaks("a status that HTTP/2 does not have");
    head_.status = static_cast<uint16_t>(status);
    return true;
  }
  if (kind_ != Kind::kRequest) return breaks("a pseudo-header field in trailers");
  if (name == ":method") {
    connect_ = value == "CONNECT";
    if (!http2::is_token(value)) return breaks("a malformed :method");
    return add_part(pool, Head::Part::kMethod, value);
  }
  if (name == ":scheme") {
    if (!http2::is_scheme(value)) return breaks("a malformed :scheme");
    return add_part(pool, Head::Part::kScheme, value);
  }
  if (name == ":authority") {
    if (!is_authority(value)) return breaks("a malformed :authority");
    return add_part(pool, Head::Part::kAuthority, without_empty_port(value));
  }
  if (name == ":path") {
    if (!http2::is_path(value)) return breaks("a malformed :path");
    return add_part(pool, Head::Part::kPath, value);
  }
  if (name == ":protocol") {
    if (!extended_connect_ || !http2::is_token(value)) return breaks("an unexpected or malformed :protocol");
    return add_part(pool, Head::Part::kProtocol, value);
  }
  return breaks("an unknown pseudo-header field");
}

bool Http2HeaderBlock::add_part(ChunkPool& pool, Head::Part part, std::string_view value) {
  if (has(part)) return breaks("a repeated pseudo-header field");
  parts_ = static_cast<uint8_t>(parts_ | 1u << static_cast<unsigned>(part));
  return kept(head_.set(pool, part, value));
}

bool Http2HeaderBlock::add_field(ChunkPool& pool, std::string_view name, std::string_view value, bool sensitive) {
  fields_begun_ = true;
  if (!http2::is_field_name(name)) return breaks("a malformed field name");
  if (!http2::is_field_value(value)) return breaks("a malformed field value");
  if (http2::is_connection_specific(name)) return breaks("a field of HTTP/1.1 connections");
  if (kind_ == Kind::kTrailers) {
    // Dropped rather than malformed: RFC 9110 section 6.5.1 lets a recipient drop fields that do not belong in
    // trailers.
    if (name == "content-length") return breaks("a Content-Length in trailers");
    return !may_be_in_trailers(name) || kept(head_.fields.add(pool, name, value, {.sensitive = sensitive}));
  }
  bool ordinary = true;
  switch (name.size()) {
    case 2:
      ordinary = name != "te";
      if (!ordinary && value != "trailers") return breaks("a TE other than trailers");
      break;
    case 4:
      ordinary = name != "host";
      if (!ordinary && kind_ == Kind::kRequest) return add_host(pool, value);
      break;
    case 6:
      if (name == "cookie") return add_crumb(pool, value, sensitive);
      break;
    case 8:
      if (name == "priority") priority_.parse(value);
      break;
    case 14:
      ordinary = name != "content-length";
      if (ordinary) break;
      if (!add_content_length(value)) return false;
      // An HTTP/1.1 server may misread leading zeros, for example as octal.
      value.remove_prefix(std::min(value.find_first_not_of('0'), value.size() - 1));
      break;
    default:
      break;
  }
  return kept(head_.fields.add(pool, name, value, {.sensitive = sensitive, .ordinary = ordinary}));
}

// Joins cookie crumbs, into which HTTP/2 may split one Cookie field: RFC 9113 section 8.2.3.
bool Http2HeaderBlock::add_crumb(ChunkPool& pool, std::string_view value, bool sensitive) {
  cookie_sensitive_ = cookie_sensitive_ || sensitive;
  const std::string_view glue = cookie_ ? "; " : "";
  const size_t size = cookie_.size() + glue.size() + value.size();
  if (size > kMaxChunkBytes) return kept(false);
  if (!cookie_ || cookie_.tailroom() < size - cookie_.size()) {
    Lease larger(ChunkRef::take(pool.get_metadata(size)), 0, 0);
    larger.grow_back(cookie_.size());
    if (!cookie_.empty()) std::memcpy(larger.data(), cookie_.data(), cookie_.size());
    cookie_ = std::move(larger);
  }
  for (const std::string_view piece : {glue, value}) {
    const size_t at = cookie_.size();
    cookie_.grow_back(piece.size());
    if (!piece.empty()) std::memcpy(cookie_.data() + at, piece.data(), piece.size());
  }
  return true;
}

bool Http2HeaderBlock::add_content_length(std::string_view value) {
  constexpr const char* kRule = "a malformed or repeated Content-Length";
  if (content_length_ != kNoLength || value.empty() || value.size() > 18) return breaks(kRule);  // Below 2^63.
  uint64_t length = 0;
  for (const char digit : value) {
    if (digit < '0' || digit > '9') return breaks(kRule);
    length = length * 10 + static_cast<uint64_t>(digit - '0');
  }
  content_length_ = length;
  return true;
}

bool Http2HeaderBlock::add_host(ChunkPool& pool, std::string_view value) {
  if (std::exchange(has_host_, true) || !is_authority(value)) return breaks("a malformed or repeated Host");
  value = without_empty_port(value);
  if (!has(Head::Part::kAuthority)) return add_part(pool, Head::Part::kAuthority, value);
  // Different names in :authority and Host could be read as two different requests.
  const bool same =
      std::ranges::equal(head_.authority(), value, [](char a, char b) { return http2::lower(a) == http2::lower(b); });
  return same || breaks("a Host that differs from :authority");
}

bool Http2HeaderBlock::finish_request() {
  if (!has(Head::Part::kMethod)) return breaks("no :method");
  const bool extended = has(Head::Part::kProtocol);
  if (extended && !connect_) return breaks("a :protocol without CONNECT");
  if (connect_ && !extended) {
    const std::string_view authority = head_.authority();
    const bool has_port = authority.find(':', authority.rfind(']') + 1) != std::string_view::npos;
    if (!has_port) return breaks("CONNECT without a port in :authority");
    const bool only_authority = !has(Head::Part::kScheme) && !has(Head::Part::kPath);
    return only_authority || breaks("CONNECT with :scheme or :path");
  }
  if (!has(Head::Part::kScheme)) return breaks("no :scheme");
  if (!has(Head::Part::kPath)) return breaks("no :path");
  const std::string_view scheme = head_.scheme();
  const bool web = scheme == "http" || scheme == "https";
  if ((web || extended) && !has(Head::Part::kAuthority)) return breaks("neither :authority nor Host");
  const bool has_target = !web || head_.path().starts_with('/') || (head_.path() == "*" && head_.method() == "OPTIONS");
  return has_target || breaks("a malformed :path");
}

void Http2HeaderBlock::finish(ChunkPool& pool) {
  if (verdict_ == Verdict::kGood && cookie_) {
    const std::string_view joined(reinterpret_cast<const char*>(cookie_.data()), cookie_.size());
    kept(head_.fields.add(pool, "cookie", joined, {.sensitive = cookie_sensitive_, .ordinary = true}));
  }
  cookie_ = Lease();
  if (verdict_ != Verdict::kGood) return;
  const bool complete = kind_ == Kind::kRequest ? finish_request()
                                                : kind_ != Kind::kResponse || head_.status != 0 || breaks("no :status");
  if (!complete) verdict_ = Verdict::kMalformed;
}

}  // namespace sluice
