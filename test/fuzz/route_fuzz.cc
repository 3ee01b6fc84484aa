// Any table of routes and any request: the router's tables and a look through the list, with the conditions one at a
// time, take the same route.
//
// Input: choices, a byte each; zeros behind its end.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pool/check.h"
#include "proxy/route/http_router.h"
#include "proxy/route/request_match.h"

namespace sluice {
namespace {

class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  size_t below(size_t bound) { return at_ < size_ ? data_[at_++] % bound : 0; }
  template <size_t N>
  std::string one_of(const std::string_view (&from)[N]) {
    return std::string(from[below(N)]);
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

constexpr std::string_view kHostPatterns[] = {"a.x", "b.x", "*.x", "x", "*.b.x"};
constexpr std::string_view kHosts[] = {"a.x", "b.x", "c.x", "x", "a.b.x", "", "[::1]"};
constexpr std::string_view kSegments[] = {"a", "b", "aa", "", "ab"};
constexpr std::string_view kRegexes[] = {"/a+",    "/(a|b)/.*", "[/b]*", ".*",        "(?i)/A/?",
                                         "/[^a]*", "\\*",       "",      "/a{2,3}|/b"};
constexpr std::string_view kValues[] = {"", "a", "ab", "b", "a&b"};
constexpr std::string_view kNames[] = {"x-a", "x-b"};
constexpr std::string_view kMethods[] = {"GET", "POST"};
constexpr std::string_view kRanges[] = {"10.0.0.0/8", "10.1.0.0/16", "127.0.0.1"};

std::string path(Choices& choices) {
  std::string text;
  for (size_t i = choices.below(4); i > 0; --i) text += "/" + choices.one_of(kSegments);
  return text.empty() || choices.below(3) == 0 ? text + "/" : text;
}

config::Regex regex(Choices& choices) {
  const std::string text = choices.one_of(kRegexes);
  return text.empty() ? config::Regex() : config::Regex::parse(text).value();
}

config::PathMatch path_match(Choices& choices) {
  config::PathMatch match;
  switch (choices.below(3)) {
    case 0:
      match.exact = path(choices);
      break;
    case 1:
      match.prefix = path(choices);
      break;
    default:
      match.regex = regex(choices);
      if (!match.regex.is_set()) match.prefix = "/";
  }
  return match;
}

void set_value(config::ValueMatch& match, Choices& choices) {
  switch (choices.below(6)) {
    case 0:
      match.exact = choices.one_of(kValues);
      break;
    case 1:
      match.prefix = choices.one_of(kValues);
      break;
    case 2:
      match.suffix = choices.one_of(kValues);
      break;
    case 3:
      match.contains = choices.one_of(kValues);
      break;
    case 4:
      match.regex = regex(choices);
      break;
    default:
      break;
  }
  match.negate = choices.below(3) == 0;
}

config::HttpMatch match(Choices& choices) {
  config::HttpMatch made;
  for (size_t i = choices.below(3); i > 0; --i) {
    made.host.push_back(config::HostPattern::parse(choices.one_of(kHostPatterns)).value());
  }
  if (choices.below(4) != 0) made.path = path_match(choices);
  if (choices.below(4) == 0) made.method.push_back(choices.one_of(kMethods));
  if (choices.below(4) == 0) {
    config::HeaderMatch& header = made.headers.emplace_back();
    header.name = config::FieldName::parse(choices.one_of(kNames)).value();
    set_value(header, choices);
  }
  if (choices.below(4) == 0) {
    config::QueryMatch& parameter = made.query.emplace_back();
    parameter.name = choices.one_of(kNames);
    set_value(parameter, choices);
  }
  if (choices.below(6) == 0) made.source.push_back(config::Cidr::parse(choices.one_of(kRanges)).value());
  if (choices.below(6) == 0) made.peer.push_back(choices.one_of(kValues));
  return made;
}

// As docs/http.md has it: in the order of the list, each condition.
int first_that_fits(const std::vector<config::HttpRoute>& routes, const HttpFacts& facts) {
  for (size_t i = 0; i < routes.size(); ++i) {
    const std::optional<config::HttpMatch>& match = routes[i].match;
    if (!match) return static_cast<int>(i);
    bool host = match->host.empty();
    for (const config::HostPattern& pattern : match->host) host = host || fits_host(pattern, facts.host);
    if (!host || (match->path && !fits_path(*match->path, facts.path))) continue;
    if (!find_misfit(*match, facts)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  Choices choices(data, size);
  config::Http http;
  for (size_t i = 1 + choices.below(16); i > 0; --i) {
    config::HttpRoute& route = http.routes.emplace_back();
    route.respond.emplace();
    if (choices.below(8) != 1) route.match = match(choices);
  }
  const HttpRouter router(http, {});

  ChunkPool pool({.budget_bytes = size_t{1} << 20});
  const ChunkPool::Use use(&pool);
  for (int i = 0; i < 8; ++i) {
    Fields fields;
    for (size_t count = choices.below(3); count > 0; --count) {
      SLUICE_CHECK(fields.add(pool, choices.one_of(kNames), choices.one_of(kValues)));
    }
    const std::string host = choices.one_of(kHosts), method = choices.one_of(kMethods);
    const std::string asked = choices.below(8) == 1 ? "*" : choices.below(8) == 1 ? "" : path(choices);
    std::string query;
    for (size_t count = choices.below(3); count > 0; --count) {
      query += choices.one_of(kNames) + "=" + choices.one_of(kValues) + "&";
    }
    const config::Address from = config::Address::parse(choices.below(2) ? "10.1.2.3:1" : "127.0.0.1:1").value();
    const ClientIp client(PeerAddress::copy_of(from.data(), from.length()));
    Agreement agreed;
    agreed.peer_names = {choices.one_of(kValues)};
    const HttpFacts facts{.host = host,
                          .path = asked,
                          .query = query,
                          .method = method,
                          .fields = &fields,
                          .client = &client,
                          .agreed = choices.below(2) ? &agreed : nullptr};
    const HttpTarget* const target = router.route(facts);
    SLUICE_CHECK((target ? static_cast<int>(target->index) : -1) == first_that_fits(http.routes, facts));
  }
  return 0;
}
