// docs/reference/configuration.md must agree with the code. After a change of schema.h or of a default, write the new
// reference with SLUICE_UPDATE_DOCS=1 in the environment of this test. test/e2e/docs_test.py has its examples checked.
#include "proxy/config/load/reference.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/router/canonical_path.h"

namespace sluice::config {
namespace {

const std::filesystem::path kDocuments = SLUICE_SOURCE_DIR "/docs";
const std::filesystem::path kDocument = kDocuments / "reference/configuration.md";
constexpr std::string_view kBegin = "<!-- keys: begin -->\n";
constexpr std::string_view kEnd = "<!-- keys: end -->\n";

std::string read_document(const std::filesystem::path& path = kDocument) {
  std::ifstream in(path);
  EXPECT_TRUE(in.is_open()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Reference, HasEachKeyOnceAndHelpForIt) {
  std::unordered_set<std::string> paths;
  for (const KeyInfo& key : list_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_TRUE(key.help.ends_with('.')) << key.path;
    EXPECT_FALSE(key.type.empty()) << key.path;
    EXPECT_EQ(key.help.find('|'), std::string::npos) << key.path << ": it would end the cell of the table";
  }
  for (const char* path :
       {"workers", "listeners[].tcp.routes[].match.sni", "upstreams[].endpoints[].weight", "admin.address"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
}

TEST(Reference, DocumentIsCurrent) {
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

// The table of canonical paths in guides/http.md: `path`, `path` | `canonical`, 400, or the same |
TEST(Reference, DocumentedCanonicalPaths) {
  const std::string document = read_document(kDocuments / "guides/http.md");
  const size_t begin = document.find("| path | becomes |");
  ASSERT_NE(begin, std::string::npos);
  const std::vector<std::string_view> lines = absl::StrSplit(std::string_view(document).substr(begin), '\n');
  size_t paths = 0;
  for (size_t i = 2; i < lines.size() && !lines[i].empty(); ++i) {
    const std::vector<std::string_view> cells = absl::StrSplit(lines[i], " | ");
    ASSERT_GE(cells.size(), 3U) << lines[i];
    const std::vector<std::string_view> ticked = absl::StrSplit(cells[0], '`');
    for (size_t j = 1; j < ticked.size(); j += 2, ++paths) {
      std::string scratch(ticked[j].size(), '?');
      const CanonicalTarget canonical = canonical_target(ticked[j], {}, scratch);
      const std::string result = canonical.status == PathStatus::kInvalid ? "400"
                                 : cells[1] == "the same" && canonical.target == ticked[j]
                                     ? "the same"
                                     : absl::StrCat("`", canonical.target, "`");
      EXPECT_EQ(cells[1], result) << ticked[j];
    }
  }
  EXPECT_GE(paths, 15U);
}

}  // namespace
}  // namespace sluice::config
