#include "proxy/router/canonical_path.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {
namespace {

using config::EscapedSlashes;
using config::Paths;

struct Result {
  PathStatus status;
  std::string target;
  std::string path;
  PathRelaxations relaxed;
  std::string error;
};

Result canonical(std::string_view target, const Paths& rules = {}) {
  std::string scratch(target.size(), '?');
  const CanonicalTarget result = canonical_target(target, rules, scratch);
  if (result.status != PathStatus::kInvalid) {
    EXPECT_EQ(result.target.data(), result.status == PathStatus::kSame ? target.data() : scratch.data()) << target;
  }
  EXPECT_EQ(result.status == PathStatus::kInvalid, result.error != nullptr) << target;
  return {result.status, std::string(result.target), std::string(result.path()), result.relaxed,
          result.error ? result.error : ""};
}

constexpr Paths kKeep{.escaped_slashes = EscapedSlashes::kKeep};
constexpr Paths kDecode{.escaped_slashes = EscapedSlashes::kDecode};
constexpr Paths kMerge{.merge_slashes = true};
constexpr Paths kBackslashes{.allow_backslashes = true};
constexpr Paths kDotParameters{.allow_dot_parameters = true};

TEST(CanonicalPath, Unchanged) {
  for (const std::string_view target :
       {"/",        "/a",   "/a/",           "/a/b.c",         "/a..b",   "/a.",    "/a..",
        "/...",     "/.a",  "/..a",          "/.well-known/x", "/a//b",   "//",     "/-_~",
        "/a;b=c;d", "/;/a", "/!$&'()*+,=:@", "/\"<>^`{|}[]",   "/%C3%A9", "/%2525", "/%252e%252e/",
        "/%3F%23",  "/%0A", "/a%3Bb",        "/%25",           "*"}) {
    const Result result = canonical(target);
    EXPECT_EQ(result.status, PathStatus::kSame) << target << ": " << result.error;
    EXPECT_EQ(result.target, target);
    EXPECT_EQ(result.path, target);
    EXPECT_EQ(result.relaxed, PathRelaxations()) << target;
  }
}

TEST(CanonicalPath, Changes) {
  const struct {
    std::string_view target, expected;
    Paths rules = {};
    PathRelaxations relaxed = {};
  } cases[] = {
      {"/%41%7a%30%2D%2e%5F%7E", "/Az0-._~"},
      {"/%c3%a9", "/%C3%A9"},
      {"/%3f%2a", "/%3F%2A"},
      {"/%C3%a9/b", "/%C3%A9/b"},
      {"/.", "/"},
      {"/./", "/"},
      {"/./a", "/a"},
      {"/a/.", "/a/"},
      {"/a/./b", "/a/b"},
      {"/a/..", "/"},
      {"/a/../", "/"},
      {"/a/../b", "/b"},
      {"/a/b/../../c", "/c"},
      {"/a/b/..", "/a/"},
      {"/a/%2e%2E/b", "/b"},
      {"/a/.%2e/b", "/b"},
      {"/%2e", "/"},
      {"/a/%2e", "/a/"},
      {"/a//../b", "/a/b"},
      {"/a/..//b", "//b"},
      {"//..", "/"},
      {"/%7e/..", "/"},
      {"/a%2525%2e", "/a%2525."},
      {"/a/../b?c/../d", "/b?c/../d"},
      {"/%61?%61", "/a?%61"},
      {"/.?a", "/?a"},

      {"//", "/", kMerge, {.merged_slashes = true}},
      {"///a//b///", "/a/b/", kMerge, {.merged_slashes = true}},
      {"/a//../b", "/b", kMerge, {.merged_slashes = true}},
      {"/a/..//b", "/b", kMerge, {.merged_slashes = true}},
      {"/a/./b", "/a/b", kMerge},
      {"/a//b?//", "/a/b?//", kMerge, {.merged_slashes = true}},

      {"/a%2Fb", "/a/b", kDecode, {.escaped_slashes = true}},
      {"/a%5cb", "/a/b", kDecode, {.escaped_slashes = true}},
      {"/a%2f..%2Fb", "/b", kDecode, {.escaped_slashes = true}},
      {"/a%2f%2e%2e", "/", kDecode, {.escaped_slashes = true}},
      {"/a%2f%2Fb", "/a//b", kDecode, {.escaped_slashes = true}},
      {"/a%252Fb%2F", "/a%252Fb/", kDecode, {.escaped_slashes = true}},
      {"/a%2f%5Cb",
       "/a/b",
       {.escaped_slashes = EscapedSlashes::kDecode, .merge_slashes = true},
       {.merged_slashes = true, .escaped_slashes = true}},

      {"/a%2fb", "/a%2Fb", kKeep, {.escaped_slashes = true}},
      {"/a%2Fb/..", "/", kKeep, {.escaped_slashes = true}},
      {"/a/b%5Cc/../d", "/a/d", kKeep, {.escaped_slashes = true}},

      {"/a\\b/..", "/", kBackslashes, {.backslashes = true}},
      {"/%2e%2e;x/a", "/..;x/a", kDotParameters, {.dot_parameters = true}},
      {"/..%3bx", "/..%3Bx", kDotParameters, {.dot_parameters = true}},
      {"/a/..;/..", "/a/", kDotParameters, {.dot_parameters = true}},
  };
  for (const auto& c : cases) {
    const Result result = canonical(c.target, c.rules);
    EXPECT_EQ(result.status, PathStatus::kChanged) << c.target << ": " << result.error;
    EXPECT_EQ(result.target, c.expected) << c.target;
    EXPECT_EQ(result.path, c.expected.substr(0, c.expected.find('?'))) << c.target;
    EXPECT_EQ(result.relaxed, c.relaxed) << c.target;
  }
}

TEST(CanonicalPath, RulesThatKeepThePath) {
  const struct {
    std::string_view target;
    Paths rules;
    PathRelaxations relaxed;
  } cases[] = {
      {"/a%2Fb", kKeep, {.escaped_slashes = true}},
      {"/%2F%5C/a", kKeep, {.escaped_slashes = true}},
      {"/a%2F...", kKeep, {.escaped_slashes = true}},
      {"/a\\b", kBackslashes, {.backslashes = true}},
      {"/\\", kBackslashes, {.backslashes = true}},
      {"/..;", kDotParameters, {.dot_parameters = true}},
      {"/.;a=b/c", kDotParameters, {.dot_parameters = true}},
      {"/a%2F..;",
       {.escaped_slashes = EscapedSlashes::kKeep, .allow_dot_parameters = true},
       {.escaped_slashes = true, .dot_parameters = true}},
  };
  for (const auto& c : cases) {
    const Result result = canonical(c.target, c.rules);
    EXPECT_EQ(result.status, PathStatus::kSame) << c.target << ": " << result.error;
    EXPECT_EQ(result.relaxed, c.relaxed) << c.target;
  }
}

TEST(CanonicalPath, Refuses) {
  const std::string escape = "a % without two hexadecimal digits", out = "a dot segment that leads out of the root",
                    slash = "an escaped slash or backslash", parameters = "a dot segment with parameters",
                    beside = "a dot segment beside a backslash or an escaped slash",
                    beginning = "no slash at its beginning", character = "a character that must be escaped",
                    fragment = "a fragment", nul = "an escaped NUL";
  const struct {
    std::string_view target;
    std::string error;
    Paths rules = {};
  } cases[] = {
      {"", beginning},
      {"a", beginning},
      {"**", beginning},
      {"*?", beginning},
      {"?a", beginning},
      {"http://a/", beginning},
      {"%2F", beginning},
      {"/%", escape},
      {"/%4", escape},
      {"/%4g", escape},
      {"/%g4", escape},
      {"/%%41", escape},
      {"/%4?1", escape},
      {"/%?41", escape},
      {"/a/../%", escape},
      {"/%u002e", escape},
      {"/%00", nul},
      {"/a%00.html", nul},
      {"/..", out},
      {"/../", out},
      {"/..?a", out},
      {"/../a", out},
      {"/a/../..", out},
      {"/./..", out},
      {"/%2e%2e/a", out},
      {"//..", out, kMerge},
      {"/a/..//..", out, kMerge},
      {"/%2F..", out, {.escaped_slashes = EscapedSlashes::kDecode, .merge_slashes = true}},
      {"/a%2fb", slash},
      {"/a%2Fb", slash},
      {"/a%5Cb", slash},
      {"/a%5cb", slash},
      {"/a\\b", "a backslash"},
      {"/..\\", "a backslash"},
      {"/a\\b", "a backslash", kDecode},
      {"/..;/a", parameters},
      {"/a/..;b=c", parameters},
      {"/.;", parameters},
      {"/%2e%2e;/", parameters},
      {"/..%3b/", parameters},
      {"/%2e%2e%3B", parameters},
      {"/a/..;?b", parameters},
      {"/a%2F..", beside, kKeep},
      {"/a/..%2Fb", beside, kKeep},
      {"/a/.%2e%5cb", beside, kKeep},
      {"/a%2F%2E/b", beside, kKeep},
      {"/a%2F..?b", beside, kKeep},
      {"/a/..\\b", beside, kBackslashes},
      {"/a\\..", beside, kBackslashes},
      {"/a\\.", beside, kBackslashes},
      {"/a%2F..;", parameters, kKeep},
      {"/..;\\a", parameters, kBackslashes},
      {"/#", fragment},
      {"/a#b", fragment},
      {"/%41#", fragment},
      {"/a?b#c", fragment},
      {"/a?12345678#", fragment},
      {"/./a?b#c", fragment},
      {"/a b", character},
      {"/a\tb", character},
      {std::string_view("/\0", 2), character},
      {"/a\x7f", character},
      {"/\xc3\xa9", character},
      {"/%41\xc3", character},
      {"/a?\xc3\xa9", character},
      {"/a?b c", character},
      {"/a?bcdefgh c", character},
      {"/a?bcdefg\x7fhi", character},
  };
  for (const auto& c : cases) {
    const Result result = canonical(c.target, c.rules);
    EXPECT_EQ(result.status, PathStatus::kInvalid) << c.target;
    EXPECT_EQ(result.error, c.error) << c.target;
    EXPECT_EQ(result.relaxed, PathRelaxations());
  }
}

TEST(CanonicalPath, QueriesAreUnchanged) {
  for (const std::string_view query : {"?", "?a=b&c=d", "??", "?/../..", "?100%", "?%2f%00%7e", "?\\..;//",
                                       "?01234567890123456789012345678901234567~!\"$%&'()*+,-./:;<=>?@[\\]^_`{|}"}) {
    const std::string same = "/a" + std::string(query), changed = "/%61/./" + std::string(query);
    EXPECT_EQ(canonical(same).target, same);
    EXPECT_EQ(canonical(same).path, "/a");
    EXPECT_EQ(canonical(changed).target, "/a/" + std::string(query));
    EXPECT_EQ(canonical(changed).path, "/a/");
  }
}

// What a server may interpret as the segments, whatever the rules kept.
std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> segments(1);
  for (size_t i = 0; i < path.size(); ++i) {
    const bool escaped = path.substr(i, 3) == "%2F" || path.substr(i, 3) == "%5C";
    if (escaped || path[i] == '/' || path[i] == '\\') {
      segments.emplace_back();
      i += escaped ? 2 : 0;
    } else {
      segments.back() += path[i];
    }
  }
  return segments;
}

