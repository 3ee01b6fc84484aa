#include "alts_like/peer_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/asn1.h>
#include <openssl/x509.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

bssl::UniquePtr<ASN1_STRING> string_of(int type, std::string_view text) {
  bssl::UniquePtr<ASN1_STRING> string(ASN1_STRING_type_new(type));
  EXPECT_EQ(ASN1_STRING_set(string.get(), text.data(), static_cast<ossl_ssize_t>(text.size())), 1);
  return string;
}

/// A certificate with names.
class Named {
 public:
  Named& common(std::string_view name) {
    X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate_.get()), NID_commonName, V_ASN1_UTF8STRING,
                               reinterpret_cast<const uint8_t*>(name.data()), static_cast<ossl_ssize_t>(name.size()),
                               -1, 0);
    return *this;
  }
  Named& alternatives(std::initializer_list<std::pair<int, std::string_view>> names) {
    const bssl::UniquePtr<GENERAL_NAMES> all(GENERAL_NAMES_new());
    for (const auto& [kind, text] : names) {
      bssl::UniquePtr<GENERAL_NAME> name(GENERAL_NAME_new());
      const int type = kind == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING;
      GENERAL_NAME_set0_value(name.get(), kind, string_of(type, text).release());
      EXPECT_TRUE(bssl::PushToStack(all.get(), std::move(name)));
    }
    EXPECT_EQ(X509_add1_ext_i2d(certificate_.get(), NID_subject_alt_name, all.get(), 0, 0), 1);
    return *this;
  }
  Named& broken_alternatives() {
    const bssl::UniquePtr<ASN1_STRING> junk = string_of(V_ASN1_OCTET_STRING, "junk");
    const bssl::UniquePtr<X509_EXTENSION> extension(
        X509_EXTENSION_create_by_NID(nullptr, NID_subject_alt_name, 0, junk.get()));
    EXPECT_EQ(X509_add_ext(certificate_.get(), extension.get(), -1), 1);
    return *this;
  }
  const X509* get() const { return certificate_.get(); }

 private:
  bssl::UniquePtr<X509> certificate_{X509_new()};
};

TEST(PeerCertificateTest, EachKindOfName) {
  EXPECT_THAT(names_of(Named().alternatives({{GEN_URI, "spiffe://a/b"}}).get()), ElementsAre("spiffe://a/b"));
  EXPECT_THAT(names_of(Named().alternatives({{GEN_DNS, "a.example"}}).get()), ElementsAre("a.example"));
  EXPECT_THAT(names_of(Named().alternatives({{GEN_EMAIL, "a@b.example"}}).get()), ElementsAre("a@b.example"));
  EXPECT_THAT(names_of(Named().get()), IsEmpty());
}

TEST(PeerCertificateTest, UrisComeFirst) {
  Named named;
  named.alternatives({{GEN_EMAIL, "m"}, {GEN_DNS, "d1"}, {GEN_URI, "u1"}, {GEN_DNS, "d2"}, {GEN_URI, "u2"}});
  EXPECT_THAT(names_of(named.get()), ElementsAre("u1", "u2", "d1", "d2", "m"));
  EXPECT_THAT(dns_names_of(named.get()), ElementsAre("d1", "d2"));
}

// Defect: the common name was accepted in every certificate, so that a certificate for a.example could have any
// identity in its common name.
TEST(PeerCertificateTest, CommonNameCountsIfThereIsNoOther) {
  EXPECT_THAT(names_of(Named().common("admin").get()), ElementsAre("admin"));
  EXPECT_THAT(names_of(Named().common("admin").alternatives({{GEN_DNS, "a.example"}}).get()), ElementsAre("a.example"));
  // Even if none of the others is of a known kind, or none can be read.
  EXPECT_THAT(names_of(Named().common("admin").alternatives({{GEN_IPADD, "\x7f\0\0\1"}}).get()), IsEmpty());
  EXPECT_THAT(names_of(Named().common("admin").alternatives({}).get()), IsEmpty());
  EXPECT_THAT(names_of(Named().common("admin").broken_alternatives().get()), IsEmpty());
  EXPECT_THAT(dns_names_of(Named().common("admin").get()), IsEmpty());
}

TEST(PeerCertificateTest, CommonNameAlone) {
  EXPECT_EQ(common_name_of(Named().get()), "");
  EXPECT_EQ(common_name_of(Named().common("admin").alternatives({{GEN_DNS, "a.example"}}).get()), "admin");
  EXPECT_EQ(common_name_of(Named().common("first").common("second").get()), "first");
  EXPECT_EQ(common_name_of(Named().common("Z\xc3\xbcrich").get()), "Z\xc3\xbcrich");
}

// A name with a zero byte is not the name before the zero byte.
TEST(PeerCertificateTest, NamesIncludeZeroBytes) {
  using std::string_view_literals::operator""sv;
  const Named named = std::move(Named().alternatives({{GEN_DNS, "a.example\0.evil.example"sv}, {GEN_URI, "u\r\n"}}));
  EXPECT_THAT(names_of(named.get()), ElementsAre("u\r\n", std::string("a.example\0.evil.example"sv)));
}

}  // namespace
}  // namespace sluice
