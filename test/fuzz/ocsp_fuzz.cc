// Any bytes as an OCSP response: parsing stays within bounds, has the same result each time, and fails for truncated
// responses.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proxy/tls/ocsp_response.h"
#include "sluice/internal/check.h"
#include "test/proxy/tls/test_certificate.h"

namespace {

constexpr int64_t kNow = 1'700'000'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sluice::test::TestCertificate certificate({});
  const auto check = [](std::span<const uint8_t> der) {
    return sluice::check_ocsp_response(der, certificate.x509.get(), kNow);
  };
  const std::vector<uint8_t> whole(data, data + size);  // A copy, so that a sanitizer detects reads past its end.
  const absl::Status status = check(whole);
  SLUICE_CHECK(status == check(whole));
  if (!status.ok() || size == 0) return 0;
  const std::vector<uint8_t> cut(data, data + size - 1);
  SLUICE_CHECK(!check(cut).ok());
  return 0;
}
