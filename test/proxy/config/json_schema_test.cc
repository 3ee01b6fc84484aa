// docs/sluice.schema.json must agree with the code. After a change of schema.h or of a default, rewrite it with
// SLUICE_UPDATE_DOCS=1 in the environment of this test. What it accepts and refuses is tested by
// test/e2e/schema_test.py.
#include "proxy/config/load/json_schema.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proxy/config/load/reference.h"

namespace sluice::config {
namespace {

const std::filesystem::path kDocument = SLUICE_SOURCE_DIR "/docs/reference/sluice.schema.json";

// Of the alternatives for a value, the one of this type.
YAML::Node of_type(const YAML::Node& schema, std::string_view type) {
  if (!schema["anyOf"]) return schema;
  for (const YAML::Node& way : schema["anyOf"]) {
    if (way["type"].as<std::string>("") == type) return way;
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

// The schema of a key, by its path in the reference.
YAML::Node schema_at(const YAML::Node& root, std::string_view path) {
  YAML::Node at = root;
  for (std::string_view key : absl::StrSplit(path, '.')) {
    at.reset(of_type(at, "object"));
    const bool list = absl::ConsumeSuffix(&key, "[]");
    if (!at || !at["properties"]) return YAML::Node(YAML::NodeType::Undefined);
    at.reset(at["properties"][std::string(key)]);
    if (list) at.reset(of_type(at, "array")["items"]);
  }
  return at;
}

// JSON is YAML.
class JsonSchema : public testing::Test {
 protected:
  YAML::Node at(std::string_view path) const { return schema_at(root_, path); }
  std::string text(std::string_view path, const char* of) const { return at(path)[of].as<std::string>("-"); }

  const YAML::Node root_ = YAML::Load(json_schema());
};

TEST_F(JsonSchema, DocumentIsCurrent) {
  if (std::getenv("SLUICE_UPDATE_DOCS") != nullptr) {
    std::ofstream(kDocument) << json_schema();
    return;
  }
  std::ifstream in(kDocument);
  EXPECT_TRUE(in.is_open()) << kDocument;
  const std::string document(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(document, json_schema()) << "run this test with SLUICE_UPDATE_DOCS=1";
}

TEST_F(JsonSchema, HasEachKeyOfTheReference) {
  for (const KeyInfo& key : list_keys()) {
    const YAML::Node schema = at(key.path);
    ASSERT_TRUE(schema) << key.path;
    EXPECT_EQ(schema["description"].as<std::string>().rfind(key.help, 0), 0U) << key.path;
  }
}

TEST_F(JsonSchema, HasTypesBoundsAndDefaults) {
  const YAML::Node backlog = of_type(at("listeners[].backlog"), "integer");
  EXPECT_EQ(backlog["minimum"].as<std::string>(), "1");
  EXPECT_EQ(backlog["maximum"].as<std::string>(), "65535");
  EXPECT_EQ(text("listeners[].nodelay", "default"), "true");
  EXPECT_EQ(text("shutdown_timeout", "default"), "30s");
  EXPECT_EQ(text("workers", "default"), "auto");
  EXPECT_EQ(text("listeners[].name", "default"), "-");
  EXPECT_EQ(text("listeners", "minItems"), "1");
  EXPECT_EQ(text("upstreams[].balance", "default"), "round_robin");
  EXPECT_EQ(at("upstreams[].balance")["anyOf"][0]["enum"][0].as<std::string>(), "round_robin");
  EXPECT_NE(text("listeners[].keepalive.idle", "description").find(" From 0 to 32767s."), std::string::npos);
  EXPECT_NE(text("listeners[].tcp.buffer_low", "description").find(" Default: half of `buffer_high`."),
            std::string::npos);
}

TEST_F(JsonSchema, AcceptsVariablesInsteadOfNumbersAndWords) {
  const std::string variable = "#/definitions/variable";
  for (const char* path : {"workers", "shutdown_timeout", "listeners[].backlog", "listeners[].nodelay",
                           "listeners[].tcp.buffer_low", "upstreams[].balance"}) {
    EXPECT_EQ(at(path)["anyOf"][1]["$ref"].as<std::string>("-"), variable) << path;
  }
  EXPECT_FALSE(at("listeners[].name")["anyOf"]) << "any text will do";
  EXPECT_EQ(root_["definitions"]["variable"]["pattern"].as<std::string>(), "[$][{]");
}

TEST_F(JsonSchema, HasRequiredKeys) {
  std::vector<std::string> required;
  for (const YAML::Node& key : root_["properties"]["listeners"]["items"]["required"]) {
    required.push_back(key.as<std::string>());
  }
  EXPECT_EQ(required, (std::vector<std::string>{"name", "address"}));
  const YAML::Node choice = root_["properties"]["listeners"]["items"]["allOf"][0]["anyOf"];
  EXPECT_EQ(choice[0]["required"][0].as<std::string>(), "tcp");
  EXPECT_EQ(choice[1]["required"][0].as<std::string>(), "http");
  EXPECT_EQ(root_["additionalProperties"].as<std::string>(), "false");
}

}  // namespace
}  // namespace sluice::config
