#include "proxy/tls/ocsp_response.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "test/proxy/tls/test_certificate.h"
#include "test/proxy/tls/test_ocsp_response.h"

namespace sluice {
namespace {

constexpr int64_t kNow = 1'700'000'000;

class OcspResponseTest : public testing::Test {
 protected:
  OcspResponseTest() : response_{.this_update_s = kNow - 100, .next_update_s = kNow + 100, .serial = 0x80a1} {
    response_.issued_like = certificate_.x509.get();
  }
  std::string error_of(const std::string& der) const {
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(der.data()), der.size());
    return std::string(check_ocsp_response(bytes, certificate_.x509.get(), kNow).message());
  }
  std::string error() const { return error_of(response_.der()); }

  test::TestCertificate certificate_{{}};
  test::TestOcspResponse response_;
};

TEST_F(OcspResponseTest, IsUsable) {
  EXPECT_EQ(error(), "");
  response_.next_update_s.reset();  // Newer information is available all the time.
  EXPECT_EQ(error(), "");
  response_.others_before = 2;
  EXPECT_EQ(error(), "");
  response_.this_update_s = kNow + 200;  // Clocks differ.
  EXPECT_EQ(error(), "");
}

TEST_F(OcspResponseTest, HasExpired) {
  response_.next_update_s = kNow;
  EXPECT_EQ(error(), "the OCSP response expired on 2023-11-14 22:13:20 UTC");
}

TEST_F(OcspResponseTest, IsNotYetValid) {
  response_.this_update_s = kNow + 3600;
  EXPECT_EQ(error(), "the OCSP response is not valid before 2023-11-14 23:13:20 UTC");
}

TEST_F(OcspResponseTest, IsForAnotherCertificate) {
  response_.serial = 0xa1;
  EXPECT_EQ(error(), "the OCSP response is for another certificate");
  response_.serial = 0x80a1;
  response_.issuer_differs = true;
  EXPECT_EQ(error(), "the OCSP response is for another certificate");
}

TEST_F(OcspResponseTest, ResponderFailed) {
  response_.response_status = 3;  // tryLater
  EXPECT_EQ(error(), "the OCSP responder reported an error (responseStatus 3)");
}

TEST_F(OcspResponseTest, IsMalformed) {
  const std::string good = response_.der();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(error_of(good.substr(0, size)), "expected an OCSP response in DER") << size;
  }
  EXPECT_EQ(error_of(good + "x"), "expected an OCSP response in DER");
  EXPECT_EQ(error_of("-----BEGIN OCSP RESPONSE-----"), "expected an OCSP response in DER");
}

}  // namespace
}  // namespace sluice
