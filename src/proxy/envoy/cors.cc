#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/config/model/regex.h"
#include "proxy/envoy/http_filters.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (const std::string_view each : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    words.emplace_back(absl::StripAsciiWhitespace(each));
  }
  return words;
}

bool takes_every_origin(const Message& origin) {
  const Message regex = origin.sub("safe_regex");
  return (regex && (regex.text("regex") == ".*" || regex.text("regex") == ".+")) || origin.text("exact") == "*" ||
         (origin.has("prefix") && origin.text("prefix").empty());
}

}  // namespace

Node cors_node(const Message& policy) {
  Node out = map_node();
  if (const auto share = percent_of(policy, "filter_enabled"); share && *share == 0) return out;
  std::vector<std::string> origins, regexes;
  for (const Message& origin : policy.subs("allow_origin_string_match")) {
    if (takes_every_origin(origin)) {
      origins.emplace_back("*");
    } else if (origin.has("exact")) {
      origins.push_back(origin.text("exact"));
    } else if (const Message regex = origin.sub("safe_regex");
               regex && config::Regex::parse(regex.text("regex")).ok()) {
      regexes.push_back(regex.text("regex"));
    } else {
      origin.refuse("", "an origin is exact, a regular expression, or `*`");
    }
  }
  const bool credentials = policy.flag("allow_credentials");
  for (const std::string& origin : origins) {
    if (origin != "*" || !credentials) continue;
    policy.refuse("allow_credentials",
                  "with `*` every page could send requests in the name of your users: list the origins");
    return out;
  }
  if (origins.empty() && regexes.empty()) return out;
  put_words(out, "origins", origins);
  put_words(out, "origin_regex", regexes);
  put_words(out, "methods", words_of(absl::AsciiStrToUpper(policy.text("allow_methods"))));
  put_words(out, "headers", words_of(policy.text("allow_headers")));
  put_words(out, "expose", words_of(policy.text("expose_headers")));
  if (credentials) put(out, "credentials", "true");
  uint32_t seconds = 0;
  if (absl::SimpleAtoi(policy.text("max_age"), &seconds))
    put(out, "max_age", duration_text(std::chrono::seconds(seconds)));
  return out;
}

}  // namespace sluice::envoy
