// Any table of routes and any request: the router and a linear search of the list choose the same route.
//
// Input: choices, a byte each; zeros after its end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/router/http_router.h"
#include "sluice/internal/check.h"

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
constexpr std::string_view kValues[] = {"", "a", "ab", "b", "a&b"};
constexpr std::string_view kNames[] = {"x-a", "x-b"};
constexpr std::string_view kParameters[] = {"x-a", "b"};
constexpr std::string_view kMethods[] = {"GET", "POST"};

bool consists_of(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}
// A regular expression, and its meaning.
struct Meaning {
  std::string_view regex;
  bool (*fits)(std::string_view text);
};
constexpr Meaning kRegexes[] = {
    {"/a+", [](std::string_view t) { return t.size() > 1 && t[0] == '/' && consists_of(t.substr(1), "a"); }},
    {"/(a|b)/.*", [](std::string_view t) { return t.substr(0, 3) == "/a/" || t.substr(0, 3) == "/b/"; }},
    {"[/b]*", [](std::string_view t) { return consists_of(t, "/b"); }},
    {".*", [](std::string_view) { return true; }},
    {"(?i)/A/?", [](std::string_view t) { return t == "/a" || t == "/a/" || t == "/A" || t == "/A/"; }},
    {"/[^a]*", [](std::string_view t) { return !t.empty() && t[0] == '/' && t.find('a') == std::string_view::npos; }},
    {R"(\*)", [](std::string_view t) { return t == "*"; }},
    {"", nullptr},
    {"/a{2,3}|/b", [](std::string_view t) { return t == "/aa" || t == "/aaa" || t == "/b"; }},
};

// The same for a range.
constexpr Meaning kRanges[] = {
    {"10.0.0.0/8", [](std::string_view ip) { return ip.substr(0, 3) == "10."; }},
    {"10.1.0.0/16", [](std::string_view ip) { return ip.substr(0, 5) == "10.1."; }},
    {"127.0.0.1/32", [](std::string_view ip) { return ip == "127.0.0.1"; }},
};
template <size_t N>
bool means(const Meaning (&all)[N], std::string_view text, std::string_view of) {
  for (const Meaning& each : all) {
    if (each.regex == text) return each.fits(of);
  }
  SLUICE_CHECK(false);
}

std::string path(Choices& choices) {
  std::string text;
  for (size_t i = choices.below(4); i > 0; --i) text += "/" + choices.one_of(kSegments);
  return text.empty() || choices.below(3) == 0 ? text + "/" : text;
}

config::Regex regex(Choices& choices) {
  const std::string text(kRegexes[choices.below(std::size(kRegexes))].regex);
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
    parameter.name = choices.one_of(kParameters);
    set_value(parameter, choices);
  }
  if (choices.below(6) == 0) {
    made.source.push_back(config::Cidr::parse(kRanges[choices.below(std::size(kRanges))].regex).value());
  }
  if (choices.below(6) == 0) made.peer.push_back(choices.one_of(kValues));
  return made;
}

// ---- A reference implementation that shares only the configuration with the router ----

using Named = std::pair<std::string, std::string>;
struct Request {
  std::string host, path, query, method, ip;
  std::vector<Named> fields;
  std::optional<std::string> peer;
};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> pieces(1);
  for (const char c : text) c == at ? static_cast<void>(pieces.emplace_back()) : pieces.back().push_back(c);
  return pieces;
}
// The parameters of a query, by name and value.
std::vector<Named> parameters_of(const std::string& query) {
  std::vector<Named> all;
  for (const std::string& piece : split(query, '&')) {
    const size_t equals = piece.find('=');
    all.emplace_back(piece.substr(0, equals), equals == std::string::npos ? "" : piece.substr(equals + 1));
  }
  return all;
}

