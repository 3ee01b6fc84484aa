#include "proxy/compression/compression_policy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/ascii.h"
#include "proxy/common/token.h"
#include "proxy/compression/accept_encoding.h"
#include "proxy/compression/media_type.h"

namespace sluice {

namespace {

constexpr std::string_view kDefaultTypes[] = {
    "text/*",          "application/json",  "application/*+json", "application/javascript",
    "application/xml", "application/*+xml", "image/svg+xml",      "application/wasm",
};
constexpr ContentCoding kDefaultCodings[] = {ContentCoding::kZstd, ContentCoding::kBrotli, ContentCoding::kGzip};

// Fields that describe the original bytes.
constexpr std::string_view kFieldsOfBytes[] = {"content-length", "accept-ranges", "content-md5",
                                               "digest",         "repr-digest",   "content-digest"};

constexpr size_t kMaxEntityTagBytes = 512;

ContentCoding coding_of(config::Coding coding) {
  switch (coding) {
    case config::Coding::kGzip:
      return ContentCoding::kGzip;
    case config::Coding::kBrotli:
      return ContentCoding::kBrotli;
    case config::Coding::kZstd:
      break;
  }
  return ContentCoding::kZstd;
}

// Calls `visit(value)` for each field of a name until it returns false. Returns whether it never did.
template <typename Visit>
bool each_value(const Fields& fields, std::string_view name, Visit visit) {
  for (size_t i = fields.find(name); i != Fields::npos; i = fields.find(name, i + 1)) {
    if (!visit(fields[i].value)) return false;
  }
  return true;
}

bool lists(const Fields& fields, std::string_view name, std::string_view member) {
  return !each_value(fields, name, [&](std::string_view value) { return !http1::has_member(value, member); });
}

// 206 is partial; the others have no body.
bool may_be_encoded(uint16_t status) {
  return status >= 200 && status != 204 && status != 205 && status != 206 && status != 304;
}

// RFC 9110 section 8.8.3.
bool is_opaque_tag(std::string_view text) {
  return text.size() >= 2 && text.starts_with('"') && text.find('"', 1) == text.size() - 1 &&
         text.find(' ') == std::string_view::npos;
}

// A response that differs in its bytes but not in its meaning has a weak tag (RFC 9110 section 8.8.1).
bool weaken_entity_tag(ChunkPool& pool, Fields& fields) {
  const std::string_view tag = fields.value("etag");
  if (tag.empty() || (tag.starts_with("W/") && is_opaque_tag(tag.substr(2)))) return true;
  if (!is_opaque_tag(tag)) {  // Malformed, so it is unknown what it identifies.
    fields.remove("etag");
    return true;
  }
  std::array<char, kMaxEntityTagBytes> weak = {'W', '/'};
  const size_t bytes = tag.size() + 2;
  if (bytes <= weak.size()) std::memcpy(weak.data() + 2, tag.data(), tag.size());
  fields.remove("etag");
  return bytes > weak.size() || fields.add(pool, "etag", {weak.data(), bytes});
}

}  // namespace

CompressionPolicy::CompressionPolicy(const config::Compression& config)
    : min_bytes_(config.min_size.bytes), level_(config.level), max_streams_(config.max_streams) {
  for (const config::Coding coding : config.codings) codings_.push_back(coding_of(coding));
  if (codings_.empty()) codings_.assign(std::begin(kDefaultCodings), std::end(kDefaultCodings));
  for (const std::string& type : config.types) types_.push_back(absl::AsciiStrToLower(type));
  if (types_.empty()) types_.assign(std::begin(kDefaultTypes), std::end(kDefaultTypes));
}

ContentCoding CompressionPolicy::choose(const Fields& request) const {
  AcceptEncoding accepted;
  const bool readable =
      each_value(request, "accept-encoding", [&](std::string_view value) { return accepted.read(value); });
  if (!readable || lists(request, "cache-control", "no-transform")) return ContentCoding::kIdentity;
  return accepted.choose(codings_);
}

bool CompressionPolicy::takes(const Head& response) const {
  const Fields& fields = response.fields;
  if (!may_be_encoded(response.status) || fields.find("content-encoding") != Fields::npos ||
      fields.find("content-range") != Fields::npos || lists(fields, "cache-control", "no-transform")) {
    return false;
  }
  uint64_t bytes = 0;
  if (http1::read_length(fields.value("content-length"), bytes) && bytes < min_bytes_) return false;
  const std::string_view type = fields.value("content-type");
  return std::any_of(types_.begin(), types_.end(),
                     [type](const std::string& pattern) { return fits_media_type(pattern, type); });
}

bool add_vary(ChunkPool& pool, Head& response) {
  return lists(response.fields, "vary", "*") || lists(response.fields, "vary", "accept-encoding") ||
         response.fields.add(pool, "vary", "accept-encoding");
}

bool mark_encoded(ChunkPool& pool, ContentCoding coding, Head& response) {
  for (const std::string_view name : kFieldsOfBytes) response.fields.remove(name);
  return weaken_entity_tag(pool, response.fields) &&
         response.fields.add(pool, "content-encoding", content_coding_name(coding));
}

}  // namespace sluice
