#include "proxy/cli/conditions.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proxy/common/suggestions.h"
#include "proxy/router/request_match.h"

namespace sluice {
namespace {

using config::in_quotes;

std::string in_words(const config::ValueMatch& match) {
  std::vector<std::string> parts;
  const std::pair<std::string_view, const std::string&> all[] = {{"be ", match.exact},
                                                                 {"begin with ", match.prefix},
                                                                 {"end with ", match.suffix},
                                                                 {"have in it ", match.contains},
                                                                 {"fit ", match.regex.text()}};
  for (const auto& [verb, text] : all) {
    if (!text.empty()) parts.push_back(absl::StrCat(verb, in_quotes(text)));
  }
  return absl::StrCat(match.negate ? "must not " : "must ", parts.empty() ? "be there" : absl::StrJoin(parts, " and "));
}

template <class List, class Text>
std::string one_of(const List& list, Text&& text_of) {
  return absl::StrJoin(
      list, ", ", [&](std::string* out, const auto& each) { absl::StrAppend(out, std::string_view(text_of(each))); });
}

std::string in_words(const config::HttpMatch& match, const RequestAttributes& facts, const Mismatch& misfit) {
  std::array<char, ClientIp::kTextBytes> ip;
  switch (misfit.kind) {
    case Mismatch::Kind::kPeer:
      return absl::StrCat("the client has not proven to be ", absl::StrJoin(match.peer, ", "));
    case Mismatch::Kind::kSource:
      return absl::StrCat(facts.client ? facts.client->text(ip) : "", " is not in ",
                          one_of(match.source, [](const config::Cidr& range) { return range.text(); }));
    case Mismatch::Kind::kMethod:
      return absl::StrCat("the method is not ", absl::StrJoin(match.method, ", "));
    case Mismatch::Kind::kPathRegex:
      return absl::StrCat("the path does not fit ", match.path->regex.text());
    case Mismatch::Kind::kHeader: {
      const config::HeaderMatch& header = match.headers[misfit.index];
      return absl::StrCat("the field ", header.name.text(), " ", in_words(header));
    }
    case Mismatch::Kind::kQuery: {
      const config::QueryMatch& parameter = match.query[misfit.index];
      return absl::StrCat("the parameter ", parameter.name, " ", in_words(parameter));
    }
  }
  return "";
}

}  // namespace

std::string why_not(const config::HttpMatch& match, const RequestAttributes& facts) {
  const auto is_host = [&](const config::HostPattern& pattern) { return fits_host(pattern, facts.host); };
  if (!match.host.empty() && std::none_of(match.host.begin(), match.host.end(), is_host)) {
    return absl::StrCat("the host is not ", one_of(match.host, [](const config::HostPattern& p) { return p.text(); }));
  }
  if (match.path && !match.path->regex.is_set() && !fits_path(*match.path, facts.path)) {
    const bool exact = !match.path->exact.empty();
    return absl::StrCat("the path is not ", exact ? match.path->exact : absl::StrCat("below ", match.path->prefix));
  }
  const std::optional<Mismatch> misfit = find_mismatch(match, facts);
  return misfit ? in_words(match, facts, *misfit) : "";
}

}  // namespace sluice