// RFC 3986 sections 6.2.2.1 to 6.2.2.3 step by step, with the rules for the cases that it leaves open. Returns an empty
// string for a refused path.
std::string reference(std::string path, const Paths& rules) {
  std::string decoded;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      decoded += path[i];
      continue;
    }
    if (i + 2 >= path.size() || !isxdigit(path[i + 1]) || !isxdigit(path[i + 2])) return "";
    const std::string digits = {static_cast<char>(toupper(path[i + 1])), static_cast<char>(toupper(path[i + 2]))};
    const auto byte = static_cast<char>(std::stoi(digits, nullptr, 16));
    i += 2;
    if (byte == '\0') return "";
    if ((byte > 0 && isalnum(byte)) || byte == '-' || byte == '.' || byte == '_' || byte == '~') {
      decoded += byte;
    } else if (byte == '/' || byte == '\\') {
      if (rules.escaped_slashes == EscapedSlashes::kReject) return "";
      decoded += rules.escaped_slashes == EscapedSlashes::kDecode ? "/" : "%" + digits;
    } else {
      decoded += "%" + digits;
    }
  }
  for (const char c : decoded) {
    if (c <= ' ' || c == '\x7f' || c == '#' || (c == '\\' && !rules.allow_backslashes)) return "";
  }
  for (const std::string& part : segments_of(decoded)) {
    const size_t dots = part.starts_with("..") ? 2 : 1;
    const std::string rest = part.substr(std::min(dots, part.size()));
    if (part.starts_with(".") && (rest.starts_with(";") || rest.starts_with("%3B")) && !rules.allow_dot_parameters) {
      return "";
    }
  }
  std::vector<std::string> kept;
  bool ends_with_slash = false;
  for (size_t begin = 1; begin <= decoded.size();) {
    const size_t end = std::min(decoded.find('/', begin), decoded.size());
    const std::string segment = decoded.substr(begin, end - begin);
    begin = end + 1;
    ends_with_slash = true;
    if (segment == ".") continue;
    if (segment == "..") {
      if (kept.empty()) return "";
      kept.pop_back();
      continue;
    }
    for (const std::string& part : segments_of(segment)) {
      if (part == "." || part == "..") return "";
    }
    if (segment.empty() && rules.merge_slashes) continue;
    kept.push_back(segment);
    ends_with_slash = end < decoded.size();
  }
  std::string result = "/";
  for (size_t i = 0; i < kept.size(); ++i) result += kept[i] + (i + 1 < kept.size() || ends_with_slash ? "/" : "");
  return result;
}

