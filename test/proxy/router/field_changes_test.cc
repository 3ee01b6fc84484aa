#include "proxy/router/field_changes.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "test/proxy/http/h2/allocations.h"

namespace sluice {
namespace {

config::FieldChange set(std::string_view name, std::string_view value) {
  return {.name = config::FieldName::parse(name).value(), .set = config::TextTemplate::parse(value).value()};
}
config::FieldChange add(std::string_view name, std::string_view value) {
  return {.name = config::FieldName::parse(name).value(), .add = config::TextTemplate::parse(value).value()};
}
config::FieldChange remove(std::string_view name) {
  return {.name = config::FieldName::parse(name).value(), .remove = true};
}

class FieldChanges : public ::testing::Test {
 protected:
  FieldChanges() {
    has("x-a", "1");
    has("x-b", "2");
    has("x-a", "3");
  }
  void has(std::string_view name, std::string_view value) { EXPECT_TRUE(fields.add(pool, name, value)); }
  std::string after(const std::vector<config::FieldChange>& changes) {
    EXPECT_TRUE(change_fields(pool, changes, [this] { return facts; }, fields));
    std::string text;
    for (const Fields::Field field : fields) absl::StrAppend(&text, field.name, ": ", field.value, "; ");
    return text;
  }
  std::string value_of(std::string_view text) {
    after({set("x-value", text)});
    return std::string(fields.value("x-value"));
  }

