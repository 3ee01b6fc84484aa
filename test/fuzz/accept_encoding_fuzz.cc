// Any bytes as an Accept-Encoding: weights are within their range, the chosen coding was offered and is accepted, and
// several fields are equal to one list.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/compression/accept_encoding.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

constexpr std::array kOffered = {ContentCoding::kBrotli, ContentCoding::kGzip, ContentCoding::kZstd};
constexpr std::array kAll = {ContentCoding::kIdentity, ContentCoding::kGzip, ContentCoding::kBrotli,
                             ContentCoding::kZstd};

void check(std::string_view value) {
  AcceptEncoding whole;
  const bool readable = whole.read(value);
  for (const ContentCoding coding : kAll) SLUICE_CHECK(whole.weight(coding) <= 1000);
  const ContentCoding chosen = whole.choose(kOffered);
  const uint16_t weight = whole.weight(chosen);
  if (chosen != ContentCoding::kIdentity) {
    SLUICE_CHECK(weight > 0);
    for (const ContentCoding coding : kOffered) SLUICE_CHECK(whole.weight(coding) <= weight);
  }
  SLUICE_CHECK(whole.choose({}) == ContentCoding::kIdentity);

  const size_t comma = value.find(',');
  if (comma == std::string_view::npos) return;
  AcceptEncoding parts;
  SLUICE_CHECK((parts.read(value.substr(0, comma)) && parts.read(value.substr(comma + 1))) == readable);
  for (const ContentCoding coding : kAll) SLUICE_CHECK(parts.weight(coding) == whole.weight(coding));
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
