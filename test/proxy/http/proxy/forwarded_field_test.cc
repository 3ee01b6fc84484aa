#include "proxy/http/proxy/forwarded_field.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "proxy/http/proxy/client_address.h"
#include "sluice/chunk_pool.h"

namespace sluice {
namespace {

TEST(IsForwarded, RfcExamples) {
  for (const std::string_view value :
       {"for=\"_gazonk\"", "For=\"[2001:db8:cafe::17]:4711\"", "for=192.0.2.60;proto=http;by=203.0.113.43",
        "for=192.0.2.43, for=198.51.100.17", "for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown",
        "for=_hidden, for=_SEVKISEK", "for=\"a\\\"b,c;d\" , for=x"}) {
    EXPECT_TRUE(is_forwarded(value)) << value;
  }
}

TEST(IsForwarded, Malformed) {
  for (const std::string_view value : {"",
                                       " ",
                                       ",",
                                       ";",
                                       "for",
                                       "for=",
                                       "=x",
                                       "for=a;",
                                       "for=a,",
                                       ",for=a",
                                       "for=a b",
                                       "for = a",
                                       "for=\"a",
                                       "for=\"a\\",
                                       "for=\"a\\\"",
                                       "for=\"a\"b",
                                       "for=[::1]",
                                       "for=1.2.3.4:80",
                                       "for=a;;by=b",
                                       "for=a;by",
                                       "for=a, by"}) {
    EXPECT_FALSE(is_forwarded(value)) << value;
  }
}

class ForwardedTest : public testing::Test {
 protected:
  ForwardedTest() : use_(&pool_) {}

  std::string after(const std::vector<std::string_view>& values, std::string_view client = "203.0.113.7",
                    std::string_view authority = "a.example") {
    Head head;
    for (const std::string_view value : values) EXPECT_TRUE(head.fields.add(pool_, "forwarded", value));
    const ClientIp ip = parse_forwarded_address(client).value_or(ClientIp());
    EXPECT_TRUE(add_forwarded_element(pool_, mode_, {ip, "https", authority, "edge"}, malformed_, head));
    std::string all;
    for (const Fields::Field field : head.fields) all += (all.empty() ? "" : " | ") + std::string(field.value);
    EXPECT_TRUE(mode_ == config::ForwardedFor::kOff || is_forwarded(all)) << all;
    return all;
  }

  ChunkPool pool_{{.budget_bytes = size_t{4} << 20}};
  ChunkPool::Use use_;
  config::ForwardedFor mode_ = config::ForwardedFor::kAppend;
  Counter malformed_;
};

TEST_F(ForwardedTest, Element) {
  EXPECT_EQ(after({}), "for=203.0.113.7;proto=https;host=a.example;by=_edge");
  EXPECT_EQ(after({}, "2001:db8::7"), "for=\"[2001:db8::7]\";proto=https;host=a.example;by=_edge");
  EXPECT_EQ(after({}, ""), "for=unknown;proto=https;host=a.example;by=_edge");
  EXPECT_EQ(after({}, "1.2.3.4", "[::1]:80"), "for=1.2.3.4;proto=https;host=\"[::1]:80\";by=_edge");
  EXPECT_EQ(after({}, "1.2.3.4", "a\"b\\"), "for=1.2.3.4;proto=https;host=\"a\\\"b\\\\\";by=_edge");
  EXPECT_EQ(after({}, "1.2.3.4", ""), "for=1.2.3.4;proto=https;by=_edge");
}

TEST_F(ForwardedTest, Modes) {
  const std::string own = "for=203.0.113.7;proto=https;host=a.example;by=_edge";
  EXPECT_EQ(after({"for=1.1.1.1", "for=2.2.2.2;by=_a"}), "for=1.1.1.1, for=2.2.2.2;by=_a, " + own);
  mode_ = config::ForwardedFor::kReplace;
  EXPECT_EQ(after({"for=1.1.1.1", "for=\""}), own);
  EXPECT_EQ(malformed_.value(), 0u);
  mode_ = config::ForwardedFor::kOff;
  EXPECT_EQ(after({"for=\"", "x"}), "for=\" | x");
}

// Otherwise the added element would end a quoted string that the client began.
TEST_F(ForwardedTest, NothingIsAddedToAnUnterminatedString) {
  EXPECT_EQ(after({"for=1.1.1.1", "for=\"6.6.6.6", "for=2.2.2.2"}),
            "for=1.1.1.1, for=2.2.2.2, for=203.0.113.7;proto=https;host=a.example;by=_edge");
  EXPECT_EQ(malformed_.value(), 1u);
}

}  // namespace
}  // namespace sluice