  ChunkPool pool{{.budget_bytes = size_t{1} << 20}};
  ChunkPool::Use use{&pool};
  Fields fields;
  RequestAttributes facts;
};

TEST_F(FieldChanges, SetReplacesAll) { EXPECT_EQ(after({set("X-A", "new")}), "x-b: 2; x-a: new; "); }
TEST_F(FieldChanges, AddKeepsThem) { EXPECT_EQ(after({add("x-a", "4")}), "x-a: 1; x-b: 2; x-a: 3; x-a: 4; "); }
TEST_F(FieldChanges, RemoveRemovesAll) { EXPECT_EQ(after({remove("x-a")}), "x-b: 2; "); }
TEST_F(FieldChanges, InOrder) {
  EXPECT_EQ(after({remove("x-a"), add("x-a", "5"), set("x-b", "6"), add("x-a", "7")}), "x-a: 5; x-b: 6; x-a: 7; ");
}

// So an unverified identity in a client's own field does not pass.
TEST_F(FieldChanges, EmptyValueRemovesTheField) {
  EXPECT_EQ(after({set("x-a", "%{peer}"), add("x-b", "%{header:x-missing}")}), "x-b: 2; ");
}

TEST_F(FieldChanges, Variables) {
  Agreement agreed;
  agreed.version = "TLSv1.3";
  agreed.server_name = "sni.example";
  agreed.peer_names = {"spiffe://a/b", "other"};
  const ClientIp none;
  facts = {.host = "a.example",
           .path = "/p",
           .query = "q=1",
           .authority = "A.example:80",
           .method = "PUT",
           .scheme = "https",
           .fields = &fields,
           .client = &none,
           .agreed = &agreed,
           .listener = "edge",
           .http2 = true};
  EXPECT_EQ(value_of("%{host} %{path} %{query} %{authority}"), "a.example /p q=1 A.example:80");
  EXPECT_EQ(value_of("%{method} %{scheme} %{protocol} %{listener}"), "PUT https HTTP/2 edge");
  EXPECT_EQ(value_of("%{peer}|%{tls_version}|%{tls_server_name}"), "spiffe://a/b|TLSv1.3|sni.example");
  EXPECT_EQ(value_of("%{header:X-B}%%"), "2%");
  EXPECT_EQ(value_of("%{client_ip}-"), "-");
  facts.http2 = false;
  EXPECT_EQ(value_of("%{protocol}"), "HTTP/1.1");
}

// A name in a certificate may be anything.
TEST_F(FieldChanges, OnlyValidCharacters) {
  Agreement agreed;
  agreed.peer_names = {std::string(" a\r\nx-evil: 1\0\x7f ", 16)};
  facts.agreed = &agreed;
  EXPECT_EQ(value_of("%{peer}"), "a??x-evil: 1??");
}

// An added field may move the fields, and the views of the attributes with them.
TEST_F(FieldChanges, AttributesAreReadAgain) {
  std::vector<config::FieldChange> changes;
  for (int i = 0; i < 200; ++i) changes.push_back(add(absl::StrCat("x-", i), "%{header:x-b} and what makes it longer"));
  const auto facts_of = [&] { return RequestAttributes{.fields = &fields}; };
  ASSERT_TRUE(change_fields(pool, changes, facts_of, fields));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(fields.value(absl::StrCat("x-", i)), "2 and what makes it longer");
}

TEST_F(FieldChanges, NoRoomIsReported) {
  const std::string longest(Fields::kMaxBytes - 100, 'x');
  has("x-long", longest);
  const auto facts_of = [&] { return RequestAttributes{.fields = &fields}; };
  EXPECT_FALSE(change_fields(pool, {add("x-again", "%{header:x-long}")}, facts_of, fields));
  EXPECT_FALSE(change_fields(pool, {add("x-again", "%{header:x-long}%{header:x-long}")}, facts_of, fields));
}

// Defect: a tab in the configuration became a question mark.
TEST_F(FieldChanges, ValueWithoutVariablesIsUnchanged) { EXPECT_EQ(value_of("a\tb \xc3\xa4"), "a\tb \xc3\xa4"); }

// Random changes of random fields, applied one after the other to a list of names and values. There are few names, so
// that many are present and repeated, and of all lengths, so that some collide before they are compared.
TEST_F(FieldChanges, AgreesWithALinearSearch) {
  std::mt19937 random(3);
  const auto name = [&] {
    return std::string("x-abcdefghijkl").substr(0, 1 + random() % 14) + (random() % 2 ? "a" : "b");
  };
  for (int round = 0; round < 2000; ++round) {
    fields.clear();
    std::vector<std::pair<std::string, std::string>> expected;
    for (size_t i = random() % 20; i > 0; --i) {
      expected.emplace_back(name(), std::to_string(i));
      has(expected.back().first, expected.back().second);
    }
    std::vector<config::FieldChange> changes;
    for (size_t i = random() % 40; i > 0; --i) {
      const std::string named = name(), value = random() % 2 ? absl::StrCat("new-", i) : "%{header:none}";
      const size_t what = random() % 3;
      changes.push_back(what == 0 ? set(named, value) : what == 1 ? add(named, value) : remove(named));
      if (what != 1) std::erase_if(expected, [&](const auto& field) { return field.first == named; });
      if (what != 2 && value.starts_with("new")) expected.emplace_back(named, value);
    }
    std::string text;
    for (const auto& [each, value] : expected) absl::StrAppend(&text, each, ": ", value, "; ");
    ASSERT_EQ(after(changes), text) << "round " << round;
  }
}

TEST_F(FieldChanges, AHundredAllocateNothing) {
  std::vector<config::FieldChange> changes = {set("x-a", "%{header:x-b}"), add("x-b", "%{header:x-a}")};
  for (int i = 0; i < 49; ++i) {
    changes.push_back(set(absl::StrCat("x-set-", i), "plain"));
    changes.push_back(remove(absl::StrCat("x-remove-", i)));
  }
  const auto facts_of = [&] { return RequestAttributes{.fields = &fields}; };
  for (const bool warm : {false, true}) {
    fields.clear();
    has("x-b", "2");
    const uint64_t before = test::allocations;
    ASSERT_TRUE(change_fields(pool, changes, facts_of, fields));
    if (warm) {
      EXPECT_EQ(test::allocations, before);
    }
  }
}

}  // namespace
}  // namespace sluice