TEST(CanonicalPath, AgreesWithTheReference) {
  std::mt19937 random(7);
  const std::string_view pieces[] = {"/",   "/",  "/",   ".",   ".",   "..",  ";",   "a",   "b%",  "%2F", "%2f", "%5C",
                                     "%5c", "\\", "%2e", "%2E", "%3B", "%3b", "%61", "%c3", "%25", "%00", "%",   "~",
                                     "#",   "%4", " ",   "..",  "/..", "//",  "/./", "%7E", "x",   "yz",  "/a/", "@"};
  size_t valid = 0, changed = 0;
  for (int round = 0; round < 200'000; ++round) {
    const Paths rules{.escaped_slashes = static_cast<EscapedSlashes>(random() % 3),
                      .merge_slashes = random() % 2 == 0,
                      .allow_backslashes = random() % 2 == 0,
                      .allow_dot_parameters = random() % 2 == 0};
    std::string path = "/";
    for (size_t i = random() % 8; i > 0; --i) path += pieces[random() % std::size(pieces)];
    const Result result = canonical(path, rules);
    ASSERT_EQ(result.target, reference(path, rules)) << path;
    if (result.status == PathStatus::kInvalid) continue;
    ++valid;
    changed += result.status == PathStatus::kChanged;
    EXPECT_EQ(result.status == PathStatus::kSame, result.target == path) << path;
    EXPECT_LE(result.target.size(), path.size());
    const Result again = canonical(result.target, rules);
    EXPECT_EQ(again.status, PathStatus::kSame) << path << " to " << result.target << ": " << again.error;
    for (const std::string& segment : segments_of(result.target))
      EXPECT_TRUE(segment != "." && segment != "..") << path;
  }
  EXPECT_GT(valid, 20'000u);
  EXPECT_GT(changed, 10'000u);
}

TEST(CanonicalHost, LowerCaseWithoutPortAndDot) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"a.example", "a.example"},
      {"A.Example:80", "a.example"},
      {"a.example:", "a.example"},
      {"a.example.", "a.example"},
      {"a.example.:443", "a.example"},
      {"127.0.0.1:80", "127.0.0.1"},
      {"[::1]", "[::1]"},
      {"[FE80::A]:443", "[fe80::a]"},
      {"[::1", "[::1"},
      {"", ""},
      {".", ""},
      {":80", ""},
      {"AZ[@`{", "az[@`{"},
  };
  for (const auto& [authority, expected] : cases) {
    std::string scratch(authority.size(), '?');
    const std::string_view host = canonical_host(authority, scratch);
    EXPECT_EQ(host, expected) << authority;
    EXPECT_TRUE(!authority.starts_with(expected) || host.data() == authority.data()) << authority << " is copied";
  }
}

}  // namespace
}  // namespace sluice
