// Fields that services of Envoy's protocols want to be set.
#include "proxy/http/message/header_option.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "sluice/chunk_pool.h"
#include "test/support/proto.h"

namespace sluice {
namespace {

using namespace std::string_literals;  // NOLINT(google-build-using-namespace)
using test::proto_bytes;
using test::proto_number;
using test::proto_pair;
using Action = HeaderOption::Action;

TEST(HeaderOptionTest, Values) {
  const std::string message = proto_bytes(1, "X-A") + proto_bytes(2, " v ") + proto_number(9, 1);
  const auto header = read_header_value(message);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->name, "X-A");
  EXPECT_EQ(header->value, "v");
  EXPECT_EQ(read_header_value(proto_bytes(1, "a") + proto_bytes(3, "raw"))->value, "raw");
  EXPECT_FALSE(read_header_value("\x0a\x05x"));
}

TEST(HeaderOptionTest, Options) {
  const std::string header = proto_pair(1, "a", "b");
  const auto plain = read_header_option(header);
  EXPECT_EQ(plain->name, "a");
  EXPECT_EQ(plain->value, "b");
  EXPECT_EQ(plain->action, Action::kAppend);
  EXPECT_FALSE(plain->append.has_value());
  EXPECT_EQ(read_header_option(header + proto_bytes(2, proto_number(1, 1)))->append, true);
  EXPECT_EQ(read_header_option(header + proto_bytes(2, ""))->append, false);
  EXPECT_EQ(read_header_option(header + proto_number(3, 2))->action, Action::kSet);
  EXPECT_FALSE(read_header_option(header + proto_number(3, 4)));
  EXPECT_FALSE(read_header_option(header + "\x12\x01\x80"s));
  EXPECT_FALSE(read_header_option(proto_bytes(1, "\xff")));
}

TEST(HeaderOptionTest, WhatMayBeSet) {
  EXPECT_TRUE(is_settable({.name = "X-User", .value = "ann"}));
  EXPECT_TRUE(is_settable({.name = "authorization", .value = ""}));
  for (const char* const name : {"", ":path", "a b", "host", "Host", "content-length", "Transfer-Encoding", "te",
                                 "connection", "upgrade", "expect", "trailer", "sec-websocket-key", "a\r\nb"}) {
    EXPECT_FALSE(is_settable({.name = name, .value = "x"})) << name;
  }
  EXPECT_FALSE(is_settable({.name = std::string(257, 'a'), .value = "x"}));
  for (const std::string& value : {"a\r\nb: c"s, "a\nb"s, "a\0b"s}) {
    EXPECT_FALSE(is_settable({.name = "a", .value = value}));
  }
}

class SetFieldTest : public testing::Test {
 protected:
  SetFieldTest() { EXPECT_TRUE(fields_.add(pool_, "a", "1") && fields_.add(pool_, "a", "2")); }
  std::string set(std::string_view name, Action action) {
    EXPECT_TRUE(set_field(pool_, {.name = name, .value = "new"}, action, fields_));
    return text();
  }
  std::string text() {
    std::string text;
    for (const Fields::Field field : fields_) text.append(field.name).append("=").append(field.value).append(" ");
    return text;
  }

  ChunkPool pool_{{.budget_bytes = size_t{1} << 20}};
  const ChunkPool::Use use_{&pool_};
  Fields fields_;
};

TEST_F(SetFieldTest, Append) { EXPECT_EQ(set("A", Action::kAppend), "a=1 a=2 a=new "); }
TEST_F(SetFieldTest, AddIfAbsent) {
  EXPECT_EQ(set("A", Action::kAddIfAbsent), "a=1 a=2 ");
  EXPECT_EQ(set("B", Action::kAddIfAbsent), "a=1 a=2 b=new ");
}
TEST_F(SetFieldTest, Set) {
  EXPECT_EQ(set("A", Action::kSet), "a=new ");
  EXPECT_EQ(set("B", Action::kSet), "a=new b=new ");
}
TEST_F(SetFieldTest, SetIfPresent) {
  EXPECT_EQ(set("B", Action::kSetIfPresent), "a=1 a=2 ");
  EXPECT_EQ(set("A", Action::kSetIfPresent), "a=new ");
}
TEST_F(SetFieldTest, Remove) {
  ASSERT_TRUE(fields_.add(pool_, "te", "trailers"));
  remove_field("TE", fields_);
  remove_field(":path", fields_);
  remove_field("A", fields_);
  EXPECT_EQ(text(), "te=trailers ");
}

}  // namespace
}  // namespace sluice
