#include "proxy/route/request_match.h"

#include <algorithm>
#include <string_view>

namespace sluice {
namespace {

bool fits_value(const config::ValueMatch& match, std::string_view value) {
  return (match.exact.empty() || value == match.exact) && value.starts_with(match.prefix) &&
         value.ends_with(match.suffix) && value.find(match.contains) != std::string_view::npos;
}

bool fits_header(const config::HeaderMatch& match, const Fields& fields) {
  const std::string& name = match.name.text();
  bool found = false;
  for (size_t i = fields.find(name); i != Fields::npos && !found; i = fields.find(name, i + 1)) {
    found = fits_value(match, fields[i].value);
  }
  return found != match.negate;
}

bool fits_parameter(const config::QueryMatch& match, std::string_view query) {
  bool found = false;
  while (!query.empty() && !found) {
    const std::string_view parameter = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(parameter.size() + 1, query.size()));
    const size_t equals = std::min(parameter.find('='), parameter.size());
    if (parameter.substr(0, equals) != match.name) continue;
    found = fits_value(match, parameter.substr(std::min(equals + 1, parameter.size())));
  }
  return found != match.negate;
}

}  // namespace

bool fits_request(const config::HttpMatch& match, const HttpFacts& facts) {
  if (!match.peer.empty() && !(facts.agreed && facts.agreed->peer_is_one_of(match.peer))) return false;
  if (!match.source.empty()) {
    const auto holds = [&](const config::Cidr& range) { return range.contains(facts.client->bytes()); };
    if (!facts.client || std::none_of(match.source.begin(), match.source.end(), holds)) return false;
  }
  if (match.method.empty() && match.headers.empty() && match.query.empty()) return true;
  if (facts.method.empty() || !facts.fields) return false;
  const auto is_method = [&](std::string_view method) { return method == facts.method; };
  if (!match.method.empty() && std::none_of(match.method.begin(), match.method.end(), is_method)) return false;
  return std::all_of(match.headers.begin(), match.headers.end(),
                     [&](const config::HeaderMatch& each) { return fits_header(each, *facts.fields); }) &&
         std::all_of(match.query.begin(), match.query.end(),
                     [&](const config::QueryMatch& each) { return fits_parameter(each, facts.query); });
}

}  // namespace sluice