bool host_fits(const std::string& pattern, const std::string& host) {
  std::vector<std::string> wanted = split(pattern, '.'), labels = split(host, '.');
  if (wanted[0] == "*") wanted[0] = labels[0];
  return !labels[0].empty() && wanted == labels;
}
bool path_fits(const config::PathMatch& match, const std::string& path) {
  if (!match.exact.empty()) return path == match.exact;
  if (match.regex.is_set()) return !path.empty() && means(kRegexes, match.regex.text(), path);
  const std::string below = match.prefix + (match.prefix.back() == '/' ? "" : "/");
  return path == match.prefix || path.compare(0, below.size(), below) == 0;
}
bool value_fits(const config::ValueMatch& match, const std::string& value) {
  if (!match.exact.empty() && match.exact != value) return false;
  if (value.compare(0, match.prefix.size(), match.prefix) != 0) return false;
  const size_t tail = std::min(match.suffix.size(), value.size());
  if (value.substr(value.size() - tail) != match.suffix) return false;
  bool contained = false;
  for (size_t i = 0; i <= value.size(); ++i) contained |= value.substr(i, match.contains.size()) == match.contains;
  return contained && (!match.regex.is_set() || means(kRegexes, match.regex.text(), value));
}
bool named_fits(const config::ValueMatch& match, const std::string& name, const std::vector<Named>& all) {
  size_t fitting = 0;
  for (const Named& each : all) fitting += each.first == name && value_fits(match, each.second);
  return match.negate ? fitting == 0 : fitting > 0;
}

// As documented in docs/guides/http.md.
bool fits(const config::HttpMatch& match, const Request& request) {
  bool host = match.host.empty(), method = match.method.empty(), source = match.source.empty();
  for (const config::HostPattern& pattern : match.host) host |= host_fits(pattern.text(), request.host);
  for (const std::string& each : match.method) method |= each == request.method;
  for (const config::Cidr& range : match.source) source |= means(kRanges, range.text(), request.ip);
  bool peer = match.peer.empty();
  for (const std::string& each : match.peer) peer |= request.peer == each;
  bool all = host && method && source && peer && (!match.path || path_fits(*match.path, request.path));
  for (const config::HeaderMatch& header : match.headers) {
    all = all && named_fits(header, header.name.text(), request.fields);
  }
  for (const config::QueryMatch& query : match.query) {
    all = all && named_fits(query, query.name, parameters_of(request.query));
  }
  return all;
}
int first_that_fits(const std::vector<config::HttpRoute>& routes, const Request& request) {
  for (size_t i = 0; i < routes.size(); ++i) {
    if (!routes[i].match || fits(*routes[i].match, request)) return static_cast<int>(i);
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
    Request request;
    Fields fields;
    for (size_t count = choices.below(3); count > 0; --count) {
      const Named& field = request.fields.emplace_back(choices.one_of(kNames), choices.one_of(kValues));
      SLUICE_CHECK(fields.add(pool, field.first, field.second));
    }
    request.host = choices.one_of(kHosts);
    request.method = choices.one_of(kMethods);
    request.path = choices.below(8) == 1 ? "*" : choices.below(8) == 1 ? "" : path(choices);
    for (size_t count = choices.below(3); count > 0; --count) {
      request.query += choices.one_of(kNames) + "=" + choices.one_of(kValues) + "&";
    }
    request.ip = choices.below(2) ? "10.1.2.3" : "127.0.0.1";
    const config::Address from = config::Address::parse(request.ip + ":1").value();
    const ClientIp client(PeerAddress::copy_of(from.data(), from.length()));
    Agreement agreed;
    const std::string peer = choices.one_of(kValues);
    agreed.peer_names = {peer};
    if (choices.below(2)) request.peer = peer;
    const RequestAttributes facts{.host = request.host,
                                  .path = request.path,
                                  .query = request.query,
                                  .method = request.method,
                                  .fields = &fields,
                                  .client = &client,
                                  .agreed = request.peer ? &agreed : nullptr};
    const HttpTarget* const target = router.route(facts);
    SLUICE_CHECK((target ? static_cast<int>(target->index) : -1) == first_that_fits(http.routes, request));
  }
  return 0;
}
