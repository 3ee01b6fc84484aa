#include "proxy/router/request_match.h"

#include <algorithm>
#include <string_view>

#include "proxy/http/message/named_values.h"

namespace sluice {
namespace {

bool fits_value(const config::ValueMatch& match, std::string_view value) {
  return (match.exact.empty() || value == match.exact) && value.starts_with(match.prefix) &&
         value.ends_with(match.suffix) && value.find(match.contains) != std::string_view::npos &&
         (!match.regex.is_set() || match.regex.fits(value));
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
    const NamedValue parameter = take_parameter(query);
    found = parameter.name == match.name && fits_value(match, parameter.value);
  }
  return found != match.negate;
}

}  // namespace

std::optional<Mismatch> find_mismatch(const config::HttpMatch& match, const RequestAttributes& facts) {
  using Kind = Mismatch::Kind;
  if (!match.peer.empty() && !(facts.agreed && facts.agreed->peer_is_one_of(match.peer))) return Mismatch{Kind::kPeer};
  if (!match.source.empty()) {
    const auto holds = [&](const config::Cidr& range) { return range.contains(facts.client->bytes()); };
    if (!facts.client || std::none_of(match.source.begin(), match.source.end(), holds)) return Mismatch{Kind::kSource};
  }
  const bool known = !facts.method.empty() && facts.fields;
  const auto is_method = [&](std::string_view method) { return method == facts.method; };
  if (!match.method.empty() && (!known || std::none_of(match.method.begin(), match.method.end(), is_method))) {
    return Mismatch{Kind::kMethod};
  }
  for (size_t i = 0; i < match.headers.size(); ++i) {
    if (!known || !fits_header(match.headers[i], *facts.fields)) return Mismatch{Kind::kHeader, i};
  }
  for (size_t i = 0; i < match.query.size(); ++i) {
    if (!known || !fits_parameter(match.query[i], facts.query)) return Mismatch{Kind::kQuery, i};
  }
  if (match.path && match.path->regex.is_set() && !(known && fits_path(*match.path, facts.path))) {
    return Mismatch{Kind::kPathRegex};
  }
  return std::nullopt;
}

bool fits_host(const config::HostPattern& pattern, std::string_view host) {
  const std::string_view text = pattern.text();
  if (!text.starts_with('*')) return text == host;
  const std::string_view suffix = text.substr(text.find('.'));
  const size_t labels = host.size() - std::min(host.size(), suffix.size());  // The bytes that the stars stand for.
  if (!host.ends_with(suffix) || labels == 0 || host.starts_with('.')) return false;
  return pattern.is_deep() || host.find('.') == labels;
}

bool fits_path(const config::PathMatch& match, std::string_view path) {
  if (!match.exact.empty()) return path == match.exact;
  if (match.regex.is_set()) return !path.empty() && match.regex.fits(path);
  if (!path.starts_with(match.prefix)) return false;
  return match.prefix.ends_with('/') || path.size() == match.prefix.size() || path[match.prefix.size()] == '/';
}

}  // namespace sluice
