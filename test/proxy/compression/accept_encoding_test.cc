#include "proxy/compression/accept_encoding.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace sluice {
namespace {

constexpr ContentCoding kIdentity = ContentCoding::kIdentity, kGzip = ContentCoding::kGzip,
                        kBrotli = ContentCoding::kBrotli, kZstd = ContentCoding::kZstd;

ContentCoding chosen(std::string_view value, const std::vector<ContentCoding>& offered = {kZstd, kBrotli, kGzip}) {
  AcceptEncoding accepted;
  EXPECT_TRUE(accepted.read(value)) << value;
  return accepted.choose(offered);
}

TEST(AcceptEncoding, ChoosesTheHighestWeight) {
  EXPECT_EQ(chosen("gzip"), kGzip);
  EXPECT_EQ(chosen("x-gzip"), kGzip);
  EXPECT_EQ(chosen("GZip, BR"), kBrotli);
  EXPECT_EQ(chosen("gzip, deflate, br, zstd"), kZstd);
  EXPECT_EQ(chosen("gzip, deflate, br, zstd", {kGzip, kZstd}), kGzip);
  EXPECT_EQ(chosen("gzip;q=0.5, br;q=0.501, zstd;q=0.4"), kBrotli);
  EXPECT_EQ(chosen("gzip ; q=1.000 ,br;\tq=0.9"), kGzip);
  EXPECT_EQ(chosen("gzip;Q=1,br"), kBrotli);
}

TEST(AcceptEncoding, ChoosesOnlyAcceptedCodings) {
  EXPECT_EQ(chosen(""), kIdentity);
  EXPECT_EQ(chosen(","), kIdentity);
  EXPECT_EQ(chosen("identity"), kIdentity);
  EXPECT_EQ(chosen("deflate, compress"), kIdentity);
  EXPECT_EQ(chosen("gzip;q=0"), kIdentity);
  EXPECT_EQ(chosen("gzip;q=0.000, br;q=0"), kIdentity);
  EXPECT_EQ(chosen("br", {kGzip}), kIdentity);
  EXPECT_EQ(chosen("br", {}), kIdentity);
}

TEST(AcceptEncoding, StarIsForOtherCodings) {
  EXPECT_EQ(chosen("*"), kZstd);
  EXPECT_EQ(chosen("zstd;q=0, *"), kBrotli);
  EXPECT_EQ(chosen("gzip, *;q=0.5"), kGzip);
  EXPECT_EQ(chosen("gzip, *;q=0"), kGzip);
  EXPECT_EQ(chosen("*;q=0"), kIdentity);
}

TEST(AcceptEncoding, IdentityMayBePreferred) {
  EXPECT_EQ(chosen("identity, gzip;q=0.5"), kIdentity);
  EXPECT_EQ(chosen("identity;q=0.5, gzip"), kGzip);
  EXPECT_EQ(chosen("identity, gzip"), kGzip);
  EXPECT_EQ(chosen("identity;q=0, gzip;q=0.1"), kGzip);
}

TEST(AcceptEncoding, FieldsAreOneList) {
  AcceptEncoding accepted;
  EXPECT_TRUE(accepted.read("gzip;q=0.1"));
  EXPECT_TRUE(accepted.read("br;q=0.2"));
  EXPECT_EQ(accepted.weight(kGzip), 100);
  EXPECT_EQ(accepted.weight(kBrotli), 200);
  EXPECT_EQ(accepted.weight(kZstd), 0);
  EXPECT_EQ(accepted.weight(kIdentity), 1);
}

TEST(AcceptEncoding, RefusesMalformedValues) {
  for (const std::string_view value :
       {"gzip;",     "gzip;q",     "gzip;q=",      "gzip;q=2",     "gzip;q=1.001", "gzip;q=0.1234", "gzip;q=.5",
        "gzip;q=-1", "gzip;q=1 0", "gzip;level=9", "gzip;q=1;q=1", "gz ip",        "gzip br",       ";q=1",
        "\"gzip\"",  "gzip;q =1",  "gzip;q= 1",    "gzip;q=00",    "gzip;q=10",    "gzip;q=1.",     "gzip;q=0.x"}) {
    AcceptEncoding accepted;
    const bool taken = accepted.read(value);
    // In RFC 9110 section 12.4.2 the digits after the point are optional.
    EXPECT_EQ(taken, value == "gzip;q=1.") << value;
  }
}

}  // namespace
}  // namespace sluice
