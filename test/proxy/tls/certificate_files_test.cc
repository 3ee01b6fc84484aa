#include "proxy/tls/certificate_files.h"

#include <gtest/gtest.h>
#include <time.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "test/proxy/tls/test_certificate.h"
#include "test/proxy/tls/test_ocsp_response.h"

namespace sluice {
namespace {

class CertificateFilesTest : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  test::TestCertificate authority_{{.subject = "authority", .is_authority = true}};
  test::TestCertificate leaf_{{}, &authority_};
};

TEST_F(CertificateFilesTest, ChainMayHaveTextAroundIt) {
  const auto read = read_certificate(leaf_.files(folder_, "leaf", "text\n" + authority_.pem() + "the end\n"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->warnings.empty());
}

// Defect: broken data after the first certificate was taken for the file's end: clients got no chain.
TEST_F(CertificateFilesTest, BrokenIntermediateIsAnError) {
  const std::string good = authority_.pem();
  std::string not_base64 = good, not_der = good;
  not_base64[100] = '!';
  not_der.replace(not_der.find('\n') + 1, 4, "AAAA");
  for (const std::string& broken : {not_base64, not_der, good.substr(0, good.size() / 2)}) {
    const auto files = leaf_.files(folder_, "leaf", broken);
    const auto read = read_certificate(files);
    ASSERT_FALSE(read.ok()) << broken;
    EXPECT_TRUE(read.status().message().starts_with(
        absl::StrCat(files.chain, ": expected certificates in PEM; number 2 is malformed (")))
        << read.status();
  }
}

TEST_F(CertificateFilesTest, WarnsOutsideTheValidity) {
  const test::TestCertificate expired({.from_s = -7200, .until_s = -3600}), early({.from_s = 3600, .until_s = 7200});
  const auto files = expired.files(folder_, "expired", early.pem());
  const auto read = read_certificate(files);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->warnings.size(), 2u);
  EXPECT_TRUE(read->warnings[0].text.starts_with(files.chain + ": certificate 1 expired on "));
  EXPECT_TRUE(read->warnings[1].text.starts_with(files.chain + ": certificate 2 is not valid before "));
  EXPECT_FALSE(read->warnings[0].fails_check || read->warnings[1].fails_check);
}

// Defect: any content of the file was stapled, and clients that check it disconnected.
TEST_F(CertificateFilesTest, WarnsOfUnusableStaples) {
  config::TlsCertificate files = leaf_.files(folder_, "leaf");
  test::TestOcspResponse response{
      .this_update_s = time(nullptr) - 100, .next_update_s = time(nullptr) + 1000, .serial = 0x80a1};
  response.issued_like = leaf_.x509.get();
  files.ocsp = folder_.write("ocsp", response.der());
  auto read = read_certificate(files);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->warnings.empty());

  response.next_update_s = time(nullptr) - 1;
  for (const std::string& content : {response.der(), std::string("text"), std::string()}) {
    folder_.write("ocsp", content);
    read = read_certificate(files);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->warnings.size(), 1u);
    EXPECT_TRUE(read->warnings[0].fails_check);
    EXPECT_TRUE(read->warnings[0].text.starts_with(files.ocsp + ": "));
    EXPECT_TRUE(read->warnings[0].text.ends_with("; nothing is stapled"));
  }
}

}  // namespace
}  // namespace sluice
