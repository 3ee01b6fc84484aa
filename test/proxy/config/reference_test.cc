// docs/configuration.md must agree with the code. After a change of schema.h or of a default, write the new reference
// with SLUICE_UPDATE_DOCS=1 in the environment of this test.
#include "proxy/config/reference.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "proxy/config/loader.h"

namespace sluice::config {
namespace {

const std::filesystem::path kDocument =
    std::filesystem::path(__FILE__).parent_path() / "../../../docs/configuration.md";
constexpr std::string_view kBegin = "<!-- keys: begin -->\n";
constexpr std::string_view kEnd = "<!-- keys: end -->\n";

std::string read_document() {
  std::ifstream in(kDocument);
  EXPECT_TRUE(in.is_open()) << kDocument;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Reference, HasEachKeyOnceAndHelpForIt) {
  std::unordered_set<std::string> paths;
  for (const KeyInfo& key : list_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_TRUE(key.help.ends_with('.')) << key.path;
    EXPECT_EQ(key.type.empty(), !key.available) << key.path;
    EXPECT_EQ(key.help.find('|'), std::string::npos) << key.path << ": it would end the cell of the table";
  }
  for (const char* path :
       {"workers", "listeners[].tcp.routes[].match.sni", "upstreams[].endpoints[].weight", "admin"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

TEST(Reference, TheDocumentIsInStep) {
  std::string document = read_document();
  const size_t begin = document.find(kBegin);
  const size_t end = document.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const size_t table = begin + kBegin.size();
  const std::string expected = key_reference_markdown();
  if (std::getenv("SLUICE_UPDATE_DOCS") != nullptr) {
    std::ofstream(kDocument) << document.replace(table, end - table, expected);
    return;
  }
  EXPECT_EQ(document.substr(table, end - table), expected) << "run this test with SLUICE_UPDATE_DOCS=1";
}

TEST(Reference, TheDocumentsExamplesLoad) {
  const std::string document = read_document();
  constexpr std::string_view kFence = "```yaml\n";
  size_t examples = 0;
  for (size_t at = document.find(kFence); at != std::string::npos; at = document.find(kFence, at)) {
    at += kFence.size();
    const std::string example = document.substr(at, document.find("```", at) - at);
    const absl::StatusOr<Config> config = load_text(example, absl::StrCat("example ", ++examples));
    EXPECT_TRUE(config.ok()) << config.status() << "\n" << example;
  }
  EXPECT_GE(examples, 3U);
}

}  // namespace
}  // namespace sluice::config
