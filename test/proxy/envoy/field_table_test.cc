// docs/reference/xds.md must agree with the tables. After a change of one, write the new document with
// SLUICE_UPDATE_DOCS=1 in the environment of this test.
#include "proxy/envoy/field_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace sluice::envoy {
namespace {

const std::filesystem::path kReference = SLUICE_SOURCE_DIR "/docs/reference/xds.md";
constexpr std::string_view kBeginOfFields = "<!-- fields: begin -->\n";
constexpr std::string_view kEndOfFields = "<!-- fields: end -->\n";

TEST(FieldTable, DocumentIsCurrent) {
  std::ifstream in(kReference);
  ASSERT_TRUE(in.is_open()) << kReference;
  std::string document{std::istreambuf_iterator<char>(in), {}};
  const size_t begin = document.find(kBeginOfFields), end = document.find(kEndOfFields);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t table = begin + kBeginOfFields.size();
  const std::string expected = field_reference_markdown() + "\n";
  if (std::getenv("SLUICE_UPDATE_DOCS") != nullptr) {
    std::ofstream(kReference) << document.replace(table, end - table, expected);
    return;
  }
  EXPECT_EQ(document.substr(table, end - table), expected) << "run this test with SLUICE_UPDATE_DOCS=1";
}

TEST(FieldTable, IsConsistent) {
  std::set<std::string_view> types;
  for (const auto messages :
       {listener_messages(), filter_messages(), route_messages(), cluster_messages(), common_messages()}) {
    for (const MessageRule& message : messages) {
      EXPECT_EQ(find_message_rule(message.name), &message) << message.name << " is there twice";
      std::set<std::string_view> names;
      for (const FieldRule& field : message.fields) {
        EXPECT_TRUE(names.insert(field.name).second) << message.name << "." << field.name;
        EXPECT_EQ(field.note.find('|'), std::string_view::npos) << message.name << "." << field.name;
        if (!field.type.empty()) types.insert(field.type);
      }
    }
  }
  for (const std::string_view type : types) EXPECT_NE(find_message_rule(type), nullptr) << type;
}

}  // namespace
}  // namespace sluice::envoy
